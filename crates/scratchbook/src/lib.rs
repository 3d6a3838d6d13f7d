//! Durable sessions and scoped state for AI agents: the sessions of Google's Agent Development Kit (ADK), with its
//! terms and its wire format, and without its lost updates.
//!
//! A **session** is a conversation: a log of [`Event`]s and a **state**, a map from keys to values. The prefix of a key
//! is its [`Scope`]: no prefix for this session, `user:` for all sessions of one user, `app:` for the whole
//! application, and `temp:` for one invocation, which is never stored. State changes only through events that carry a
//! [`StateDelta`]. A [`SessionService`] commits the event and its delta together, and merges the scopes when a session
//! is read.
//!
//! ```
//! use scratchbook::{CreateSessionConfig, Event, SessionService, SessionServiceExt, StateDelta, connect};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
//! let sessions = connect("memory:").await?.sessions; // or "sqlite://sessions.db"
//! let config = CreateSessionConfig::default().with_state(json!({"user:language": "en", "step": 1}));
//! let mut session = sessions.create_session("my_app", "alice", config).await?;
//!
//! let delta = StateDelta::new().with("step", 2)?.with("user:language", "fr")?;
//! sessions.append_event(&mut session, Event::new("agent").with_state_delta(delta)).await?;
//!
//! let next = sessions.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
//! assert_eq!(json!(next.state()), json!({"user:language": "fr"}));
//! # Ok(()) }
//! ```
//!
//! # Layout
//!
//! - [`SessionService`] is the trait that every store implements, and documents the contract. [`SessionServiceExt`] has
//!   [`append_event`](SessionServiceExt::append_event) and other conveniences. [`connect`] opens a store by its URI.
//! - [`Session`], [`StateMap`] and [`session::Events`] are the results of reads: snapshots that are cheap to copy and
//!   cannot be changed. [`state::State`] shows committed values with the changes of a delta on top.
//! - With the feature `agent` (on by default), [`Runner`] runs an [`LlmAgent`] or another [`Agent`] on a session.
//!   Callbacks and tools access the state through [`agent::CallbackContext`] and [`agent::ToolContext`],
//!   [`agent::InstructionTemplate`] fills instructions from the state, and [`model::ScriptedLlm`] replaces a model in
//!   tests.
//! - [`Error`] has an [`ErrorKind`] and a message that says what would be right.
//!
//! # Features
//!
//! - `sqlite` (default): a store in one SQLite file, `SqliteSessionService`.
//! - `mysql`: a store in MySQL or MariaDB, `MySqlSessionService`.
//! - `postgres`: a store in PostgreSQL, `PostgresSessionService`.
//! - `agent` (default): agents, tools, models, templates and the Runner. Without this feature the crate has only
//!   sessions and state, for use with any agent framework.
//! - `agent-config`: agents from YAML files of ADK's Agent Config, `load_agent`.
//! - `mcp`: tools of MCP servers, over standard input and output or HTTP, the module `mcp`.
//! - `models`: models of Google, OpenAI, Anthropic, Ollama and others over HTTP, `RemoteLlm`.
//! - `encryption`: values, events and artifacts are encrypted before they reach a store, `WithEncryption`.
//! - `compression`: large values, events and artifacts are compressed, `WithCompression`.
//! - `metrics`: counters and histograms of calls through the crate `metrics`, `WithMetrics`.
//! - `vertex`: sessions and events in the JSON of Vertex AI's Agent Engine Sessions, the module `vertex`.
//! - `vertex-ai`: sessions stored in Vertex AI through Google's own client, `VertexAiSessionService`.
//! - `schema`: state is checked against JSON Schemas, `WithStateSchema`.
//! - `conformance`: a test for every promise of a store, for stores that you write yourself.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
mod kinds;

/// Agents, tools, instruction templates and the [`Runner`].
#[cfg(feature = "agent")]
pub mod agent {
    pub use scratchbook_agent::agent::{
        Agent, CallbackContext, ContextState, EventStream, EventsCompactionConfig, EventsSummarizer, EventsSummary,
        FunctionAgent, IncludeContents, Instruction, InstructionProvider, InvocationContext, LlmAgent, LlmAgentBuilder,
        LlmEventsSummarizer, LoopAgent, LoopAgentBuilder, ParallelAgent, ParallelAgentBuilder, ReadonlyContext,
        SequentialAgent, SequentialAgentBuilder, ToolCall, ToolContext, inject_session_state,
    };
    #[cfg(feature = "agent-config")]
    pub use scratchbook_agent::config::{AgentCatalog, ConfiguredTool, load_agent, load_agents};
    #[doc(hidden)]
    pub use scratchbook_agent::credentials;
    pub use scratchbook_agent::instruction::InstructionTemplate;
    pub use scratchbook_agent::plugin::{LoggingPlugin, Plugin};
    #[cfg(feature = "agent-config")]
    pub use scratchbook_agent::replay::ReplayFolder;
    pub use scratchbook_agent::runner::{RunConfig, RunRequest, Runner, RunnerBuilder, WhenBusy};
    pub use scratchbook_agent::tool::{
        AgentTool, FunctionTool, GoogleSearchTool, LoadArtifactsTool, Tool, ToolConfirmation, Toolset, exit_loop,
        get_user_choice, transfer_to_agent,
    };
    pub use scratchbook_agent::trace::{TARGET as TRACE_TARGET, TraceConfig, TraceSink, TraceSpan};
}

/// Layers: services that wrap another service.
pub mod layer {
    pub use scratchbook_core::layer::{ReadOnly, WithDeadline, WithSecretKeys};
    #[cfg(any(feature = "encryption", feature = "compression"))]
    pub use scratchbook_layers::codec::Coded;
    #[cfg(feature = "compression")]
    pub use scratchbook_layers::compression::WithCompression;
    #[cfg(feature = "encryption")]
    pub use scratchbook_layers::encryption::{PlainValues, WithEncryption, sealed_by, sealed_limits};
    #[cfg(feature = "encryption")]
    pub use scratchbook_layers::keyring::Keyring;
    #[cfg(feature = "metrics")]
    pub use scratchbook_layers::metrics::WithMetrics;
    #[cfg(feature = "schema")]
    pub use scratchbook_layers::schema::{StateSchema, WithStateSchema};
}

/// Tools of MCP servers.
#[cfg(feature = "mcp")]
pub mod mcp {
    #[cfg(feature = "agent-config")]
    pub use scratchbook_mcp::{McpConfigPolicy, mcp_toolset_class};
    pub use scratchbook_mcp::{
        McpConnectionParams, McpLimits, McpToolset, McpToolsetBuilder, StdioConnectionParams,
        StreamableHttpConnectionParams,
    };
}

/// Models: their requests and responses, and models over HTTP.
#[cfg(feature = "agent")]
pub mod model {
    pub use scratchbook_agent::model::{
        FunctionDeclaration, GenerateContentConfig, Llm, LlmCapabilities, LlmRequest, LlmResponse, LlmStream,
        ScriptedLlm,
    };
    #[cfg(feature = "models")]
    pub use scratchbook_models::{ModelName, RemoteLlm, RemoteLlmBuilder};
}

/// The stores, and functions that open them.
pub mod store {
    pub use crate::connect::{connect, connect_with_limits, migrate};
    pub use scratchbook_core::export;
    pub use scratchbook_core::memory::InMemorySessionService;
    pub use scratchbook_core::plan::limits::Limits;
    pub use scratchbook_core::plan::migrate::{Migration, MigrationRun};
    pub use scratchbook_core::plan::redact::without_password;
    pub use scratchbook_core::store::Store;
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub use scratchbook_database::{DatabaseOptions, DatabaseSessionService, Migrate, TlsMode};
    #[cfg(feature = "mysql")]
    pub use scratchbook_mysql::{MySql, MySqlSessionService};
    #[cfg(feature = "postgres")]
    #[doc(hidden)]
    pub use scratchbook_postgres::connect_to_any as connect_to_any_postgres;
    #[cfg(feature = "postgres")]
    pub use scratchbook_postgres::{Postgres, PostgresSessionService};
    #[cfg(feature = "sqlite")]
    pub use scratchbook_sqlite::{SqliteMode, SqliteOptions, SqliteSessionService, Synchronous};
    #[cfg(feature = "vertex-ai")]
    pub use scratchbook_vertex::client::{VertexAiCredentials, VertexAiOptions, VertexAiSessionService};
}

/// The types that most programs use: `use scratchbook::prelude::*;`.
pub mod prelude {
    #[cfg(feature = "agent")]
    pub use crate::agent::{
        Agent, AgentTool, CallbackContext, FunctionTool, LlmAgent, LoopAgent, ParallelAgent, Plugin, ReadonlyContext,
        RunRequest, Runner, SequentialAgent, ToolContext,
    };
    pub use crate::artifact::ArtifactService;
    pub use crate::content::{Content, Part};
    pub use crate::error::{Error, ErrorKind, Result};
    pub use crate::event::Event;
    #[cfg(feature = "models")]
    pub use crate::model::ModelName;
    #[cfg(feature = "agent")]
    pub use crate::model::{Llm, LlmResponse, ScriptedLlm};
    pub use crate::session::{
        AppendOptions, ConflictMode, CreateSessionConfig, FeedStart, GetSessionConfig, PutStateOptions, Session,
        SessionKey, SessionService, SessionServiceExt, StateOwner,
    };
    pub use crate::state::{Scope, StateDelta, StateMap};
    #[cfg(feature = "sqlite")]
    pub use crate::store::SqliteSessionService;
    pub use crate::store::{InMemorySessionService, Limits, Store, connect};
}

#[cfg(feature = "agent")]
pub use agent::{Agent, LlmAgent, RunRequest, Runner};
#[cfg(feature = "conformance")]
pub use scratchbook_conformance as conformance;
#[doc(inline)]
pub use scratchbook_core::{artifact, content, environment, error, event, json, plan, session, state};
#[cfg(feature = "vertex")]
#[doc(inline)]
pub use scratchbook_vertex as vertex;

pub use content::Content;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use session::{
    AppendOptions, CreateSessionConfig, GetSessionConfig, Session, SessionKey, SessionService, SessionServiceExt,
};
pub use state::{Scope, StateDelta, StateMap};
#[cfg(feature = "sqlite")]
pub use store::SqliteSessionService;
pub use store::{InMemorySessionService, Store, connect};

/// Documents whose code blocks run as doctests of this crate.
#[cfg(doctest)]
mod documents {
    macro_rules! documents {
        ($($name:ident = $path:literal,)*) => {
            $(
                #[doc = include_str!(concat!("../../..", $path))]
                struct $name;
            )*
        };
    }

    documents! {
        Readme = "/README.md",
        Agent = "/docs/agents/agent.md",
        Artifacts = "/docs/agents/artifacts.md",
        Callbacks = "/docs/agents/callbacks.md",
        Changing = "/docs/state/changing.md",
        Concepts = "/docs/concepts.md",
        Confirmations = "/docs/agents/confirmations.md",
        Encryption = "/docs/operating/encryption.md",
        Errors = "/docs/reference/errors.md",
        Features = "/docs/reference/features.md",
        Feed = "/docs/history/feed.md",
        Files = "/docs/agents/files.md",
        Instructions = "/docs/agents/instructions.md",
        Limits = "/docs/state/limits.md",
        LongConversations = "/docs/agents/long-conversations.md",
        Models = "/docs/agents/models.md",
        Operations = "/docs/state/operations.md",
        Past = "/docs/history/past.md",
        Plugins = "/docs/agents/plugins.md",
        Resuming = "/docs/agents/resuming.md",
        RewindAndFork = "/docs/history/rewind-and-fork.md",
        Schemas = "/docs/state/schemas.md",
        Secrets = "/docs/state/secrets.md",
        Sessions = "/docs/state/sessions.md",
        Start = "/docs/start.md",
        Tools = "/docs/agents/tools.md",
        Transfer = "/docs/agents/transfer.md",
        Uris = "/docs/reference/uris.md",
        Workflows = "/docs/agents/workflows.md",
    }
    #[cfg(feature = "mcp")]
    documents! { Mcp = "/docs/agents/mcp.md", }
    #[cfg(feature = "vertex-ai")]
    documents! { VertexStore = "/docs/vertex-store.md", }
}
