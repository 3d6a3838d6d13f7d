//! When a conversation is summed up, and by whom.

use std::sync::Arc;

use super::EventsSummarizer;
use scratchbook_core::error::{Error, Result};

/// When the events of a session are summed up, so that requests stay within what a model can bear. The events stay in the
/// session; requests have the summary in their place.
///
/// One of the two rules is needed, or both:
///
/// - [By tokens](Self::by_tokens): when a request has become too long, all but the last events are summed up, together with
///   the summaries before them. There is one summary at a time, and both requests and what a run reads of the session stay as
///   long as they are.
/// - [By invocations](Self::by_invocations): after so many invocations, these are summed up, with some before them for the
///   thread. Each summary stays in the requests.
///
/// ```
/// use scratchbook::{EventsCompactionConfig, InMemorySessionService, LlmAgent, Runner, ScriptedLlm};
///
/// let agent = LlmAgent::builder("assistant").model(ScriptedLlm::new(["Noted."])).build()?;
/// let compaction = EventsCompactionConfig::by_tokens(100_000, 20);
/// let runner =
///     Runner::builder("app", agent, InMemorySessionService::new()).events_compaction(compaction).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EventsCompactionConfig {
    /// How many new invocations are summed up at a time.
    pub compaction_interval: Option<usize>,
    /// How many invocations before them are summed up once more.
    pub overlap_size: Option<usize>,
    /// From how many tokens in a request on the events before it are summed up: as the model has counted them last, else
    /// four characters a token.
    pub token_threshold: Option<u64>,
    /// How many of the last events stay as they are; more where a call and its response would be parted.
    pub event_retention_size: Option<usize>,
    /// Who sums up; by default an [`LlmEventsSummarizer`](crate::agent::LlmEventsSummarizer) with the root agent's model.
    pub summarizer: Option<Arc<dyn EventsSummarizer>>,
}

impl EventsCompactionConfig {
    /// Before a model call, and after an invocation, where the request has so many tokens.
    #[must_use]
    pub fn by_tokens(token_threshold: u64, event_retention_size: usize) -> Self {
        Self::default().with_tokens(token_threshold, event_retention_size)
    }

    /// After so many invocations, together with so many before them.
    #[must_use]
    pub fn by_invocations(compaction_interval: usize, overlap_size: usize) -> Self {
        Self { compaction_interval: Some(compaction_interval), overlap_size: Some(overlap_size), ..Self::default() }
    }

    /// By tokens as well; this rule goes first.
    #[must_use]
    pub fn with_tokens(mut self, token_threshold: u64, event_retention_size: usize) -> Self {
        self.token_threshold = Some(token_threshold);
        self.event_retention_size = Some(event_retention_size);
        self
    }

    /// Summed up by this.
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl EventsSummarizer) -> Self {
        self.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// The two rules, as far as they are given.
    pub(super) fn rules(&self) -> Result<(Option<TokenRule>, Option<InvocationRule>)> {
        let tokens = match (self.token_threshold, self.event_retention_size) {
            (Some(0), _) => return Err(Error::invalid("token_threshold is 0; it has to be at least 1")),
            (Some(threshold), Some(retention)) => Some(TokenRule { threshold, retention }),
            (None, None) => None,
            _ => return Err(Error::invalid("token_threshold and event_retention_size go together; set both")),
        };
        let invocations = match (self.compaction_interval, self.overlap_size) {
            (Some(0), _) => return Err(Error::invalid("compaction_interval is 0; it has to be at least 1")),
            (Some(interval), Some(overlap)) => Some(InvocationRule { interval, overlap }),
            (None, None) => None,
            _ => return Err(Error::invalid("compaction_interval and overlap_size go together; set both")),
        };
        if tokens.is_none() && invocations.is_none() {
            return Err(Error::invalid(
                "nothing says when to sum up events; set token_threshold and event_retention_size, or \
                 compaction_interval and overlap_size",
            ));
        }
        Ok((tokens, invocations))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRule {
    pub(super) threshold: u64,
    pub(super) retention: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct InvocationRule {
    pub(super) interval: usize,
    pub(super) overlap: usize,
}
