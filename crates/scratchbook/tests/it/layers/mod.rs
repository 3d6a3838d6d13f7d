//! Layers: what they store in the raw database, and what they hide from whom.
//!
//! `conformance.rs` tests that a layer keeps every promise of the store inside it.

#[cfg(feature = "encryption")]
mod canary;
#[cfg(feature = "compression")]
mod compression;
#[cfg(feature = "encryption")]
mod encryption;
pub(crate) mod metrics;
mod read_only;
#[cfg(feature = "encryption")]
mod rotation;
mod secret_keys;
#[cfg(feature = "encryption")]
mod tampering;
#[cfg(feature = "encryption")]
mod upgrade;

use std::sync::Arc;

use scratchbook::{
    AppendOptions, Event, GetSessionConfig, InMemorySessionService, Session, SessionKey, SessionService, StateDelta,
};
use serde_json::Value;

/// Returns a store whose contents can also be read without the layer.
fn memory() -> Arc<InMemorySessionService> {
    Arc::new(InMemorySessionService::new())
}

fn delta(state: Value) -> StateDelta {
    StateDelta::try_from(state).unwrap()
}

async fn read(service: &impl SessionService, key: &SessionKey) -> Session {
    service.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap()
}

async fn append(service: &impl SessionService, key: &SessionKey, event: Event) -> scratchbook::session::Committed {
    service.append(key, event, AppendOptions::default()).await.unwrap()
}
