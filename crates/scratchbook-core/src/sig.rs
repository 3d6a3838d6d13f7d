//! The types in the signatures of services, for the macros that write their methods.

use std::pin::Pin;

pub use std::collections::BTreeMap;

pub use crate::artifact::{ArtifactVersion, ListVersionsConfig};
pub use crate::content::Part;
pub use crate::error::{KeyWriter, Result};
pub use crate::event::Event;
pub use crate::session::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, Committed, CreateSessionConfig, EventHashes, Expiry,
    FeedPage, FeedStart, ForkConfig, GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse,
    ListStateConfig, Prune, PutStateOptions, Session, SessionKey, SessionUpdate, StateBytes, StateChange, StateOwner,
    StatePage,
};
pub use crate::state::{StateDelta, StateMap};

/// What an `async` method of a service returns, as `async_trait` writes it.
pub type ServiceFuture<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
