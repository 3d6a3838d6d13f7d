//! A request in genai's types, which genai translates for each provider.

use std::collections::BTreeSet;

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart, MessageContent, Tool, ToolResponse};
use serde_json::json;

use super::history::{self, ChatTurn, Reply, turns};
use super::parts::NotTaken;
use super::{ProviderProfile, WireProtocol, options, parts};
use scratchbook_agent::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::content::Part;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The message of an empty conversation, in ADK's words.
const BEGIN: &str = "Handle the requests as specified in the System Instruction.";

/// The message after the model's last words, in ADK's words.
const GO_ON: &str = "Continue processing previous requests as instructed. Exit or provide a summary if no more outputs are \
                     needed.";

/// The maximum length of a tool's name with OpenAI. Anthropic's maximum is not smaller.
const LONGEST_NAME: usize = 64;

/// Returns the conversation and the tools of a request. [`options`] has the configuration of the answer.
pub(super) fn chat(request: &LlmRequest, profile: &ProviderProfile) -> Result<ChatRequest> {
    if let Some(tool) = request.built_in_tools.first() {
        let names: Vec<_> = tool.as_object().into_iter().flat_map(|tool| tool.keys().cloned()).collect();
        let message = format!(
            "the built-in tool '{}' exists for Gemini's models only; give the agent one, or leave the tool out",
            names.join("', '")
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut messages = Vec::new();
    let mut turns = turns(&request.contents, profile.kind);
    if profile.wire != WireProtocol::Ollama {
        let declared: BTreeSet<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        turns.iter_mut().flat_map(history::names).filter(|name| !declared.contains(name.as_str())).for_each(make_plain);
    }
    let asked = turns.iter().rposition(|turn| matches!(turn, ChatTurn::User(_)));
    for (n, turn) in turns.into_iter().enumerate() {
        match turn {
            ChatTurn::User(said) => {
                let not_taken = if Some(n) == asked { NotTaken::Refused } else { NotTaken::Named };
                push(&mut messages, ChatMessage::user, parts::user(&said, profile, not_taken)?);
            }
            ChatTurn::Model(said) => push(&mut messages, ChatMessage::assistant, parts::model(&said, profile)),
            ChatTurn::Answers(replies) => answers(&mut messages, replies, profile),
        }
    }
    match messages.last() {
        None => messages.push(ChatMessage::user(BEGIN)),
        Some(last) if last.role == ChatRole::Assistant => messages.push(ChatMessage::user(GO_ON)),
        Some(_) => {}
    }
    if profile.wire == WireProtocol::Anthropic {
        messages = alternating(messages);
    }
    let mut chat = ChatRequest::new(messages);
    chat.system = system(request, profile);
    let tools: Vec<_> = options::tools(request, profile).map(|declared| tool(declared, profile)).collect();
    chat.tools = (!tools.is_empty()).then_some(tools);
    Ok(chat)
}

/// Makes a name valid for every provider. The conversation may contain names of tools of other agents or providers.
/// Names that the request declares are not changed; the provider checks them.
fn make_plain(name: &mut String) {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    *name = name.chars().map(plain).take(LONGEST_NAME).collect();
    if name.is_empty() {
        name.push('_');
    }
}

fn push(messages: &mut Vec<ChatMessage>, message: fn(MessageContent) -> ChatMessage, content: Vec<ContentPart>) {
    if !content.is_empty() {
        messages.push(message(MessageContent::from_parts(content)));
    }
}

/// Adds the responses to calls. With Anthropic, media goes into the responses. With other providers, it comes after all
/// responses, as the user's.
fn answers(messages: &mut Vec<ChatMessage>, replies: Vec<Reply>, profile: &ProviderProfile) {
    let (mut content, mut media): (Vec<ContentPart>, Vec<Part>) = (Vec::new(), Vec::new());
    for Reply { id, name, text, media: beside } in replies {
        if profile.wire == WireProtocol::Anthropic && !beside.is_empty() {
            let mut blocks = vec![json!({"type": "text", "text": text})];
            blocks.extend(beside.iter().map(parts::media_block));
            content.push(parts::block(json!({"type": "tool_result", "content": blocks, "tool_use_id": id})));
        } else {
            media.extend(beside);
            content.push(ContentPart::ToolResponse(ToolResponse::new(id, text).with_fn_name(name)));
        }
    }
    if profile.wire == WireProtocol::Ollama {
        // Each message has one response, since Ollama would read only the last of several.
        content.into_iter().for_each(|answer| push(messages, ChatMessage::tool, vec![answer]));
    } else {
        push(messages, ChatMessage::tool, content);
    }
    push(messages, ChatMessage::user, media.iter().flat_map(|part| parts::media(part, profile)).collect());
}

/// Returns the same messages with alternating sides, the user's first. Responses to calls count as the user's.
fn alternating(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut all: Vec<ChatMessage> = Vec::new();
    for mut message in messages {
        if message.role == ChatRole::Tool {
            message.role = ChatRole::User;
        }
        match all.last_mut() {
            Some(last) if last.role == message.role => last.content.extend(message.content),
            None if message.role == ChatRole::Assistant => all.extend([ChatMessage::user(BEGIN), message]),
            _ => all.push(message),
        }
    }
    all
}

/// Returns the instruction, with the answer's schema if the provider has no other place for it.
fn system(request: &LlmRequest, profile: &ProviderProfile) -> Option<String> {
    let in_instruction = request.output_schema.as_ref().filter(|_| !profile.takes_schema());
    let schema = in_instruction
        .map(|schema| format!("Answer with JSON that has this JSON Schema, and with nothing else:\n{schema}"));
    let texts: Vec<_> = request.system_instruction.clone().into_iter().chain(schema).collect();
    Some(texts.join("\n\n")).filter(|text| !text.is_empty())
}

fn tool(declaration: &FunctionDeclaration, profile: &ProviderProfile) -> Tool {
    let schema = &declaration.parameters_json_schema;
    // Providers require an object even if there are no arguments.
    let schema = if schema.is_object() { schema.clone() } else { json!({"type": "object", "properties": {}}) };
    let tool =
        Tool::new(declaration.name.as_str()).with_description(declaration.description.as_str()).with_schema(schema);
    // In OpenAI's default mode, the optional arguments of a schema would be required.
    if profile.wire == WireProtocol::Responses { tool.with_strict(false) } else { tool }
}
