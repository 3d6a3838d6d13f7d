//! Agents, tools, instruction templates and the [`Runner`](runner::Runner) of
//! [scratchbook](https://docs.rs/scratchbook), over any of its stores.
//!
//! A [`Runner`](runner::Runner) takes a user's message, lets an agent act on it, and commits every event that the agent
//! yields to the session. An [`LlmAgent`](agent::LlmAgent) calls a model and runs the [tools](tool) that the model asks
//! for. Tools and callbacks read and write the session's state through their context. Each change is committed with the
//! event to which the tool or callback contributes.
//!
//! ```
//! use futures_util::TryStreamExt;
//! use scratchbook::prelude::*;
//! use serde_json::{Map, Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
//! let add = |args: Map<String, Value>, context: ToolContext| async move {
//!     context.state().append("cart", &args["item"])?;
//!     Ok(json!({"status": "added"}))
//! };
//! // A model of a provider comes from `scratchbook-models`; this one follows a script.
//! let call = LlmResponse::call("add_to_cart", json!({"item": "book"}));
//! let agent = LlmAgent::builder("assistant")
//!     .model(ScriptedLlm::new([call, "It is in your cart.".into()]))
//!     .instruction("Help the user with the shopping cart.")
//!     .tool(FunctionTool::new("add_to_cart", "Adds an item.", add))
//!     .build()?;
//!
//! let runner = Runner::builder("shop", agent, InMemorySessionService::new()).auto_create_session().build()?;
//! let events: Vec<_> = runner.run("alice", "s1", "One book, please").try_collect().await?;
//! assert_eq!(events[2].content.as_ref().unwrap().text(), "It is in your cart.");
//! # Ok(()) }
//! ```
//!
//! - [`agent`] has agents that call models, agents that run other agents, and the contexts of callbacks and tools.
//! - [`instruction`] has templates that are filled from the state.
//! - [`model`] has the trait of models, and a scripted model for tests.
//! - [`plugin`] has the trait of plugins: callbacks for all agents of a runner.
//! - [`runner`] runs agents on sessions, one run at a time per session.
//! - [`tool`] has the trait of tools, and tools made from functions.
//! - `config`, with the feature of that name, reads agents from YAML files of ADK's Agent Config, and `replay` replays
//!   recordings of ADK's conformance tests.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
#[cfg(feature = "config")]
pub mod config;
#[doc(hidden)]
pub mod credentials;
pub mod instruction;
pub mod model;
pub mod plugin;
#[cfg(feature = "config")]
pub mod replay;
pub mod runner;
pub mod tool;
pub mod trace;
