//! The app `demo`: an assistant in a shop, who keeps a cart, remembers its customer and writes receipts.
//!
//! - `wish.rs`: what a message asks for. `script.rs`: what the model makes of it. `tools.rs`: what is then done.

mod script;
mod tools;
mod wish;

#[cfg(test)]
mod tests;

use scratchbook::{CallbackContext, Content, LlmAgent, Result};

use super::model::DemoModel;

/// What the model is told. The script reads the lines at the end, as a real model would.
const INSTRUCTION: &str = "\
You are the assistant of a small shop. Keep the customer's cart with your tools; remember what the customer tells you.
Name: {user:name?}
Visits: {user:visits?}
Begins: {temp:begins?}";

pub(super) fn agent() -> Result<LlmAgent> {
    LlmAgent::builder("shopping_assistant")
        .description("Keeps a cart, remembers you, and writes receipts. Say help to see how.")
        .model(DemoModel(script::answer))
        .instruction(INSTRUCTION)
        .before_agent(count_visit)
        .tool(tools::add_to_cart())
        .tool(tools::remove_from_cart())
        .tool(tools::show_cart())
        .tool(tools::remember())
        .tool(tools::recall())
        .tool(tools::save_note())
        .tool(tools::check_out())
        .output_key("last_reply")
        .build()
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
