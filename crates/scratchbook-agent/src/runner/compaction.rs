//! Commits summaries of events.

use std::collections::HashSet;
use std::sync::Arc;

use super::RunnerCore;
use super::session_lock::RunPermit;
use crate::agent::{InvocationContext, RunCompaction, ends_at_time_of};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{AppendOptions, Capability, GetSessionConfig, no_session};
use scratchbook_core::state::StateDelta;

/// How many times a summary is appended at most, if other writers append at the same time.
const ATTEMPTS: usize = 5;

/// Returns whether an event only carries a summary. Such an event is for later requests, and the run's reader does not
/// receive it.
pub(super) fn is_summary(event: &Event) -> bool {
    event.actions.compaction.is_some() && event.content.is_none()
}

impl RunnerCore {
    /// Appends a summary. If this fails, the summary is dropped and the run continues: the summarized events are still
    /// in the session.
    pub(super) async fn commit_summary(
        &self,
        context: &InvocationContext,
        summary: Event,
        permit: Option<&Arc<RunPermit>>,
    ) {
        // This path is rare. The box keeps its future from making the future of every run larger.
        if let Err(error) = Box::pin(self.try_commit_summary(context, summary, permit)).await {
            // The error's text may name the session, which does not belong in a log.
            tracing::warn!(kind = error.kind().as_str(), "a summary was dropped");
        }
    }

    /// Appends a summary unless a newer event makes it wrong. A summary identifies its events by their times, so no
    /// newer event may have the time of the last summarized event, or rewind a summarized event.
    async fn try_commit_summary(
        &self,
        context: &InvocationContext,
        mut summary: Event,
        permit: Option<&Arc<RunPermit>>,
    ) -> Result<()> {
        // A summary belongs to the session, so the place in the run where it was made is removed.
        summary.node_info.path.clear();
        if !self.sessions.capabilities().has(Capability::Conflicts) {
            return self.commit_unguarded(context, summary, permit).await;
        }
        let key = context.session_key();
        let session = context.session();
        let known = context.compacting().map_or(0, |compacting| compacting.planned().min(session.seq()));
        let later = session.events().iter().rev().take_while(|event| event.seq.is_some_and(|seq| seq > known));
        check(later, &summary)?;
        let mut seen = session.seen().clone();
        for _ in 0..ATTEMPTS {
            let options = AppendOptions::by_session(seen);
            match self.append(key.clone(), summary.clone(), options, permit.cloned()).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                appended => {
                    context.invocation_state().committed(&appended?, &StateDelta::new());
                    return Ok(());
                }
            }
            let config = GetSessionConfig::default().without_state().with_events_after(known, usize::MAX);
            let fresh = self.sessions.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
            check(fresh.events().iter(), &summary)?;
            seen = fresh.seen().clone();
        }
        Err(Error::new(ErrorKind::Conflict, "others append to the session all the time; the next run sums up"))
    }

    /// Appends a summary to a store without optimistic locking, right after a check of the events that came in the
    /// meantime. Another event may arrive between the check and the append. If its time lies before the end of the
    /// summary, agents do not see that event, but it stays in the session.
    async fn commit_unguarded(
        &self,
        context: &InvocationContext,
        summary: Event,
        permit: Option<&Arc<RunPermit>>,
    ) -> Result<()> {
        let key = context.session_key();
        let now = self.sessions.get_session(key, &GetSessionConfig::default().without_state()).await?;
        let now = now.ok_or_else(|| no_session(key))?;
        let session = context.session();
        let known = session.events().iter().take(context.compacting().map_or(0, RunCompaction::known));
        let known: HashSet<_> = known.map(|event| event.id.as_str()).collect();
        let is_known = |event: &&Arc<Event>| known.contains(event.id.as_str());
        // Events before the first one that the run has read are old. If the run has read none, all events are new.
        let is_before = |event: &&Arc<Event>| !known.is_empty() && !is_known(event);
        let later = now.events().iter().skip_while(is_before).filter(|event| !is_known(event));
        check(later, &summary)?;
        let appended = self.append(key.clone(), summary, AppendOptions::default(), permit.cloned()).await?;
        context.invocation_state().committed(&appended, &StateDelta::new());
        Ok(())
    }
}

/// Refuses a summary that would cover events from which it was not made.
fn check<'a>(mut later: impl Iterator<Item = &'a Arc<Event>>, summary: &Event) -> Result<()> {
    let spoils = |event: &&Arc<Event>| {
        let actions = &event.actions;
        actions.rewind_before_invocation_id.is_some() || actions.compaction.is_some() || ends_at_time_of(summary, event)
    };
    match later.find(spoils) {
        None => Ok(()),
        Some(event) => {
            let message = format!("the event {}, which came meanwhile, changes what is to be summed up", event.id);
            Err(Error::new(ErrorKind::Conflict, message))
        }
    }
}
