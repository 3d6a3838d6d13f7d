//! A request as genai's, which puts it into each provider's words.

use std::collections::BTreeSet;

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart, MessageContent, Tool, ToolResponse};
use serde_json::json;

use super::history::{self, Reply, Turn, turns};
use super::parts::NotTaken;
use super::{Dialect, Wire, options, parts};
use scratchbook_agent::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;

/// What is asked where nobody has said anything yet, in ADK's words.
const BEGIN: &str = "Handle the requests as specified in the System Instruction.";

/// What is asked where the model has had the last word, in ADK's words.
const GO_ON: &str = "Continue processing previous requests as instructed. Exit or provide a summary if no more outputs are \
                     needed.";

/// How long the name of a tool may be with OpenAI; with Anthropic, it is no shorter.
const LONGEST_NAME: usize = 64;

/// The conversation and the tools of a request. How the model is to answer is in [`options`].
pub(super) fn chat(request: &LlmRequest, dialect: &Dialect) -> Result<ChatRequest> {
    let mut messages = Vec::new();
    let mut turns = turns(&request.contents, dialect.kind);
    if dialect.wire != Wire::Ollama {
        let declared: BTreeSet<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        turns.iter_mut().flat_map(history::names).filter(|name| !declared.contains(name.as_str())).for_each(make_plain);
    }
    let asked = turns.iter().rposition(|turn| matches!(turn, Turn::User(_)));
    for (n, turn) in turns.into_iter().enumerate() {
        match turn {
            Turn::User(said) => {
                let not_taken = if Some(n) == asked { NotTaken::Refused } else { NotTaken::Named };
                push(&mut messages, ChatMessage::user, parts::user(&said, dialect, not_taken)?);
            }
            Turn::Model(said) => push(&mut messages, ChatMessage::assistant, parts::model(&said, dialect)),
            Turn::Answers(replies) => answers(&mut messages, replies, dialect),
        }
    }
    match messages.last() {
        None => messages.push(ChatMessage::user(BEGIN)),
        Some(last) if last.role == ChatRole::Assistant => messages.push(ChatMessage::user(GO_ON)),
        Some(_) => {}
    }
    if dialect.wire == Wire::Anthropic {
        messages = alternating(messages);
    }
    let mut chat = ChatRequest::new(messages);
    chat.system = system(request, dialect);
    let tools: Vec<_> = options::tools(request, dialect).map(|declared| tool(declared, dialect)).collect();
    chat.tools = (!tools.is_empty()).then_some(tools);
    Ok(chat)
}

/// Makes a name one that every provider takes. Of another agent's or another provider's tools there may be others in the
/// conversation; what the request declares is left to the provider.
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

/// The answers to calls. Media goes into the answer with Anthropic, and after all answers with others, as the user's.
fn answers(messages: &mut Vec<ChatMessage>, replies: Vec<Reply>, dialect: &Dialect) {
    let (mut content, mut media): (Vec<ContentPart>, Vec<Part>) = (Vec::new(), Vec::new());
    for Reply { id, name, text, media: beside } in replies {
        if dialect.wire == Wire::Anthropic && !beside.is_empty() {
            let mut blocks = vec![json!({"type": "text", "text": text})];
            blocks.extend(beside.iter().map(parts::media_block));
            content.push(parts::block(json!({"type": "tool_result", "content": blocks, "tool_use_id": id})));
        } else {
            media.extend(beside);
            content.push(ContentPart::ToolResponse(ToolResponse::new(id, text).with_fn_name(name)));
        }
    }
    if dialect.wire == Wire::Ollama {
        // One answer a message, or the last would be the only one.
        content.into_iter().for_each(|answer| push(messages, ChatMessage::tool, vec![answer]));
    } else {
        push(messages, ChatMessage::tool, content);
    }
    push(messages, ChatMessage::user, media.iter().flat_map(|part| parts::media(part, dialect)).collect());
}

/// The same messages, the user's first and none twice in a row from one side; answers to calls are the user's.
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

/// The instruction, with the schema of the answer where the provider has no other place for it.
fn system(request: &LlmRequest, dialect: &Dialect) -> Option<String> {
    let told = request.output_schema.as_ref().filter(|_| !dialect.takes_schema());
    let schema =
        told.map(|schema| format!("Answer with JSON that has this JSON Schema, and with nothing else:\n{schema}"));
    let texts: Vec<_> = request.system_instruction.clone().into_iter().chain(schema).collect();
    Some(texts.join("\n\n")).filter(|text| !text.is_empty())
}

fn tool(declaration: &FunctionDeclaration, dialect: &Dialect) -> Tool {
    let schema = &declaration.parameters_json_schema;
    // Providers want an object, also where there are no arguments.
    let schema = if schema.is_object() { schema.clone() } else { json!({"type": "object", "properties": {}}) };
    let tool =
        Tool::new(declaration.name.as_str()).with_description(declaration.description.as_str()).with_schema(schema);
    // Left to itself, OpenAI would make optional arguments of a schema required.
    if dialect.wire == Wire::Responses { tool.with_strict(false) } else { tool }
}
