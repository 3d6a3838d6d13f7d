//! ADK's HTTP API over a scratchbook store, and scratchbook's own: sessions, state, runs and artifacts.
//!
//! Clients of `adk api_server` and ADK's dev interface work with it unchanged; `/v1` adds what ADK's API lacks.
//! [`Server::router`] returns a router to embed in your own server; [`Server::run`] serves a listener.
//!
//! ```
//! use scratchbook::model::ScriptedLlm;
//! use scratchbook::{LlmAgent, connect};
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
//! The modules are listed from the outside to the inside. There are no cyclic dependencies between them.
//!
//! - `server.rs`: builds the server and runs it. Start here. `layers.rs`: the layers around every route.
//! - `wording.rs`: writes the refusals of layers (`refusal.rs`) in the form of the requested surface.
//! - `adk/`: ADK's surface. `v1/`: our own. `vertex/`: Vertex AI's Agent Engine Sessions, for Google's own clients.
//!   Each surface has its routes in `mod.rs` and its form of errors in `error.rs`. `surface.rs`: the paths of each
//!   surface.
//! - `inspector/`: pages for people who look at sessions and state. `dev_ui/`: ADK's dev interface, if its files are
//!   given. `browser/`: login with a browser.
//! - `document/`: the OpenAPI document of all routes and its page; `openapi/`: schemas that its parts share.
//! - `operations/`: logs, metrics and traces of requests, `/metrics`, `/health/ready`.
//! - `app_state.rs`: the state of the app, whose parts are used by layers and lower modules. `apps.rs`: the hosted
//!   agents. `activity.rs`: what the store has done in the last half hour.
//! - `scope.rs`: the app, user or session that a path names, checked against the caller before a handler sees it.
//! - `url_prefix.rs`: addresses of pages and redirects behind a proxy that serves the server below a path.
//! - `access/`: authentication and authorization. `guard/`: refuses requests of foreign pages; CORS.
//! - `listen/`: connections, TLS and shutdown. `limits/`: limits of sizes, numbers and times. `bodies/`: bodies of
//!   requests.
//! - `answers/`: limits of answers, and secrets of credentials in them. `memory_pool.rs`: the memory that bodies and
//!   answers share. `heavy.rs`: CPU-bound work on separate threads.
//! - `runs/`: runs, which go on whether or not a client follows them. `sse.rs`: their streams. `event_search.rs`:
//!   search for events. `wire_names.rs`: names on the wire. `public_error.rs`: the public part of errors.

mod access;
mod activity;
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
mod inspector;
mod layers;
mod limits;
mod listen;
mod memory_pool;
mod openapi;
mod operations;
mod public_error;
mod refusal;
mod reload;
mod runs;
mod scope;

mod server;
mod spans;
mod sse;
mod state_memory;
mod store_probe;
mod surface;
mod url_prefix;
mod v1;
mod vertex;
mod wire_names;
mod wording;

pub use access::{Login, MadeToken, NewToken, Right};
pub use limits::{Network, RateLimit, ServerLimits};
pub use listen::Tls;
pub use server::{Server, ServerBuilder};
pub use surface::Surface;
#[doc(hidden)]
pub use vertex::{filter, page_token};
