//! Tests of toolsets: with a real MCP server, with google-adk's toolset beside them, and with servers that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../examples/composed.rs"]
#[expect(dead_code, reason = "the example's `main` is not called")]
mod composed;
mod config;
mod google_adk;
mod hostile;
mod mcp_everything;
mod quirks;
mod run;
