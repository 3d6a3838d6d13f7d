//! One tool of a server.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::connection::McpConnection;
use crate::fence;
use crate::result::dumped;
use scratchbook_agent::agent::{CallbackContext, ToolContext};
use scratchbook_agent::model::{FunctionDeclaration, LlmRequest};
use scratchbook_agent::tool::Tool;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// A tool that a server carries out.
#[derive(Debug)]
pub(crate) struct McpTool {
    connection: Arc<McpConnection>,
    /// The tool's name on the server.
    name: String,
    /// The declaration in the server's own words, with the name that the agent uses.
    declaration: FunctionDeclaration,
    needs_confirmation: bool,
}

impl McpTool {
    pub(crate) fn new(
        connection: Arc<McpConnection>,
        listed: rmcp::model::Tool,
        prefix: Option<&str>,
        needs_confirmation: bool,
    ) -> Self {
        let name = listed.name.into_owned();
        let schema = |schema: Arc<Map<String, Value>>| Value::Object(Arc::unwrap_or_clone(schema));
        let declaration = FunctionDeclaration {
            name: prefix.map_or_else(|| name.clone(), |prefix| format!("{prefix}_{name}")),
            description: listed.description.map(Into::into).unwrap_or_default(),
            parameters_json_schema: schema(listed.input_schema),
            response_json_schema: listed.output_schema.map(schema),
        };
        Self { connection, name, declaration, needs_confirmation }
    }

    /// Returns the declaration for a model, with the server's words between markers.
    fn fenced(&self) -> FunctionDeclaration {
        let FunctionDeclaration { name, description, parameters_json_schema, response_json_schema } = &self.declaration;
        FunctionDeclaration {
            name: name.clone(),
            description: fence::description(description),
            parameters_json_schema: fence::schema(parameters_json_schema),
            response_json_schema: response_json_schema.as_ref().map(fence::schema),
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, args: Map<String, Value>, _context: ToolContext) -> Result<Value> {
        let answer = dumped(&self.connection.call_tool(&self.name, args).await?)?;
        let limit = self.connection.limits.answer_bytes;
        let bytes = answer.to_string().len();
        if bytes > limit {
            let message =
                format!("the tool's answer has {bytes} bytes, but at most {limit} are passed on to the model");
            return Err(Error::new(ErrorKind::ResourceExhausted, message));
        }
        Ok(answer)
    }

    async fn requires_confirmation(&self, _args: &Map<String, Value>, _context: &ToolContext) -> Result<bool> {
        Ok(self.needs_confirmation)
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, _context: &CallbackContext) -> Result<()> {
        request.tools.push(self.fenced());
        if !request.system_instruction.as_deref().is_some_and(|text| text.contains(fence::PREAMBLE)) {
            request.append_instruction(fence::PREAMBLE);
        }
        Ok(())
    }
}
