//! Summaries in place of events, so that requests stay within what a model can bear: when, of which events, by whom.
//!
//! What a summary stands for, and how requests show it, is in `history/`. The rules are ADK's, but for what the documents
//! list.

mod config;
mod open_calls;
mod plan;
mod summarizer;
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::drive::catch_panic;
use super::history::{compacted, live_backward};
use super::{Agent, InvocationContext};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventActions, EventCompaction};
use scratchbook_core::session::Session;

pub use config::EventsCompactionConfig;
pub use summarizer::{EventsSummarizer, EventsSummary, LlmEventsSummarizer};

use config::{InvocationRule, TokenRule};
use plan::{Log, Plan};

pub(super) use tokens::estimated;

/// Sums up the events of the sessions of an app.
#[derive(Debug)]
pub(crate) struct Compactor {
    tokens: Option<TokenRule>,
    invocations: Option<InvocationRule>,
    summarizer: Arc<dyn EventsSummarizer>,
}

impl Compactor {
    /// # Errors
    ///
    /// `InvalidArgument` for a configuration that says nothing or half of something, and where nobody is there to sum up.
    pub(crate) fn new(config: EventsCompactionConfig, root: &dyn Agent) -> Result<Self> {
        let (tokens, invocations) = config.rules()?;
        let of_root = || Some(Arc::new(LlmEventsSummarizer::new(Arc::clone(root.as_llm_agent()?.model()?))) as Arc<_>);
        let summarizer = config.summarizer.or_else(of_root).ok_or_else(|| {
            let name = root.name();
            Error::invalid(format!("the root agent '{name}' has no model to sum up events; set a summarizer"))
        })?;
        Ok(Self { tokens, invocations, summarizer })
    }

    /// How many invocations before the last summary a run needs to know. `None` where there are always several summaries,
    /// none of which stands for all before it.
    pub(crate) fn overlap(&self) -> Option<usize> {
        self.tokens.map(|_| self.invocations.map_or(0, |rule| rule.overlap))
    }
}

/// What one run does about summaries.
#[derive(Debug)]
pub(crate) struct Compacting {
    compactor: Arc<Compactor>,
    busy: AtomicBool,
    /// A summarizer that has failed is not asked again and again.
    failed: AtomicBool,
    planned: AtomicU64,
    /// How many events the run knew then.
    known: AtomicUsize,
}

/// Keeps other branches of the run from summing up the same.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Compacting {
    pub(crate) fn new(compactor: Arc<Compactor>) -> Self {
        Self { compactor, busy: false.into(), failed: false.into(), planned: 0.into(), known: 0.into() }
    }

    /// The number of the last event that was there when the last summary was asked for.
    pub(crate) fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// How many events the run's copy of the session had then.
    pub(crate) fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// The event of the summary that is due before an agent asks its model, and what keeps others from making it again
    /// until it is committed. `estimate` is how many tokens the request has, for where nobody has counted.
    pub(super) async fn before_model(
        &self,
        context: &InvocationContext,
        estimate: impl Fn() -> u64 + Send,
    ) -> Option<(Event, Busy<'_>)> {
        let rule = self.compactor.tokens?;
        let busy = self.begin()?;
        let plan = by_tokens(rule, context, Some(context.agent_name()), estimate)?;
        Some((self.summary(plan, context).await?, busy))
    }

    /// The event of the summary that is due after a run.
    pub(crate) async fn after_run(&self, context: &InvocationContext) -> Option<Event> {
        let _busy = self.begin()?;
        let by_tokens = self.compactor.tokens.and_then(|rule| by_tokens(rule, context, None, || estimated_of(context)));
        let by_invocations = || in_log(context, |log| log.invocations(self.compactor.invocations?));
        let plan = by_tokens.or_else(by_invocations)?;
        self.summary(plan, context).await
    }

    /// Nothing where a summary is under way, on another branch of the run.
    fn begin(&self) -> Option<Busy<'_>> {
        let free = !self.failed.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::AcqRel);
        free.then(|| Busy(&self.busy))
    }

    /// Asks for a summary. Where there is none to be had, the events stay as they are and the run goes on.
    async fn summary(&self, plan: Plan, context: &InvocationContext) -> Option<Event> {
        let (last, known) = {
            let session = context.session();
            (session.events().last().and_then(|event| event.seq), session.events().len())
        };
        self.planned.store(last.unwrap_or_default(), Ordering::Relaxed);
        self.known.store(known, Ordering::Relaxed);
        let events = plan.events.len();
        let asked = catch_panic("the summarizer", self.compactor.summarizer.summarize_events(&plan.events)).await;
        let says_something = |summary: &EventsSummary| !summary.content.text().trim().is_empty();
        let Some(summary) = asked
            // The error's words may be the model's, about what was said.
            .inspect_err(|error| {
                tracing::warn!(events, kind = error.kind().as_str(), "events could not be summed up");
            })
            .unwrap_or_default()
            .filter(says_something)
        else {
            tracing::warn!(events, "no summary; the events stay in the requests");
            self.failed.store(true, Ordering::Relaxed);
            return None;
        };
        tracing::debug!(events, "events summed up");
        Some(event(plan, summary, context))
    }
}

/// The event that carries a summary, as google-adk makes it.
fn event(plan: Plan, summary: EventsSummary, context: &InvocationContext) -> Event {
    let mut compacted_content = summary.content;
    compacted_content.role = Some("model".to_owned());
    let compaction = EventCompaction::new(plan.start, plan.end, compacted_content);
    let environment = context.environment();
    let event = Event::new("user").with_id(environment.new_id()).with_invocation_id(environment.new_id());
    Event {
        timestamp: Some(environment.now()),
        usage_metadata: summary.usage_metadata.map(Box::new),
        actions: EventActions { compaction: Some(compaction.into()), ..EventActions::default() },
        ..event
    }
}

/// What is due by the count of tokens: of an agent's requests before it asks, of anybody's after a run.
fn by_tokens(
    rule: TokenRule,
    context: &InvocationContext,
    agent: Option<&str>,
    estimate: impl Fn() -> u64,
) -> Option<Plan> {
    let session = context.session();
    let tokens = tokens::counted(live_backward(session.events()), agent).unwrap_or_else(estimate);
    (tokens >= rule.threshold).then(|| in_log(context, |log| log.all_but(rule.retention, agent.is_some())))?
}

fn estimated_of(context: &InvocationContext) -> u64 {
    let session = context.session();
    let shown = compacted(&live(&session), 0, "", |event| event.isolation_scope.is_none());
    estimated(shown.iter().filter_map(|event| event.content.as_ref()))
}

fn in_log<T>(context: &InvocationContext, plan: impl FnOnce(Log<'_, '_>) -> Option<T>) -> Option<T> {
    let session = context.session();
    let begun = session.events().get(0)?.timestamp.unwrap_or_default();
    plan(Log::new(&live(&session), session.seq(), begun))
}

fn live(session: &Session) -> Vec<&Arc<Event>> {
    let mut live: Vec<_> = live_backward(session.events()).collect();
    live.reverse();
    live
}
