//! Finds the run that a message continues.

use scratchbook::{Content, Event, Result, SessionKey, SessionService};

use crate::event_search::last_event;

/// Returns the invocation that made the first call which a message answers; the run itself checks the other calls.
/// Returns `None` if the message answers no call, or no call of the session.
///
/// # Errors
///
/// The errors of the store.
pub(super) async fn answered_invocation(
    sessions: &dyn SessionService,
    key: &SessionKey,
    message: &Content,
) -> Result<Option<String>> {
    let mut ids = message.function_responses().filter_map(|response| response.id.as_deref());
    let Some(id) = ids.find(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let makes_it = |event: &Event| event.function_calls().any(|call| call.id.as_deref() == Some(id));
    Ok(last_event(sessions, key, makes_it).await?.map(|event| event.invocation_id.clone()))
}
