//! Checks the events with which a client creates a session, such as those of an exported conversation.

use std::collections::HashMap;

use scratchbook::Event;

use super::AdkError;
use super::shape::hide_internal;

/// Calls with which ADK itself asks its client for something. A response to such a call counts as the user's consent.
const RESERVED: [&str; 3] = ["adk_request_credential", "adk_request_confirmation", "adk_request_input"];

/// Checks events before they are stored, and removes partial events and ADK's internal metadata.
///
/// Unlike ADK, this server accepts actions and ids of long-running tools. Otherwise exported sessions could not be
/// imported.
///
/// # Errors
///
/// 400 names the first event that cannot be stored.
pub(super) fn events(mut events: Vec<Event>) -> Result<Vec<Event>, AdkError> {
    let mut ids = HashMap::new();
    for (index, event) in events.iter_mut().enumerate() {
        if is_reserved(event) {
            let detail = format!("Session initialization event {index} cannot include ADK protocol function calls.");
            return Err(AdkError::bad_request(detail));
        }
        hide_internal(event);
        // A call that a client puts into an event is never carried out by a run.
        event.mark_restored();
        let id = Some(&event.id).filter(|id| !id.is_empty() && !event.is_partial());
        if let Some(first) = id.and_then(|id| ids.insert(id.clone(), index)) {
            let detail = format!("Session initialization event {index} has the id of event {first}: {}.", event.id);
            return Err(AdkError::bad_request(detail));
        }
    }
    events.retain(|event| !event.is_partial());
    Ok(events)
}

fn is_reserved(event: &Event) -> bool {
    let calls = event.function_calls().map(|call| &call.name);
    let mut names = calls.chain(event.function_responses().map(|response| &response.name)).flatten();
    names.any(|name| RESERVED.contains(&name.as_str()))
}
