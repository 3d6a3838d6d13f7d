//! Builds an agent's request to its model. The order of the instruction's texts, the declared tools and the places of
//! further contents in the conversation are google-adk's.

mod insertion_point;
mod instruction;
mod transfer;

use std::sync::Arc;

use super::compaction::estimated;
use super::history::{self, HistoryOptions};
use super::llm_agent::{Instruction, LlmAgentDefinition};
use super::{Agent, InvocationContext};
use crate::model::{FunctionDeclaration, Llm, LlmCapabilities, LlmRequest};
use crate::tool::{Tool, TransferTool};
use scratchbook_core::content::Content;
use scratchbook_core::error::Result;

use instruction::{SystemInstruction, identity, with_the_conversation};
use transfer::transfer_instruction;

/// Tells a model to give its answer by calling a tool.
const ANSWER_BY_TOOL: &str = "IMPORTANT: You have access to other tools, but you must provide your final response using \
    the set_model_response tool with the required structured format. After using any other tools needed to complete the \
    task, always call set_model_response with your final answer in the specified schema format.";

/// Added to the description of a long-running tool.
const LONG_RUNNING: &str = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned \
    some intermediate or pending status.";

/// Builds the request of an agent's next step.
///
/// # Errors
///
/// `NotFound` names a key that an instruction needs and that is missing from the state. An error of the application's
/// own instruction function is returned unchanged.
pub(super) async fn request(
    agent: &LlmAgentDefinition,
    model: &dyn Llm,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
) -> Result<LlmRequest> {
    let capabilities = model.capabilities();
    let mut system = SystemInstruction::default();
    if let Some(global) = root_instruction(context) {
        system.append(&global.render_as("global instruction", context.readonly()).await?);
    }
    let mut beside = Vec::new();
    let own = match &agent.instruction {
        Some(own) if own.source() != Some("") => Some(own.render(context.readonly()).await?),
        _ => None,
    };
    match (&agent.static_instruction, own) {
        (Some(fixed), own) => {
            system.append(&fixed.text);
            beside.extend(fixed.contents.iter().cloned());
            beside.extend(own.map(|own| Content::user(with_the_conversation(&own))));
        }
        (None, Some(own)) => system.append(&own),
        (None, None) => {}
    }
    system.append(&identity(agent));
    if answers_by_tool(agent, capabilities) {
        system.append(ANSWER_BY_TOOL);
    }
    let targets = context.tree().transfer_targets(&agent.name);
    if !targets.is_empty() {
        let parent = context.tree().parent(&agent.name).filter(|_| !agent.disallow_transfer_to_parent);
        system.append(&transfer_instruction(&targets, parent));
    }
    let mut contents = history::contents(context, history_options(agent, capabilities));
    let at = match agent.static_instruction.as_ref().is_some_and(|fixed| !fixed.contents.is_empty()) {
        // Content that is the same in every request is placed first.
        true => 0,
        false => insertion_point::before_current_turn(&contents),
    };
    contents.splice(at..at, beside);
    let shown = agent.output_schema.as_ref().filter(|_| !answers_by_tool(agent, capabilities));
    Ok(LlmRequest {
        model: model.name().to_owned(),
        system_instruction: system.into_text(),
        contents,
        tools: tools.iter().map(|tool| declaration(tool.as_ref())).collect(),
        output_schema: shown.map(|output| output.schema.clone()),
        config: agent.generate_content_config.clone(),
        stream: context.run_config().streaming,
    })
}

/// Estimates the tokens of the conversation in an agent's next request.
pub(super) fn estimated_tokens(agent: &LlmAgentDefinition, model: &dyn Llm, context: &InvocationContext) -> u64 {
    estimated(history::contents(context, history_options(agent, model.capabilities())).iter())
}

fn history_options(agent: &LlmAgentDefinition, capabilities: LlmCapabilities) -> HistoryOptions {
    HistoryOptions { include: agent.include_contents, client_ids: capabilities.call_ids }
}

/// Returns the tools that a model may call: the built-in ones first, then the agent's own.
pub(super) fn tools(agent: &LlmAgentDefinition, model: &dyn Llm, context: &InvocationContext) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(agent.tools.len() + 2);
    if let Some(output) = agent.output_schema.as_ref().filter(|_| answers_by_tool(agent, model.capabilities())) {
        tools.push(Arc::clone(&output.tool) as Arc<dyn Tool>);
    }
    let targets = context.tree().transfer_targets(&agent.name);
    if !targets.is_empty() {
        let names = targets.iter().map(|target| target.name().to_owned()).collect();
        tools.push(Arc::new(TransferTool::new(names)));
    }
    tools.extend(agent.tools.iter().cloned());
    tools
}

/// Returns a tool's declaration for the model. A long-running tool's description has a note, in ADK's words.
fn declaration(tool: &dyn Tool) -> FunctionDeclaration {
    let mut declaration = tool.declaration().clone();
    if tool.is_long_running() {
        let separator = if declaration.description.is_empty() { "" } else { "\n\n" };
        declaration.description.push_str(separator);
        declaration.description.push_str(LONG_RUNNING);
    }
    declaration
}

/// Returns whether the agent's answer is given by calling a tool, since the model does not support a schema together
/// with tools.
fn answers_by_tool(agent: &LlmAgentDefinition, capabilities: LlmCapabilities) -> bool {
    agent.output_schema.is_some() && !agent.tools.is_empty() && !capabilities.output_schema_and_tools
}

/// Returns the root agent's instruction for all agents of the tree.
fn root_instruction(context: &InvocationContext) -> Option<&Instruction> {
    let root = context.tree().root().as_llm_agent()?;
    root.inner.global_instruction.as_ref().filter(|global| global.source() != Some(""))
}
