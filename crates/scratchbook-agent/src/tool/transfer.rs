//! `transfer_to_agent`: the tool with which a model hands the conversation to another agent.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::Tool;
use crate::agent::ToolContext;
use crate::model::FunctionDeclaration;
use scratchbook_core::error::{Error, Result};

/// The error for a call that names no agent, in ADK's words.
const NO_NAME: &str = "Invoking `transfer_to_agent()` failed as the following mandatory input parameters are not present:\n\
    agent_name\n\
    You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.";

/// Returns ADK's tool `transfer_to_agent`, with which an agent hands over to any agent of its tree. An agent that may
/// hand over to others gets this tool automatically, and its model then sees only the names of these agents.
///
/// ```
/// use scratchbook::agent::{LlmAgent, transfer_to_agent};
///
/// let agent = LlmAgent::builder("operator").tool(transfer_to_agent()).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[must_use]
pub fn transfer_to_agent() -> impl Tool {
    TransferTool::to_any()
}

/// Returns whether a tool is [`transfer_to_agent`].
pub(crate) fn is_transfer_tool(tool: &dyn Tool) -> bool {
    let declaration = tool.declaration();
    declaration.name == TransferTool::NAME && *declaration == TransferTool::to_any().declaration
}

/// The built-in tool of an agent that may hand over to other agents.
#[derive(Debug)]
pub(crate) struct TransferTool {
    /// The agents that may be named; `None` for any agent.
    targets: Option<Vec<String>>,
    declaration: FunctionDeclaration,
}

impl TransferTool {
    /// ADK's name for the tool.
    pub(crate) const NAME: &str = "transfer_to_agent";

    pub(crate) fn new(targets: Vec<String>) -> Self {
        let declaration = FunctionDeclaration {
            name: Self::NAME.to_owned(),
            // The wording is ADK's, to which models are accustomed.
            description:
                "Transfer the query to another agent.\n\nUse this tool to hand off control to another agent that is \
                          more suitable to\nanswer the user's query according to the agent's description.\n\nArgs:\n  \
                          agent_name: the agent name to transfer to."
                    .to_owned(),
            parameters_json_schema: json!({
                "type": "object",
                "title": "transfer_to_agentParams",
                "properties": {"agent_name": {"type": "string", "title": "Agent Name", "enum": targets}},
                "required": ["agent_name"],
            }),
            response_json_schema: None,
        };
        Self { targets: Some(targets), declaration }
    }

    fn to_any() -> Self {
        let declaration = FunctionDeclaration {
            name: Self::NAME.to_owned(),
            description: "Transfer the query to another agent.\n\nUse this tool to hand off control to another agent \
                          that is more suitable to\nanswer the user's query according to the agent's \
                          description.\n\nArgs:\n  agent_name: the agent name to transfer to.\n  transfer_reason: the \
                          reason for transferring to the target agent."
                .to_owned(),
            parameters_json_schema: json!({
                "type": "object",
                "title": "transfer_to_agentParams",
                "properties": {
                    "agent_name": {"type": "string", "title": "Agent Name"},
                    "transfer_reason": {"type": "string", "title": "Transfer Reason", "default": ""},
                },
                "required": ["agent_name"],
            }),
            response_json_schema: None,
        };
        Self { targets: None, declaration }
    }
}

#[async_trait]
impl Tool for TransferTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        let Some(name) = args.get("agent_name") else {
            // ADK answers such a call itself, so the callbacks for failures do not receive it.
            return Ok(json!({"error": NO_NAME}));
        };
        let name = name.as_str().unwrap_or_default();
        let known = match &self.targets {
            Some(targets) => targets.clone(),
            None => context.agent_names(),
        };
        if !known.iter().any(|known| known == name) {
            let known = known.join(", ");
            return Err(Error::invalid(format!("there is no agent '{name}' to hand over to; there are: {known}")));
        }
        context.transfer_to_agent(name)?;
        Ok(Value::Null)
    }
}
