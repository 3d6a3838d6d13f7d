//! The app `demo`: an assistant in a shop, who keeps a cart, remembers its customer and writes receipts.
//!
//! - `wish.rs`: what a message asks for; `items.rs`: of which things. `script.rs`: what the model makes of it. `tools.rs`: what is then done.

mod items;
mod script;
mod tools;
mod wish;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use scratchbook::{CallbackContext, Content, Llm, LlmAgent, Result, Tool};

pub(super) use script::answer;

/// What the model is told. The script reads the lines at the end, as a real model would.
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

/// The tools that it calls.
pub(in crate::agents) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(tools::add_to_cart()),
        Arc::new(tools::remove_from_cart()),
        Arc::new(tools::show_cart()),
        Arc::new(tools::remember()),
        Arc::new(tools::recall()),
        Arc::new(tools::save_note()),
        Arc::new(tools::ask_for_discount()),
        Arc::new(tools::check_out()),
        Arc::new(tools::forget_customer()),
    ]
}

/// The first message of a session is a visit. That it is the first is for this invocation alone to know.
async fn count_visit(context: CallbackContext) -> Result<Option<Content>> {
    let state = context.state();
    if !state.contains("messages") {
        state.increment("user:visits", 1)?;
        state.set("temp:begins", "yes")?;
    }
    state.increment("messages", 1)?;
    Ok(None)
}
