//! Code that the benches share: events of a realistic size, sessions of a given length, a runtime, a SQLite store, and
//! processor time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

pub mod cpu;

use std::path::Path;
use std::sync::Arc;

use scratchbook::store::{Limits, SqliteOptions, Synchronous};
use scratchbook::{Content, CreateSessionConfig, Event, SessionKey, SessionService, SqliteSessionService, StateDelta};
use serde_json::json;
use tokio::runtime::Runtime;

/// Returns an event of about 600 bytes that writes one session key and one user key.
#[must_use]
pub fn event(n: usize) -> Event {
    let text = format!("{n}: {}", "All work and no play makes the agent a dull program. ".repeat(6));
    let delta = StateDelta::new().with("step", n).unwrap().with("user:last_step", n).unwrap();
    Event::new("agent").with_invocation_id("e-0").with_content(Content::model(text)).with_state_delta(delta)
}

/// Returns an event like [`event`] that writes a key of the app as well.
#[must_use]
pub fn event_of_three(n: usize) -> Event {
    let mut event = event(n);
    event.actions.state_delta.set("app:last_step", n).unwrap();
    event
}

/// Creates a session with this many events and this many keys in its state.
pub async fn session(service: &dyn SessionService, id: &str, events: usize, keys: usize) -> SessionKey {
    let state: serde_json::Map<_, _> =
        (0..keys).map(|n| (format!("key{n}"), json!("a value of some length"))).collect();
    let config = CreateSessionConfig::default()
        .with_session_id(id)
        .with_state(state)
        .with_events((0..events).map(event).collect());
    service.create_session("app", "user", config).await.unwrap().key().clone()
}

/// Creates a runtime with a worker for each core.
#[must_use]
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Opens a SQLite store at a path.
pub async fn sqlite(path: &Path, synchronous: Synchronous) -> Arc<SqliteSessionService> {
    // One bench keeps 10,000 keys and adds another.
    let limits = Limits::default().with_keys_per_scope(20_000);
    let options = SqliteOptions::default().with_synchronous(synchronous).with_limits(limits);
    Arc::new(SqliteSessionService::open(path, options).await.unwrap())
}
