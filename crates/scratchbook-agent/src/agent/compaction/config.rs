//! Configures when a conversation is summarized, and by which summarizer.

use std::sync::Arc;

use super::EventsSummarizer;
use scratchbook_core::error::{Error, Result};

/// Configures when the events of a session are summarized, so that requests stay within a model's limits. The events
/// stay in the session; requests contain the summary instead.
///
/// At least one of two rules is needed:
///
/// - [By tokens](Self::by_tokens): when a request has become too long, one summary replaces all earlier summaries and
///   all events except the last ones. There is only one summary at a time, so the requests and the events that a run
///   reads stay limited in size.
/// - [By invocations](Self::by_invocations): after a number of new invocations, a summary is made of these invocations
///   and, for context, of a few earlier ones. Every summary stays in the requests.
///
/// ```
/// use scratchbook::agent::EventsCompactionConfig;
/// use scratchbook::model::ScriptedLlm;
/// use scratchbook::{InMemorySessionService, LlmAgent, Runner};
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
    /// The number of new invocations after which events are summarized.
    pub compaction_interval: Option<usize>,
    /// How many earlier invocations are summarized again together with the new ones.
    pub overlap_size: Option<usize>,
    /// Events are summarized once a request has this many tokens, by the model's last count. Without a count, four
    /// characters are estimated as one token.
    pub token_threshold: Option<u64>,
    /// How many of the last events are kept. More are kept if a call would otherwise be separated from its response.
    pub event_retention_size: Option<usize>,
    /// The summarizer; by default an [`LlmEventsSummarizer`](crate::agent::LlmEventsSummarizer) with the root agent's
    /// model.
    pub summarizer: Option<Arc<dyn EventsSummarizer>>,
}

impl EventsCompactionConfig {
    /// Summarizes before a model call or after an invocation, once the request has this many tokens.
    #[must_use]
    pub fn by_tokens(token_threshold: u64, event_retention_size: usize) -> Self {
        Self::default().with_tokens(token_threshold, event_retention_size)
    }

    /// Summarizes after every `compaction_interval` invocations. Each summary also covers `overlap_size` earlier ones.
    #[must_use]
    pub fn by_invocations(compaction_interval: usize, overlap_size: usize) -> Self {
        Self { compaction_interval: Some(compaction_interval), overlap_size: Some(overlap_size), ..Self::default() }
    }

    /// Adds the rule by tokens. It is checked before the rule by invocations.
    #[must_use]
    pub fn with_tokens(mut self, token_threshold: u64, event_retention_size: usize) -> Self {
        self.token_threshold = Some(token_threshold);
        self.event_retention_size = Some(event_retention_size);
        self
    }

    /// Uses this summarizer.
    #[must_use]
    pub fn with_summarizer(mut self, summarizer: impl EventsSummarizer) -> Self {
        self.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// Returns the rules that are set.
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
