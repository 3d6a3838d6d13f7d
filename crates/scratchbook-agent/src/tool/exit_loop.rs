//! `exit_loop`: the tool with which a model ends a loop.

use serde_json::{Map, Value};

use super::FunctionTool;
use crate::agent::ToolContext;
use scratchbook_core::error::Error;

/// Returns ADK's tool `exit_loop`, with which an agent within a [`LoopAgent`](crate::agent::LoopAgent) ends the loop.
///
/// ```
/// use scratchbook::agent::{LlmAgent, exit_loop};
///
/// let critic = LlmAgent::builder("critic")
///     .instruction("Call exit_loop if the text needs no change.")
///     .tool(exit_loop())
///     .build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[must_use]
pub fn exit_loop() -> FunctionTool {
    let description = "Exits the loop.\n\nCall this function only when you are instructed to do so.";
    let run = |_: Map<String, Value>, context: ToolContext| async move {
        context.escalate()?;
        context.skip_summarization()?;
        Ok::<_, Error>(Value::Null)
    };
    FunctionTool::new("exit_loop", description, run).with_parameters_json_schema(Value::Null)
}
