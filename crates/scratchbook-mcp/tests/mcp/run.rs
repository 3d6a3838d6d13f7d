//! Runs an agent whose model follows a script and records its requests.

use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use scratchbook::mcp::{McpToolset, StdioConnectionParams};
use scratchbook::model::{LlmRequest, LlmResponse, ScriptedLlm};
use scratchbook::{Event, InMemorySessionService, LlmAgent, Result, Runner};
use serde_json::Value;

/// The requests of a run to the model, and the run's events.
pub(crate) struct FinishedRun {
    pub(crate) requests: Vec<LlmRequest>,
    pub(crate) events: Vec<Event>,
}

impl FinishedRun {
    /// Returns the responses of tools, in order.
    pub(crate) fn responses(&self) -> Vec<Value> {
        let responses = self.events.iter().flat_map(Event::function_responses);
        responses.map(|response| Value::Object(response.response.clone().unwrap_or_default())).collect()
    }
}

/// Runs an agent with a toolset. The model makes the calls, all at once, and then ends the conversation.
pub(crate) async fn calls(tools: &McpToolset, calls: &[(&str, Value)]) -> Result<FinishedRun> {
    let first = LlmResponse::calls(calls.iter().map(|(name, args)| (*name, args.clone())));
    let model = ScriptedLlm::new([first, "Done.".into()]);
    let agent = LlmAgent::builder("caller").model(model.clone()).toolset(tools.clone()).build()?;
    let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session().build()?;
    let events = runner.run("alice", "s1", "Go.").try_collect().await?;
    Ok(FinishedRun { requests: model.requests(), events })
}

/// Returns the folder of the server's package, which the step `node` of `cargo xtask gate` installs.
pub(crate) fn everything() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/node/node_modules");
    let script = installed.join("@modelcontextprotocol/server-everything/dist/index.js");
    assert!(script.exists(), "run `cargo xtask gate --step node` before");
    script
}

/// Returns the parameters of the server as a process.
pub(crate) fn over_stdio() -> StdioConnectionParams {
    StdioConnectionParams::new("node", [everything().to_string_lossy(), "stdio".into()])
        .with_timeout(std::time::Duration::from_secs(30))
}
