//! Durable sessions and scoped state for AI agents.

#[cfg(feature = "agent")]
mod agent;
mod artifact;
mod content;
mod deadline;
mod environment;
mod error;
mod event;
#[cfg(feature = "agent")]
mod instruction;
pub mod json;
#[cfg(feature = "agent")]
mod model;
#[cfg(feature = "agent")]
mod runner;
mod session;
mod state;
mod store;
#[cfg(feature = "agent")]
mod tool;

#[cfg(feature = "agent")]
pub use agent::{
    Agent, CallbackContext, ContextState, EventStream, FunctionAgent, Instruction, InstructionProvider,
    InvocationContext, LlmAgent, LlmAgentBuilder, LoopAgent, ParallelAgent, ReadonlyContext, SequentialAgent, ToolCall,
    ToolContext, inject_session_state,
};
pub use artifact::{ArtifactService, ArtifactVersion};
pub use content::{Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part};
pub use deadline::WithDeadline;
pub use environment::{Environment, SystemEnvironment};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventActions, EventCompaction, NodeInfo};
#[cfg(feature = "agent")]
pub use instruction::InstructionTemplate;
#[cfg(feature = "agent")]
pub use model::{FunctionDeclaration, Llm, LlmRequest, LlmResponse, LlmStream, ScriptedLlm};
#[cfg(feature = "agent")]
pub use runner::{RunConfig, RunRequest, Runner, RunnerBuilder, WhenBusy};
pub use session::{
    AppendOptions, Committed, CreateSessionConfig, EventCursor, Events, GetSessionConfig, ListSessionsConfig,
    ListSessionsResponse, Outcome, Session, SessionKey, SessionService, SessionServiceExt, StateChange, StateOwner,
    StateSelection,
};
pub use state::{Change, REMOVED, Scope, ScopedDelta, State, StateDelta, StateMap, apply, extract_state_delta, fold};
pub use store::{InMemorySessionService, Store, connect};
#[cfg(feature = "sqlite")]
pub use store::{SqliteOptions, SqliteSessionService, Synchronous};
#[cfg(feature = "agent")]
pub use tool::{FunctionTool, Tool};
