//! Describes the agents that a model may hand the conversation to. The wording is ADK's.

use std::sync::Arc;

use crate::agent::Agent;
use crate::tool::TransferTool;

/// Lists the agents by name and description, and says when to hand over. `parent` is the agent above, if it may receive
/// the conversation.
pub(super) fn transfer_instruction(targets: &[&Arc<dyn Agent>], parent: Option<&str>) -> String {
    let tool = TransferTool::NAME;
    let described: Vec<_> = targets
        .iter()
        .map(|agent| format!("\nAgent name: {}\nAgent description: {}\n", agent.name(), agent.description()))
        .collect();
    let described = described.join("\n");
    let mut names: Vec<_> = targets.iter().map(|agent| agent.name()).collect();
    names.sort_unstable();
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    let mut text = format!(
        "
You have a list of other agents to transfer to:

{described}

If you are the best to answer the question according to your description,
you can answer it.

If another agent is better for answering the question according to its
description, call `{tool}` function to transfer the question to that
agent. When transferring, do not generate any text other than the function
call.

**NOTE**: the only available agents for `{tool}` function are
{names}.
"
    );
    if let Some(parent) = parent {
        text.push_str(&format!(
            "\nIf neither you nor the other agents are best for the question, transfer to your parent agent {parent}.\n"
        ));
    }
    text
}
