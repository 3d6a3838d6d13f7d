//! Which run a message goes on with.

use scratchbook::{Content, GetSessionConfig, Result, SessionKey, SessionService};

/// How many events are read at a time.
const PAGE: usize = 200;

/// The invocation that made the first of the calls which a message answers; the run checks the others. `None` where it
/// answers none, or none that is there.
///
/// # Errors
///
/// Those of the store.
pub(super) async fn answered_invocation(
    sessions: &dyn SessionService,
    key: &SessionKey,
    message: &Content,
) -> Result<Option<String>> {
    let mut ids = message.function_responses().filter_map(|response| response.id.as_deref());
    let Some(id) = ids.find(|id| !id.is_empty()) else {
        return Ok(None);
    };
    // Mostly it was one of the last events.
    let mut before = u64::MAX;
    loop {
        let config = GetSessionConfig::default().with_events_before(before, PAGE).without_state();
        let Some(session) = sessions.get_session(key, &config).await? else {
            return Ok(None);
        };
        let events = session.events();
        let call = events.iter().rev().find(|event| event.function_calls().any(|call| call.id.as_deref() == Some(id)));
        if let Some(event) = call {
            return Ok(Some(event.invocation_id.clone()));
        }
        match events.get(0).and_then(|first| first.seq) {
            Some(first) if first > 1 => before = first,
            _ => return Ok(None),
        }
    }
}
