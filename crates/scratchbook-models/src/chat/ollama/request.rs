//! A request in Ollama's format.

use genai::chat::{BinarySource, ChatMessage, ChatRequest, ContentPart, ReasoningEffort};
use serde_json::{Map, Value, json};

use super::super::options;
use scratchbook_agent::model::LlmRequest;
use scratchbook_core::error::Result;

/// Returns the body of a request, from the conversation and tools in genai's types.
pub(in super::super) fn body(request: &LlmRequest, chat: ChatRequest, model: &str) -> Result<Value> {
    let system = chat.system.map(|system| json!({"role": "system", "content": system}));
    let messages: Vec<Value> = system.into_iter().chain(chat.messages.into_iter().map(message)).collect();
    let mut body = json!({"model": model, "stream": request.stream, "messages": messages});
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    let tools = chat.tools.map(|tools| {
        tools.into_iter().map(|tool| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        })
    });
    set("tools", tools.map(Iterator::collect));
    set("format", format(request));
    set("options", options(request));
    set("think", think(request)?);
    Ok(body)
}

fn message(message: ChatMessage) -> Value {
    let mut said = Map::new();
    said.insert("role".to_owned(), message.role.to_string().to_lowercase().into());
    let (mut texts, mut images, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for part in message.content {
        match part {
            ContentPart::Text(text) => texts.push(text),
            ContentPart::Binary(binary) => {
                if let BinarySource::Base64(data) = binary.source {
                    images.push(data);
                }
            }
            ContentPart::ReasoningContent(thought) => {
                said.insert("thinking".to_owned(), thought.into());
            }
            ContentPart::ToolCall(call) => calls.push(json!({
                "id": call.call_id, "function": {"name": call.fn_name, "arguments": call.fn_arguments},
            })),
            ContentPart::ToolResponse(answer) => {
                texts.push(answer.content);
                said.insert("tool_call_id".to_owned(), answer.call_id.into());
                said.extend(answer.fn_name.map(|name| ("tool_name".to_owned(), name.into())));
            }
            ContentPart::ThoughtSignature(_) | ContentPart::Custom(_) => {}
        }
    }
    said.insert("content".to_owned(), texts.join("\n").into());
    if !images.is_empty() {
        said.insert("images".to_owned(), json!(images));
    }
    if !calls.is_empty() {
        said.insert("tool_calls".to_owned(), calls.into());
    }
    said.into()
}

fn format(request: &LlmRequest) -> Option<Value> {
    let json = request.config.response_mime_type.as_deref() == Some("application/json");
    request.output_schema.clone().or_else(|| json.then(|| "json".into()))
}

fn options(request: &LlmRequest) -> Option<Value> {
    let config = &request.config;
    let options = [
        ("temperature", config.temperature.map(Value::from)),
        ("top_p", config.top_p.map(Value::from)),
        ("top_k", config.top_k.map(options::whole)),
        ("num_predict", config.max_output_tokens.map(Value::from)),
        ("stop", config.stop_sequences.clone().map(Value::from)),
        ("seed", config.seed.map(Value::from)),
        ("presence_penalty", config.presence_penalty.map(Value::from)),
        ("frequency_penalty", config.frequency_penalty.map(Value::from)),
    ];
    let set: Map<_, _> = options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!set.is_empty()).then_some(Value::Object(set))
}

/// Translates the thinking configuration. Ollama has levels instead of budgets, so a budget only tells whether the
/// model thinks: zero means no.
fn think(request: &LlmRequest) -> Result<Option<Value>> {
    let wanted = options::Thinking::of(&request.config)?;
    Ok(match (wanted.level, wanted.budget) {
        (Some(ReasoningEffort::Minimal | ReasoningEffort::Low), _) => Some("low".into()),
        (Some(ReasoningEffort::Medium), _) => Some("medium".into()),
        (Some(_), _) => Some("high".into()),
        (None, Some(budget)) => Some((budget != 0).into()),
        (None, None) => None,
    })
}
