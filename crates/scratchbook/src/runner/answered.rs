//! A message that answers calls goes on with the run that made them.

use crate::content::Content;
use crate::error::{Error, Result};
use crate::session::Events;

/// The run whose calls a message answers, by ADK's rule: all of them belong to one. `None` where it answers none.
///
/// # Errors
///
/// `InvalidArgument` where a call is not among the events, where the calls are of several runs, and where the message
/// calls tools itself.
pub(super) fn answered_run(message: &Content, events: &Events) -> Result<Option<String>> {
    if let Some(call) = message.function_calls().next() {
        let name = call.name.as_deref().unwrap_or_default();
        return Err(Error::invalid(format!("a user's message cannot call '{name}'; say something, or answer a call")));
    }
    let mut found: Option<(&str, &str)> = None;
    for id in message.function_responses().filter_map(|response| response.id.as_deref()).filter(|id| !id.is_empty()) {
        let event = events.iter().rev().find(|event| event.function_calls().any(|call| call.id.as_deref() == Some(id)));
        let Some(event) = event else {
            return Err(Error::invalid(format!(
                "the message answers the call '{id}', which is not among the events of the session; answer one that is"
            )));
        };
        let run = event.invocation_id.as_str();
        match found {
            Some((first, of)) if of != run => {
                return Err(Error::invalid(format!(
                    "the message answers the call '{first}' of the run {of} and the call '{id}' of the run {run}; \
                     answer those of one run at a time"
                )));
            }
            _ => found = Some((id, run)),
        }
    }
    Ok(found.map(|(_, run)| run.to_owned()))
}
