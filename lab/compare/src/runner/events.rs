//! The events that every system appends.

use scratchbook::{Content, Event, StateDelta};
use serde_json::{Value, json};

use crate::failure::Result;

pub(crate) const APP: &str = "bench";

/// Returns the state that a session begins with.
pub(crate) fn created() -> Value {
    json!({"topic": "a room by the lake", "step": "asked"})
}

/// Returns the state of a session that is created with this many keys, but with two at least.
pub(crate) fn created_with(keys: u64) -> Value {
    let mut state = created();
    for n in 3..=keys {
        state[format!("key-{n}")] = format!("value {n}").into();
    }
    state
}

/// Returns a text of 300 characters.
pub(crate) fn text(n: usize) -> String {
    let mut text = format!("{n}: ");
    while text.len() < 300 {
        text.push_str("All work and no play makes the agent a dull program. ");
    }
    text.truncate(300);
    text
}

/// Returns an event with a text, a key of the session and a key of the user.
pub(crate) fn event(n: usize) -> Result<Event> {
    event_that_writes(n, written(n)?)
}

/// Returns the changes of an event: a key of the session and a key of the user.
pub(crate) fn written(n: usize) -> Result<StateDelta> {
    Ok(StateDelta::new().with("step", format!("step {n}"))?.with("user:step", format!("step {n}"))?)
}

/// Returns an event with a text and these keys.
pub(crate) fn event_that_writes(n: usize, delta: StateDelta) -> Result<Event> {
    let event = Event::new("agent").with_invocation_id(format!("e-{n}"));
    Ok(event.with_content(Content::model(text(n))).with_state_delta(delta))
}

/// Returns the events that a session begins with.
pub(crate) fn events(count: u64) -> Result<Vec<Event>> {
    (0..usize::try_from(count)?).map(event).collect()
}
