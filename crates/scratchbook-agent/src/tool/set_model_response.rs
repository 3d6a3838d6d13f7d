//! `set_model_response`: the tool with which a model gives its answer if it does not support a schema together with
//! tools.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::Tool;
use crate::agent::ToolContext;
use crate::model::FunctionDeclaration;
use scratchbook_core::error::Result;

/// The built-in tool of an agent whose answers have a schema that the agent's model does not accept in a request.
#[derive(Debug)]
pub(crate) struct SetModelResponseTool {
    declaration: FunctionDeclaration,
    /// The argument that contains the answer; `None` if the arguments as a whole are the answer.
    argument: Option<&'static str>,
    check: fn(&Value) -> Result<()>,
}

impl SetModelResponseTool {
    /// ADK's name for the tool.
    pub(crate) const NAME: &str = "set_model_response";

    pub(crate) fn new(schema: &Value, check: fn(&Value) -> Result<()>) -> Self {
        let argument = argument(schema);
        let declaration = FunctionDeclaration {
            name: Self::NAME.to_owned(),
            description:
                "Set your final response using the required output schema.\n\nUse this tool to provide your final \
                          structured answer instead\nof outputting text directly."
                    .to_owned(),
            parameters_json_schema: match argument {
                Some(argument) => within_object(argument, schema.clone()),
                None => schema.clone(),
            },
            response_json_schema: None,
        };
        Self { declaration, argument, check }
    }
}

/// Returns the name of the argument for an answer that is not an object; the name is ADK's. An answer that is an object
/// is passed as the tool's arguments.
fn argument(schema: &Value) -> Option<&'static str> {
    match schema["type"].as_str() {
        Some("object") => None,
        Some("array") if schema["items"]["type"] == "object" || schema["items"].get("$ref").is_some() => Some("items"),
        _ => Some("response"),
    }
}

/// Returns the schema of an object with only this property. Definitions stay at the root, where references expect them.
fn within_object(name: &str, mut schema: Value) -> Value {
    let mut of_root = Map::new();
    if let Some(schema) = schema.as_object_mut() {
        for key in ["$schema", "$defs", "definitions"] {
            of_root.extend(schema.shift_remove(key).map(|value| (key.to_owned(), value)));
        }
    }
    let mut object = json!({"type": "object", "properties": {name: schema}, "required": [name]});
    if let Some(object) = object.as_object_mut() {
        object.extend(of_root);
    }
    object
}

#[async_trait]
impl Tool for SetModelResponseTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, mut args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        let answer = match self.argument {
            Some(argument) => args.shift_remove(argument).unwrap_or_default(),
            None => Value::Object(args),
        };
        // The model receives the error and can correct its answer. The wording is ADK's.
        if let Err(error) = (self.check)(&answer) {
            let message = format!(
                "Validation Error found:\n{error}\nRecall the set_model_response function correctly, fix the errors, and \
                 call it again with all required fields using the correct types."
            );
            return Ok(json!({"error": message}));
        }
        context.set_model_response(answer.clone())?;
        Ok(answer)
    }
}
