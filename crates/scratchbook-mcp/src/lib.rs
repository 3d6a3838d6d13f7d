//! Tools of MCP servers for the agents of [scratchbook](https://docs.rs/scratchbook): ADK's `McpToolset`, on the
//! official Rust SDK of the Model Context Protocol.
//!
//! - [`McpToolset`] lists a server's tools for an agent and calls them.
//! - [`StdioConnectionParams`] starts a server as a process, and [`StreamableHttpConnectionParams`] calls a server over
//!   HTTP.
//! - [`McpLimits`] limits what a server sends.
//! - `mcp_toolset_class`, with the feature `config`, reads toolsets from files of ADK's Agent Config.
//!
//! This agent can list and read files. It uses two tools of a server, which the toolset starts:
//!
//! ```no_run
//! use scratchbook::LlmAgent;
//! use scratchbook::mcp::{McpToolset, StdioConnectionParams};
//!
//! # fn agent() -> scratchbook::Result<LlmAgent> {
//! let server = StdioConnectionParams::new("npx", ["-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"]);
//! let files = McpToolset::builder(server).tool_filter(["read_text_file", "list_directory"]).build()?;
//! LlmAgent::builder("reader").toolset(files).build()
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
#[cfg(feature = "config")]
mod config;
mod connection;
mod failure;
mod fence;
mod http;
mod inbound;
mod limits;
mod lines;
mod params;
mod process;
mod result;
mod secrets;
mod tool;
mod toolset;

#[cfg(feature = "config")]
pub use config::{McpConfigPolicy, mcp_toolset_class};
pub use limits::McpLimits;
pub use params::{McpConnectionParams, StdioConnectionParams, StreamableHttpConnectionParams};
pub use toolset::{McpToolset, McpToolsetBuilder};
