//! Decides how much of a session a run reads. If there are summaries, the run reads only the events after the last
//! summary and a few before, however long the session is.

use std::collections::HashSet;

use crate::agent::{AgentTree, covered_from_the_beginning};
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::session::{Events, GetSessionConfig, Session, SessionKey, SessionService};

/// The number of events that are read first. A conversation rarely has more events after its last summary.
const FIRST: usize = 100;

/// The parts of a session that a run needs in addition to the events that no summary covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed<'a> {
    /// How many invocations before the end of the last summary are needed.
    pub(super) overlap: usize,
    /// The agents that may have the conversation.
    pub(super) tree: &'a AgentTree,
}

/// Returns whether all events of a session are to be read.
pub(super) fn is_unlimited(config: &GetSessionConfig) -> bool {
    config.num_recent_events.is_none() && config.after_timestamp.is_none() && config.cursor.is_none()
}

/// Reads the events after the last summary that covers everything from the session's beginning, and as many before as
/// needed. If there is no such summary, reads the whole session.
pub(super) async fn from_last_summary(
    sessions: &dyn SessionService,
    key: &SessionKey,
    config: &GetSessionConfig,
    needed: Needed<'_>,
) -> Result<Option<Session>> {
    let Some(session) = sessions.get_session(key, &config.clone().with_num_recent_events(FIRST)).await? else {
        return Ok(None);
    };
    let mut events = session.events().clone();
    if events.len() >= FIRST && events.iter().any(|event| event.seq.is_none()) {
        // A store without event numbers has no pages, so the whole session is read.
        return sessions.get_session(key, config).await;
    }
    let mut begun = None;
    let is_whole = |events: &Events| events.len() < FIRST || events.get(0).is_none_or(|event| event.seq == Some(1));
    while !is_whole(&events) {
        if begun.is_none() {
            let first = GetSessionConfig::default().without_state().with_events_after(0, 1);
            begun = sessions.get_session(key, &first).await?.and_then(|session| session.events().get(0).cloned());
        }
        if begun.as_ref().is_some_and(|begun| needed.is_met(&events, begun)) {
            break;
        }
        let Some(before) = events.get(0).and_then(|event| event.seq) else {
            break;
        };
        let older = GetSessionConfig::default().without_state().with_events_before(before, events.len());
        let older = sessions.get_session(key, &older).await?;
        let Some(older) = older.filter(|older| !older.events().is_empty()) else {
            break;
        };
        events = older.events().iter().chain(events.iter()).cloned().collect();
    }
    Ok(Some(session.with_events(events)))
}

impl Needed<'_> {
    /// Returns whether these events are enough, so that no earlier one has to be read.
    fn is_met(&self, events: &Events, first: &Event) -> bool {
        let Some(last) = covered_from_the_beginning(events, first) else {
            return false;
        };
        // A rewind may name an earlier run, and a response may belong to an earlier call. Both need more events.
        let (mut calls, mut whole) = (HashSet::new(), true);
        for event in events.iter().skip(last + 1) {
            calls.extend(event.function_calls().filter_map(|call| call.id.as_deref()));
            let known = |id: &str| calls.contains(id);
            whole &= event.function_responses().filter_map(|response| response.id.as_deref()).all(known);
            whole &= event.actions.rewind_before_invocation_id.is_none();
        }
        // The first invocation among these events may be incomplete, so it does not count.
        let invocations: HashSet<_> = events.iter().take(last + 1).map(|event| &event.invocation_id).collect();
        whole && invocations.len() > self.overlap && self.tree.decides(events)
    }
}
