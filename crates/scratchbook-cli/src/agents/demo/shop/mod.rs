//! The app `demo`: an assistant in a shop that keeps a cart, remembers its customer and writes receipts.
//!
//! - `request.rs` reads a message, `script.rs` answers in the model's place, `tools.rs` has the tools it calls.

mod request;
mod script;
mod tools;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use scratchbook::agent::CallbackContext;
use scratchbook::model::Llm;
use scratchbook::{Content, LlmAgent, Result};

pub(super) use script::answer;
pub(in crate::agents) use tools::tools;

/// The agent's instruction. The script reads the last three lines, as a real model would.
const INSTRUCTION: &str = "\
You are the assistant of a small shop. Keep the customer's cart with your tools; remember what the customer tells you.
Name: {user:name?}
Visits: {user:visits?}
Begins: {temp:begins?}";

pub(super) fn agent(model: Arc<dyn Llm>) -> Result<LlmAgent> {
    let agent = LlmAgent::builder("shopping_assistant")
        .description("Keeps a cart, remembers you, and writes receipts. Say help to see how.")
        .model(model)
        .instruction(INSTRUCTION)
        .before_agent(count_visit)
        .output_key("last_reply");
    tools().into_iter().fold(agent, |agent, tool| agent.tool(tool)).build()
}

/// Counts the first message of a session as a visit, and marks this invocation as the session's first.
async fn count_visit(context: CallbackContext) -> Result<Option<Content>> {
    let state = context.state();
    if !state.contains("messages") {
        state.increment("user:visits", 1)?;
        state.set("temp:begins", "yes")?;
    }
    state.increment("messages", 1)?;
    Ok(None)
}
