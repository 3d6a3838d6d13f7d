//! The core of [scratchbook](https://docs.rs/scratchbook): sessions, events, scoped state, the traits of stores, and a
//! store in memory.
//!
//! Programs use the crate `scratchbook`, which exports all of this under the same names. This crate is for store
//! implementations.
//!
//! # Sessions and state
//!
//! A session is an event log with a state. State changes only through events: a store commits an event together with
//! the changes in its [`StateDelta`](state::StateDelta), and the prefix of a key says who shares it.
//!
//! ```
//! use scratchbook_core::event::Event;
//! use scratchbook_core::memory::InMemorySessionService;
//! use scratchbook_core::session::{CreateSessionConfig, SessionService, SessionServiceExt};
//! use scratchbook_core::state::StateDelta;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook_core::error::Result<()> {
//! let sessions = InMemorySessionService::new();
//! let mut session = sessions.create_session("app", "alice", CreateSessionConfig::default()).await?;
//!
//! let delta = StateDelta::new().with("step", 2)?.with("user:language", "fr")?;
//! sessions.append_event(&mut session, Event::new("agent").with_state_delta(delta)).await?;
//! assert_eq!(json!(session.state()), json!({"step": 2, "user:language": "fr"}));
//!
//! let next = sessions.create_session("app", "alice", CreateSessionConfig::default()).await?;
//! assert_eq!(json!(next.state()), json!({"user:language": "fr"}));
//! # Ok(()) }
//! ```
//!
//! # A store of your own
//!
//! Implement [`SessionService`](session::SessionService) and, if the store keeps artifacts,
//! [`ArtifactService`](artifact::ArtifactService). The functions of [`plan`] turn each call into a description of what
//! to read or write, so that a store only has to carry it out in one commit:
//!
//! ```
//! use scratchbook_core::environment::SystemEnvironment;
//! use scratchbook_core::event::Event;
//! use scratchbook_core::plan::limits::Limits;
//! use scratchbook_core::plan::prepare_event;
//! use scratchbook_core::state::{Scope, StateDelta};
//!
//! # fn main() -> scratchbook_core::error::Result<()> {
//! let delta = StateDelta::new().with("user:language", "fr")?.with("temp:draft", "…")?;
//! let event = Event::new("agent").with_state_delta(delta);
//! let prepared = prepare_event(event, &SystemEnvironment, &Limits::default())?;
//!
//! let [change] = &prepared.changes[..] else { panic!("one key is stored") };
//! assert_eq!((change.scope, change.name.as_str()), (Scope::User, "language"));
//! # Ok(()) }
//! ```
//!
//! Test the store with the promises of
//! [scratchbook-conformance](https://docs.rs/scratchbook-conformance); the example `custom_store` is a complete store.

pub mod artifact;
pub mod content;
pub mod environment;
pub mod error;
pub mod event;
mod event_fields;
pub mod export;
pub mod extra;
mod fields;
pub mod json;
pub mod layer;
pub mod memory;
pub mod plan;
pub mod session;
#[doc(hidden)]
pub mod sig;
pub mod state;
pub mod store;
