//! ADK's HTTP API over a scratchbook store, and scratchbook's own: sessions, state, runs and artifacts.
//!
//! Clients of `adk api_server` and ADK's dev interface use it as they use that; under `/v1` is what ADK has no word
//! for. [`Server::router`] is for a server of your own, [`Server::run`] serves a listener.
//!
//! ```
//! use scratchbook::{LlmAgent, ScriptedLlm, connect};
//! use scratchbook_server::Server;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
//! let agent = LlmAgent::builder("assistant").model(ScriptedLlm::new(["Noted."])).build()?;
//! let server = Server::builder(connect("memory:").await?).app("shop", agent).build()?;
//! let router: axum::Router = server.router();
//! # Ok(()) }
//! ```
//!
//! # Layout
//!
//! - `server.rs`: what is served, built and run. Start here.
//! - `app_state.rs`: what every handler is given. `apps.rs`: the agents that are hosted.
//! - `layers.rs`: what each request goes through before a handler, and each answer on its way back.
//! - `listen/`: connections, TLS and the end. `limits/`: how much and how long. `guard/`: foreign pages, and CORS.
//! - `answers/`: what each answer goes through: bounds in bytes, and what is shown of credentials. `heavy.rs`: work that
//!   is done off the runtime's workers.
//! - `document/`: the OpenAPI document of what is served, and a page of it to read.
//! - `access/`: who calls and what they may, `access/browser/` how people log in; `scope.rs`: the app, user or session that a path names, checked
//!   against the caller before a handler sees it.
//! - `operations/`: what who runs it needs: a line and numbers for each request, `/metrics`, `/health/ready`.
//! - `runs/`: runs that go on whether or not anybody listens; `sse.rs`: how they are told of; `look_back.rs`: events
//!   that are known by something else than their number. `spelling.rs`: names and kinds with more than one spelling.
//! - `surfaces.rs`: which of the surfaces are served.
//! - `adk/`: ADK's surface. `v1/`: our own. Each has its routes in `mod.rs` and its form of errors in `error.rs`.
//! - `vertex/`: Vertex AI's Agent Engine Sessions, for Google's own clients; laid out as these two.
//! - `dev_ui/`: ADK's dev interface, where its files are at hand, and what it asks for besides.

mod access;
mod adk;
mod answers;
mod app_state;
mod apps;
mod bodies;
mod browser;
mod dev_ui;
mod document;
mod event_search;
mod guard;
mod headers;
mod heavy;
mod layers;
mod limits;
mod listen;
mod openapi;
mod operations;
mod public_error;
mod refusal;
mod reload;
mod runs;
mod scope;

mod server;
mod sse;
mod store_probe;
mod surface;
mod v1;
mod vertex;
mod wire_names;
mod wording;

pub use access::{Login, MadeToken, NewToken, Right};
pub use limits::{Network, RateLimit, ServerLimits};
pub use listen::Tls;
pub use server::{Server, ServerBuilder};
pub use surface::Surface;
