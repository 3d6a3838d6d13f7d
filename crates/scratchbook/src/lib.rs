//! Durable sessions and scoped state for AI agents.

mod artifact;
mod content;
mod deadline;
mod environment;
mod error;
mod event;
pub mod json;
mod session;
mod state;
mod store;

pub use artifact::{ArtifactService, ArtifactVersion};
pub use content::{Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part};
pub use deadline::WithDeadline;
pub use environment::{Environment, SystemEnvironment};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventActions, EventCompaction, NodeInfo};
pub use session::{
    AppendOptions, Committed, CreateSessionConfig, EventCursor, Events, GetSessionConfig, ListSessionsConfig,
    ListSessionsResponse, Outcome, Session, SessionKey, SessionService, SessionServiceExt, StateChange, StateOwner,
    StateSelection,
};
pub use state::{Change, REMOVED, Scope, ScopedDelta, State, StateDelta, StateMap, apply, extract_state_delta, fold};
#[cfg(feature = "conformance")]
pub use store::conformance;
pub use store::{InMemorySessionService, Store, connect};
