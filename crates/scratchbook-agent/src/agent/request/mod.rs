//! Builds an agent's request to its model. The order of the instruction's texts, the declared tools and the places of
//! further contents in the conversation are google-adk's.

mod insertion_point;
mod instruction;
mod transfer;

use std::collections::HashSet;
use std::sync::Arc;

use super::compaction::estimated;
use super::history::{self, HistoryOptions};
use super::llm_agent::{Instruction, LlmAgentDefinition};
use super::pending_event::PendingEvent;
use super::{Agent, CallbackContext, InvocationContext};
use crate::model::{Llm, LlmCapabilities, LlmRequest};
use crate::tool::{Tool, TransferTool, is_transfer_tool};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};

use instruction::{SystemInstruction, identity, with_the_conversation};
use transfer::transfer_instruction;

/// Tells a model to give its answer by calling a tool.
const ANSWER_BY_TOOL: &str = "IMPORTANT: You have access to other tools, but you must provide your final response using \
    the set_model_response tool with the required structured format. After using any other tools needed to complete the \
    task, always call set_model_response with your final answer in the specified schema format.";

/// Builds the request of an agent's next step.
///
/// # Errors
///
/// `NotFound` names a key that an instruction needs and that is missing from the state. An error of the application's
/// own instruction function, or of a tool that adds itself to the request, is returned unchanged.
pub(super) async fn request(
    agent: &LlmAgentDefinition,
    model: &dyn Llm,
    tools: &[Arc<dyn Tool>],
    pending: &PendingEvent,
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
    let mut request = LlmRequest {
        model: model.name().to_owned(),
        system_instruction: system.into_text(),
        contents,
        output_schema: shown.map(|output| output.schema.clone()),
        config: agent.generate_content_config.clone(),
        stream: context.run_config().streaming,
        ..LlmRequest::default()
    };
    if !tools.is_empty() {
        let context = CallbackContext::new(pending, context);
        for tool in tools {
            tool.process_llm_request(&mut request, &context).await?;
        }
    }
    Ok(request)
}

/// Estimates the tokens of the conversation in an agent's next request.
pub(super) fn estimated_tokens(agent: &LlmAgentDefinition, model: &dyn Llm, context: &InvocationContext) -> u64 {
    estimated(history::contents(context, history_options(agent, model.capabilities())).iter())
}

fn history_options(agent: &LlmAgentDefinition, capabilities: LlmCapabilities) -> HistoryOptions {
    HistoryOptions { include: agent.include_contents, client_ids: capabilities.call_ids }
}

/// Returns the tools that a model may call: the built-in tools first, then the agent's own tools and the tools of its
/// toolsets.
///
/// # Errors
///
/// `InvalidArgument` if two tools have the same name; an error of a toolset is returned with the agent's name.
pub(super) async fn tools(
    agent: &LlmAgentDefinition,
    model: &dyn Llm,
    context: &InvocationContext,
) -> Result<Vec<Arc<dyn Tool>>> {
    let listed = agent.list_tools(&context.readonly()).await?;
    let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(listed.len() + 2);
    if let Some(output) = agent.output_schema.as_ref().filter(|_| answers_by_tool(agent, model.capabilities())) {
        tools.push(Arc::clone(&output.tool) as Arc<dyn Tool>);
    }
    let targets = context.tree().transfer_targets(&agent.name);
    if !targets.is_empty() {
        let names = targets.iter().map(|target| target.name().to_owned()).collect();
        tools.push(Arc::new(TransferTool::new(names)));
    }
    // The built-in tool lists the agents that may be named, so it replaces a tool of the same kind.
    tools.extend(listed.into_iter().filter(|tool| targets.is_empty() || !is_transfer_tool(tool.as_ref())));
    match same_name(&tools) {
        None => Ok(tools),
        Some(twice) => Err(Error::invalid(format!(
            "two tools of agent '{}' are called '{twice}'; give a toolset a prefix, or filter its tools",
            agent.name
        ))),
    }
}

/// Returns a name that two tools have.
fn same_name(tools: &[Arc<dyn Tool>]) -> Option<String> {
    let mut names = HashSet::new();
    let mut all = tools.iter().map(|tool| tool.declaration().name.as_str());
    all.find(|name| !names.insert(*name)).map(str::to_owned)
}

/// Returns whether the agent's answer is given by calling a tool, since the model does not support a schema together
/// with tools.
fn answers_by_tool(agent: &LlmAgentDefinition, capabilities: LlmCapabilities) -> bool {
    agent.output_schema.is_some() && agent.has_tools() && !capabilities.output_schema_and_tools
}

/// Returns the root agent's instruction for all agents of the tree.
fn root_instruction(context: &InvocationContext) -> Option<&Instruction> {
    let root = context.tree().root().as_llm_agent()?;
    root.inner.global_instruction.as_ref().filter(|global| global.source() != Some(""))
}
