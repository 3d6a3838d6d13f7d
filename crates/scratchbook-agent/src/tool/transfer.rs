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

/// The built-in tool of an agent that may hand over to other agents.
#[derive(Debug)]
pub(crate) struct TransferTool {
    targets: Vec<String>,
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
        };
        Self { targets, declaration }
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
        if !self.targets.iter().any(|target| target == name) {
            let known = self.targets.join(", ");
            return Err(Error::invalid(format!("there is no agent '{name}' to hand over to; there are: {known}")));
        }
        context.transfer_to_agent(name);
        Ok(Value::Null)
    }
}
