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
//! - `served.rs`: what every handler is given. `apps.rs`: the agents that are hosted.
//! - `access/`: who calls and what they may; `scope.rs`: the app, user or session that a path names, checked
//!   against the caller before a handler sees it.
//! - `runs/`: runs that go on whether or not anybody listens; `sse.rs`: how they are told of.
//! - `adk/`: ADK's surface. `v1/`: our own. Each has its routes in `mod.rs` and its form of errors in `error.rs`.

mod access;
mod adk;
mod apps;
mod runs;
mod scope;
mod served;
mod server;
mod sse;
mod v1;

pub use server::{Server, ServerBuilder};
