//! Replaces events by summaries, so that requests stay within a model's limits. This module decides when a summary is
//! made, of which events and by which summarizer.
//!
//! `history/` decides which events a summary replaces and how requests show it. The rules are ADK's, except for the
//! differences that the documentation lists.

mod config;
mod open_calls;
mod plan;
mod summarizer;
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::agent_turn::catch_panic;
use super::history::{compacted, live_backward};
use super::{Agent, InvocationContext};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventActions, EventCompaction};
use scratchbook_core::session::Session;

pub use config::EventsCompactionConfig;
pub use summarizer::{EventsSummarizer, EventsSummary, LlmEventsSummarizer};

use config::{InvocationRule, TokenRule};
use plan::{SessionLog, SummaryPlan};

pub(super) use tokens::estimated;

/// Summarizes the events of an app's sessions.
#[derive(Debug)]
pub(crate) struct Compactor {
    tokens: Option<TokenRule>,
    invocations: Option<InvocationRule>,
    summarizer: Arc<dyn EventsSummarizer>,
}

impl Compactor {
    /// # Errors
    ///
    /// `InvalidArgument` if the configuration has no complete rule, or if there is no summarizer.
    pub(crate) fn new(config: EventsCompactionConfig, root: &dyn Agent) -> Result<Self> {
        let (tokens, invocations) = config.rules()?;
        let of_root = || Some(Arc::new(LlmEventsSummarizer::new(Arc::clone(root.as_llm_agent()?.model()?))) as Arc<_>);
        let summarizer = config.summarizer.or_else(of_root).ok_or_else(|| {
            let name = root.name();
            Error::invalid(format!("the root agent '{name}' has no model to sum up events; set a summarizer"))
        })?;
        Ok(Self { tokens, invocations, summarizer })
    }

    /// Returns how many invocations before the last summary a run has to read. Returns `None` without a rule by tokens:
    /// there can then be several summaries, and none of them covers everything before it.
    pub(crate) fn overlap(&self) -> Option<usize> {
        self.tokens.map(|_| self.invocations.map_or(0, |rule| rule.overlap))
    }
}

/// The summaries of one run.
#[derive(Debug)]
pub(crate) struct RunCompaction {
    compactor: Arc<Compactor>,
    busy: AtomicBool,
    /// Whether a summarizer failed. It is not called again in this run.
    failed: AtomicBool,
    planned: AtomicU64,
    /// How many events of the session the run had in memory when the last summary was planned.
    known: AtomicUsize,
}

/// While a permit exists, no other branch of the run makes a summary.
#[derive(Debug)]
pub(super) struct SummaryPermit<'a>(&'a AtomicBool);

impl Drop for SummaryPermit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl RunCompaction {
    pub(crate) fn new(compactor: Arc<Compactor>) -> Self {
        Self { compactor, busy: false.into(), failed: false.into(), planned: 0.into(), known: 0.into() }
    }

    /// Returns the number of the last event that existed when the last summary was planned.
    pub(crate) fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Returns how many events of the session the run had in memory when the last summary was planned.
    pub(crate) fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// If a summary is due before an agent calls its model, returns the summary's event and a permit. Until the summary
    /// is committed, the permit keeps other branches from making the same summary. If no model has counted the
    /// request's tokens, `estimate` returns their number.
    pub(super) async fn before_model(
        &self,
        context: &InvocationContext,
        estimate: impl Fn() -> u64 + Send,
    ) -> Option<(Event, SummaryPermit<'_>)> {
        let rule = self.compactor.tokens?;
        let busy = self.begin()?;
        let plan = by_tokens(rule, context, Some(context.agent_name()), estimate)?;
        Some((self.summary(plan, context).await?, busy))
    }

    /// Returns the summary that is due after a run, as an event.
    pub(crate) async fn after_run(&self, context: &InvocationContext) -> Option<Event> {
        let _busy = self.begin()?;
        let by_tokens = self.compactor.tokens.and_then(|rule| by_tokens(rule, context, None, || estimated_of(context)));
        let by_invocations = || in_log(context, |log| log.invocations(self.compactor.invocations?));
        let plan = by_tokens.or_else(by_invocations)?;
        self.summary(plan, context).await
    }

    /// Returns a permit to make a summary; `None` if another branch is making one or a summarizer has failed.
    fn begin(&self) -> Option<SummaryPermit<'_>> {
        let free = !self.failed.load(Ordering::Relaxed) && !self.busy.swap(true, Ordering::AcqRel);
        free.then(|| SummaryPermit(&self.busy))
    }

    /// Calls the summarizer. If it returns no summary, the events stay in the requests and the run continues.
    async fn summary(&self, plan: SummaryPlan, context: &InvocationContext) -> Option<Event> {
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
            // The error's text may come from the model and repeat the conversation.
            .inspect_err(|error| {
                tracing::warn!(events, kind = error.kind().as_str(), "events could not be summed up");
            })
            .unwrap_or_default()
            .filter(says_something)
        else {
            tracing::warn!(events, "there is no summary; the events stay in the requests");
            self.failed.store(true, Ordering::Relaxed);
            return None;
        };
        tracing::debug!(events, "events were summarized");
        Some(event(plan, summary, context))
    }
}

/// Returns the event that carries a summary, in google-adk's form.
fn event(plan: SummaryPlan, summary: EventsSummary, context: &InvocationContext) -> Event {
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

/// Returns the summary that is due by the token rule. Before a model call, only the requests of the calling agent
/// count; after a run, those of all agents.
fn by_tokens(
    rule: TokenRule,
    context: &InvocationContext,
    agent: Option<&str>,
    estimate: impl Fn() -> u64,
) -> Option<SummaryPlan> {
    let session = context.session();
    let tokens = tokens::counted(live_backward(session.events()), agent).unwrap_or_else(estimate);
    (tokens >= rule.threshold).then(|| in_log(context, |log| log.all_but(rule.retention, agent.is_some())))?
}

fn estimated_of(context: &InvocationContext) -> u64 {
    let session = context.session();
    let shown = compacted(&live(&session), 0, "", |event| event.isolation_scope.is_none());
    estimated(shown.iter().filter_map(|event| event.content.as_ref()))
}

fn in_log<T>(context: &InvocationContext, plan: impl FnOnce(SessionLog<'_, '_>) -> Option<T>) -> Option<T> {
    let session = context.session();
    let begun = session.events().get(0)?.timestamp.unwrap_or_default();
    plan(SessionLog::new(&live(&session), session.seq(), begun))
}

fn live(session: &Session) -> Vec<&Arc<Event>> {
    let mut live: Vec<_> = live_backward(session.events()).collect();
    live.reverse();
    live
}
