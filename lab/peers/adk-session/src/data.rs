//! The data of every cell. It is the same in all runners.

use std::collections::HashMap;

use adk_core::{Content, Event};
use serde_json::{Value, json};

pub(crate) const APP: &str = "bench";

pub(crate) type SessionValues = HashMap<String, Value>;

/// The writer of an event, and the number of the event among the writer's events. The writer -1 wrote the events that
/// existed before.
pub(crate) type EventOrigin = (i64, usize);

/// Returns the text of an event: 300 characters.
fn text() -> String {
    let sentence =
        "The customer asked for a quiet room with a view of the lake, breakfast included, from Friday to Sunday. ";
    sentence.repeat(3).chars().take(300).collect()
}

pub(crate) fn user(number: usize) -> String {
    format!("user-{number}")
}

/// Returns the state with which a session begins.
pub(crate) fn created() -> SessionValues {
    HashMap::from([("topic".to_owned(), json!("a room by the lake")), ("step".to_owned(), json!("asked"))])
}

/// Returns the state of a session that is created with this many keys, but with two at least.
pub(crate) fn created_with(count: usize) -> SessionValues {
    let more = (3..=count).map(|n| (format!("key-{n}"), json!(format!("value {n}"))));
    created().into_iter().chain(more).collect()
}

/// Returns a state with this many keys of the session.
pub(crate) fn keys(count: usize) -> SessionValues {
    (0..count).map(|n| (format!("key-{n}"), json!(format!("value {n}")))).collect()
}

/// Returns the change of an event: one key of the session and one key of the user.
pub(crate) fn delta((writer, number): EventOrigin) -> SessionValues {
    HashMap::from([
        ("step".to_owned(), json!(format!("step {writer} {number}"))),
        ("user:last".to_owned(), json!(format!("last {writer} {number}"))),
    ])
}

/// Returns an agent's event. Its invocation id contains its origin.
pub(crate) fn event((writer, number): EventOrigin, delta: SessionValues) -> Event {
    let mut event = Event::new(format!("e.{writer}.{number}"));
    event.author = "agent".to_owned();
    event.llm_response.content = Some(Content::new("model").with_text(text()));
    event.llm_response.turn_complete = true;
    event.actions.state_delta = delta;
    event
}

/// Returns the origin of an event, from its invocation id.
pub(crate) fn origin(event: &Event) -> Option<EventOrigin> {
    let mut parts = event.invocation_id.split('.').skip(1);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
