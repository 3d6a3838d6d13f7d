//! Summaries of events, committed.

use std::collections::HashSet;
use std::sync::Arc;

use super::Inner;
use super::turns::Turn;
use crate::agent::{Compacting, InvocationContext, ends_at_time_of};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{AppendOptions, GetSessionConfig, no_session};
use scratchbook_core::state::StateDelta;

/// How often a summary is appended again where others append at the same time.
const ATTEMPTS: usize = 5;

/// Whether an event carries a summary and nothing else: it is for requests to come, not for whoever reads the run.
pub(super) fn is_summary(event: &Event) -> bool {
    event.actions.compaction.is_some() && event.content.is_none()
}

impl Inner {
    /// Appends a summary. One that cannot be appended is dropped: the events are all there, and the run goes on.
    pub(super) async fn commit_summary(&self, context: &InvocationContext, summary: Event, turn: Option<&Arc<Turn>>) {
        // It is rare, and every run would have room for it.
        if let Err(error) = Box::pin(self.try_commit_summary(context, summary, turn)).await {
            // The error's words may name the session, which belongs into no log.
            tracing::warn!(kind = error.kind().as_str(), "a summary was dropped");
        }
    }

    /// It stands for events by their times, so nothing may have come after them that has the time of the last, and
    /// nothing that takes any of them back.
    async fn try_commit_summary(
        &self,
        context: &InvocationContext,
        mut summary: Event,
        turn: Option<&Arc<Turn>>,
    ) -> Result<()> {
        // It belongs to the session, wherever in the run it was made.
        summary.node_info.path.clear();
        let key = context.session_key();
        let session = context.session();
        let known = context.compacting().map_or(0, |compacting| compacting.planned().min(session.seq()));
        let later = session.events().iter().rev().take_while(|event| event.seq.is_some_and(|seq| seq > known));
        check(later, &summary)?;
        let mut seen = session.seen().clone();
        for _ in 0..ATTEMPTS {
            let options = AppendOptions::by_session(seen);
            match self.append(key.clone(), summary.clone(), options, turn.cloned()).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    return self.commit_unguarded(context, summary, turn).await;
                }
                appended => {
                    context.board().committed(&appended?, &StateDelta::new());
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

    /// Appends a summary to a store that cannot refuse it for being late: right after it was looked what has come meanwhile.
    /// What comes between the two, with a time before the end of the summary, agents see no more; it stays in the session.
    async fn commit_unguarded(
        &self,
        context: &InvocationContext,
        summary: Event,
        turn: Option<&Arc<Turn>>,
    ) -> Result<()> {
        let key = context.session_key();
        let now = self.sessions.get_session(key, &GetSessionConfig::default().without_state()).await?;
        let now = now.ok_or_else(|| no_session(key))?;
        let session = context.session();
        let known = session.events().iter().take(context.compacting().map_or(0, Compacting::known));
        let known: HashSet<_> = known.map(|event| event.id.as_str()).collect();
        let is_known = |event: &&Arc<Event>| known.contains(event.id.as_str());
        // What is before all that the run has read is nothing new, unless it has read nothing.
        let is_before = |event: &&Arc<Event>| !known.is_empty() && !is_known(event);
        let later = now.events().iter().skip_while(is_before).filter(|event| !is_known(event));
        check(later, &summary)?;
        let appended = self.append(key.clone(), summary, AppendOptions::default(), turn.cloned()).await?;
        context.board().committed(&appended, &StateDelta::new());
        Ok(())
    }
}

/// Refuses a summary that would stand for other events than it was made of.
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
