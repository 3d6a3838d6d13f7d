//! Writes a request in the form of each protocol.

use serde_json::{Map, Value, json};

use super::answers::THOUGHT_FIELD;
use super::claude::Claude;
use super::history::Reply;
use super::options::{Thinking, answer_schema, is_json, schema_name, tool_choice, whole};
use super::parts::{self, Data, DataSource, Piece, signature};
use super::request::{BEGIN, Conversation, Turn};
use super::schema::{self, Properties};
use super::{ProviderProfile, WireProtocol};
use crate::opaque::attached;
use scratchbook_agent::model::FunctionDeclaration;
use scratchbook_core::content::{FunctionCall, Part};
use scratchbook_core::error::{Error, Result};

/// Returns the body of a request.
pub(super) fn body(said: &Conversation<'_>) -> Result<Value> {
    let mut body = Map::new();
    set(&mut body, "model", Some(said.profile.model.as_str()));
    set(&mut body, "stream", Some(said.request.stream));
    match said.profile.wire {
        WireProtocol::Chat => chat(said, &mut body)?,
        WireProtocol::Responses => responses(said, &mut body)?,
        WireProtocol::Anthropic => anthropic(said, &mut body)?,
        WireProtocol::Ollama => ollama(said, &mut body)?,
    }
    Ok(body.into())
}

/// OpenAI's Chat Completions.
fn chat(said: &Conversation<'_>, body: &mut Map<String, Value>) -> Result<()> {
    let (profile, config) = (said.profile, &said.request.config);
    set(body, "stream_options", said.request.stream.then(|| json!({"include_usage": true})));
    set(body, "reasoning_effort", Thinking::of(config)?.effort());
    let tools = said.tools.iter().map(|tool| {
        let mut function = function(tool);
        function["strict"] = false.into();
        json!({"type": "function", "function": function})
    });
    set(body, "tools", some(tools.collect()));
    set(body, "tool_choice", tool_choice(config).filter(|_| !said.tools.is_empty()));
    let mut messages: Vec<_> = said.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    for turn in &said.turns {
        match turn {
            Turn::User(pieces) => messages.push(chat_user(pieces)),
            Turn::Model(parts) => messages.push(chat_assistant(parts, profile)),
            Turn::Replies(replies) => messages.extend(
                replies.iter().map(|reply| json!({"role": "tool", "tool_call_id": reply.id, "content": reply.text})),
            ),
        }
    }
    set(body, "messages", Some(messages));
    let format =
        format(said).map(|mut format| match format.as_object_mut().and_then(|fields| fields.remove("schema")) {
            Some(schema) => {
                let schema = json!({"name": format["name"], "strict": true, "schema": schema});
                json!({"type": "json_schema", "json_schema": schema})
            }
            None => format,
        });
    set(body, "response_format", format);
    set(body, "temperature", config.temperature);
    set(body, "top_p", config.top_p);
    let thinks = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|name| profile.model.starts_with(name));
    set(body, if thinks { "max_completion_tokens" } else { "max_tokens" }, config.max_output_tokens);
    set(body, "stop", config.stop_sequences.clone().and_then(some));
    set(body, "seed", config.seed);
    set(body, "presence_penalty", config.presence_penalty);
    set(body, "frequency_penalty", config.frequency_penalty);
    Ok(())
}

fn chat_user(pieces: &[Piece]) -> Value {
    let content = pieces.iter().map(|piece| {
        let data = match piece {
            Piece::Text(text) => return json!({"type": "text", "text": text}),
            Piece::Data(data) => data,
        };
        match &data.source {
            DataSource::Base64(bytes) if data.is("audio/") => {
                let format = data.mime_type.trim_start_matches("audio/");
                let format = if format == "mpeg" { "mp3" } else { format };
                json!({"type": "input_audio", "input_audio": {"data": bytes, "format": format}})
            }
            _ if data.is("image/") => json!({"type": "image_url", "image_url": {"url": data.url()}}),
            _ if data.is("video/") => json!({"type": "video_url", "video_url": {"url": data.url()}}),
            _ => {
                // OpenAI refuses files without a name.
                let name = data.name.as_deref().unwrap_or("document.pdf");
                json!({"type": "file", "file": {"filename": name, "file_data": data.url()}})
            }
        }
    });
    user(pieces, content)
}

/// Returns the model's message. What the provider has attached to it, or to one of its calls, goes back unchanged.
fn chat_assistant(parts: &[Part], profile: &ProviderProfile) -> Value {
    let mut message = Map::new();
    let (mut texts, mut thoughts, mut calls): (Vec<&str>, Vec<&str>, Vec<Value>) = Default::default();
    for part in parts {
        let data = attached(part, &profile.origin).cloned().unwrap_or_default();
        let text = part.text.as_deref().filter(|text| !text.is_empty());
        if let Some(call) = &part.function_call {
            let mut sent = data;
            set(&mut sent, "type", Some("function"));
            set(&mut sent, "id", call.id.as_deref());
            set(&mut sent, "function", Some(json!({"name": call.name, "arguments": arguments(call).to_string()})));
            calls.push(sent.into());
        } else if part.thought == Some(true) {
            message.extend(data);
            thoughts.extend(text);
        } else {
            texts.extend(text);
        }
    }
    let came = message.remove(THOUGHT_FIELD).and_then(|field| field.as_str().map(str::to_owned));
    let field = came.or_else(|| profile.wants_thoughts().then(|| "reasoning_content".to_owned()));
    if let Some(field) = field.filter(|_| !calls.is_empty() && !thoughts.is_empty()) {
        set(&mut message, &field, Some(thoughts.join("\n")));
    }
    set(&mut message, "role", Some("assistant"));
    set(&mut message, "content", Some(texts.join("\n\n")));
    set(&mut message, "tool_calls", some(calls));
    message.into()
}

/// OpenAI's Responses.
fn responses(said: &Conversation<'_>, body: &mut Map<String, Value>) -> Result<()> {
    let config = &said.request.config;
    set(body, "store", Some(false));
    set(body, "instructions", said.system.as_deref());
    // Summaries of thoughts come only on request.
    let thinking = Thinking::of(config)?;
    let summary = (thinking.include == Some(true)).then_some("detailed");
    let mut reasoning = Map::new();
    set(&mut reasoning, "effort", thinking.effort());
    set(&mut reasoning, "summary", summary);
    set(body, "reasoning", (!reasoning.is_empty()).then_some(reasoning));
    set(body, "include", summary.map(|_| json!(["reasoning.encrypted_content"])));
    let tools = said.tools.iter().map(|tool| {
        let mut function = function(tool);
        function["type"] = "function".into();
        // By default, the optional arguments of a schema would be required.
        function["strict"] = false.into();
        function
    });
    set(body, "tools", some(tools.collect()));
    set(body, "tool_choice", tool_choice(config).filter(|_| !said.tools.is_empty()));
    let mut input = Vec::new();
    for turn in &said.turns {
        match turn {
            Turn::User(pieces) => input.push(responses_user(pieces)),
            Turn::Model(parts) => input.extend(parts.iter().map(|part| responses_item(part, said.profile))),
            Turn::Replies(replies) => input.extend(
                replies
                    .iter()
                    .map(|reply| json!({"type": "function_call_output", "call_id": reply.id, "output": reply.text})),
            ),
        }
    }
    set(body, "input", Some(input));
    set(body, "text", format(said).map(|format| json!({"format": format})));
    set(body, "temperature", config.temperature);
    set(body, "top_p", config.top_p);
    set(body, "max_output_tokens", config.max_output_tokens);
    Ok(())
}

fn responses_user(pieces: &[Piece]) -> Value {
    let content = pieces.iter().enumerate().map(|(n, piece)| match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Data(data) if data.is("image/") => {
            json!({"type": "input_image", "detail": "auto", "image_url": data.url()})
        }
        Piece::Data(data) => {
            let name = data.name.clone().unwrap_or_else(|| format!("file-{}", n + 1));
            let field = if matches!(data.source, DataSource::Url(_)) { "file_url" } else { "file_data" };
            json!({"type": "input_file", "filename": name, field: data.url()})
        }
    });
    user(pieces, content)
}

fn responses_item(part: &Part, profile: &ProviderProfile) -> Value {
    match (&part.function_call, attached(part, &profile.origin)) {
        (Some(call), _) => {
            let args = arguments(call).to_string();
            json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": args})
        }
        // Reasoning goes back as it came.
        (None, Some(item)) => item.clone().into(),
        (None, None) => {
            let content = json!([{"type": "output_text", "text": part.text}]);
            json!({"type": "message", "role": "assistant", "content": content})
        }
    }
}

/// Anthropic's Messages.
fn anthropic(said: &Conversation<'_>, body: &mut Map<String, Value>) -> Result<()> {
    let config = &said.request.config;
    let claude = Claude::new(&said.profile.model);
    set(body, "system", said.system.as_deref());
    let tools = said.tools.iter().map(|tool| {
        let schema = schema::of_arguments(&tool.parameters_json_schema);
        json!({"name": tool.name, "description": tool.description, "input_schema": schema})
    });
    set(body, "tools", some(tools.collect()));
    let choice = tool_choice(config).map(|choice| if choice == "required" { "any" } else { choice });
    set(body, "tool_choice", choice.filter(|_| !said.tools.is_empty()).map(|choice| json!({"type": choice})));
    set(body, "messages", Some(anthropic_messages(said)));
    let thinking = Thinking::of(config)?;
    set(body, "thinking", anthropic_thinking(&thinking, &claude)?);
    let mut output = Map::new();
    let effort = thinking.level.filter(|_| claude.takes_effort());
    set(&mut output, "effort", effort.map(|level| if level == "minimal" { "low" } else { level }));
    let schema = answer_schema(said.request, said.profile).map(|of| schema::of_answer(of, Properties::AsDeclared));
    set(&mut output, "format", schema.map(|schema| json!({"type": "json_schema", "schema": schema})));
    set(body, "output_config", (!output.is_empty()).then_some(output));
    // The models refuse these settings while they think; ADK has the same rule.
    if thinking.level.is_none() && thinking.budget.is_none_or(|budget| budget == 0) {
        set(body, "temperature", config.temperature);
        set(body, "top_p", config.top_p);
        set(body, "top_k", config.top_k.map(whole));
    }
    set(body, "max_tokens", Some(config.max_output_tokens.unwrap_or(claude.max_tokens())));
    set(body, "stop_sequences", config.stop_sequences.clone().and_then(some));
    Ok(())
}

/// Returns the setting for thoughts. A budget is sent as ADK's `AnthropicLlm` sends it.
fn anthropic_thinking(thinking: &Thinking, claude: &Claude<'_>) -> Result<Option<Value>> {
    Ok(Some(match (thinking.level, thinking.budget) {
        (Some(_), _) if claude.adapts_thinking() => json!({"type": "adaptive", "display": "summarized"}),
        (Some(_), _) if claude.takes_effort() => return Ok(None),
        (Some("high"), _) => json!({"type": "enabled", "budget_tokens": 24_000}),
        (Some("medium"), _) => json!({"type": "enabled", "budget_tokens": 8_000}),
        (Some(_), _) => json!({"type": "enabled", "budget_tokens": 1_024}),
        (None, None) if thinking.include == Some(true) => {
            return Err(Error::invalid(
                "`thinkingBudget` must be set for models of anthropic: 0 for no thinking, -1 for as much as the model \
                 chooses, or a number of tokens from 1024",
            ));
        }
        (None, None) => return Ok(None),
        (None, Some(0)) => json!({"type": "disabled"}),
        (None, Some(..0)) => json!({"type": "adaptive", "display": "summarized"}),
        (None, Some(budget)) => json!({"type": "enabled", "budget_tokens": budget}),
    }))
}

/// Returns messages with alternating sides, the user's first. Responses to calls count as the user's.
fn anthropic_messages(said: &Conversation<'_>) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in &said.turns {
        let (role, blocks): (_, Vec<_>) = match turn {
            Turn::User(pieces) => ("user", pieces.iter().map(anthropic_piece).collect()),
            Turn::Model(parts) => ("assistant", parts.iter().map(anthropic_part).collect()),
            Turn::Replies(replies) => ("user", replies.iter().map(|reply| tool_result(reply, said)).collect()),
        };
        match messages.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            None if role == "assistant" => messages.extend([("user", vec![text_block(BEGIN)]), (role, blocks)]),
            _ => messages.push((role, blocks)),
        }
    }
    let messages = messages.into_iter().map(|(role, blocks)| {
        // Texts alone are sent as one text.
        let texts: Option<Vec<_>> = blocks.iter().map(|block| block["text"].as_str()).collect();
        match texts.filter(|texts| role == "user" || texts.len() == 1) {
            Some(texts) => json!({"role": role, "content": texts.join("\n\n")}),
            None => json!({"role": role, "content": blocks}),
        }
    });
    messages.collect()
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn anthropic_piece(piece: &Piece) -> Value {
    let data = match piece {
        Piece::Text(said) => return text_block(said),
        Piece::Data(data) => data,
    };
    let source = match &data.source {
        DataSource::Base64(bytes) => json!({"type": "base64", "media_type": data.mime_type, "data": bytes}),
        DataSource::Url(url) => json!({"type": "url", "url": url}),
    };
    json!({"type": if data.is("image/") { "image" } else { "document" }, "source": source})
}

fn anthropic_part(part: &Part) -> Value {
    match (&part.function_call, signature(part), &part.text) {
        (Some(call), ..) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments(call)}),
        (None, Some(signature), Some(text)) => json!({"type": "thinking", "thinking": text, "signature": signature}),
        (None, Some(data), None) => json!({"type": "redacted_thinking", "data": data}),
        (None, None, said) => text_block(said.as_deref().unwrap_or_default()),
    }
}

/// Returns the response to a call, with its media.
fn tool_result(reply: &Reply, said: &Conversation<'_>) -> Value {
    let media: Vec<_> = reply.media.iter().flat_map(|part| parts::media(part, said.profile)).collect();
    let content = if media.is_empty() {
        Value::from(reply.text.as_str())
    } else {
        [text_block(&reply.text)].into_iter().chain(media.iter().map(anthropic_piece)).collect()
    };
    json!({"type": "tool_result", "tool_use_id": reply.id, "content": content})
}

/// Ollama's chat.
fn ollama(said: &Conversation<'_>, body: &mut Map<String, Value>) -> Result<()> {
    let config = &said.request.config;
    let mut messages: Vec<_> = said.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    for turn in &said.turns {
        match turn {
            Turn::User(pieces) => messages.push(ollama_user(pieces)),
            Turn::Model(parts) => messages.push(ollama_assistant(parts)),
            // Each message has one response, since Ollama would read only the last of several.
            Turn::Replies(replies) => messages.extend(replies.iter().map(|reply| {
                json!({"role": "tool", "tool_call_id": reply.id, "tool_name": reply.name, "content": reply.text})
            })),
        }
    }
    set(body, "messages", Some(messages));
    let tools = said.tools.iter().map(|tool| json!({"type": "function", "function": function(tool)}));
    set(body, "tools", some(tools.collect()));
    let schema = said.request.output_schema.clone();
    set(body, "format", schema.or_else(|| is_json(config).then(|| "json".into())));
    let mut options = Map::new();
    set(&mut options, "temperature", config.temperature);
    set(&mut options, "top_p", config.top_p);
    set(&mut options, "top_k", config.top_k.map(whole));
    set(&mut options, "num_predict", config.max_output_tokens);
    set(&mut options, "stop", config.stop_sequences.clone());
    set(&mut options, "seed", config.seed);
    set(&mut options, "presence_penalty", config.presence_penalty);
    set(&mut options, "frequency_penalty", config.frequency_penalty);
    set(body, "options", (!options.is_empty()).then_some(options));
    // Ollama has levels instead of budgets, so a budget only tells whether the model thinks: zero means no.
    let thinking = Thinking::of(config)?;
    let level = thinking.level.map(|level| Value::from(if level == "minimal" { "low" } else { level }));
    set(body, "think", level.or_else(|| thinking.budget.map(|budget| (budget != 0).into())));
    Ok(())
}

fn ollama_user(pieces: &[Piece]) -> Value {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => texts.push(text.as_str()),
            Piece::Data(Data { source: DataSource::Base64(data), .. }) => images.push(data.as_str()),
            Piece::Data(_) => {}
        }
    }
    let mut message = Map::new();
    set(&mut message, "role", Some("user"));
    set(&mut message, "content", Some(texts.join("\n")));
    set(&mut message, "images", some(images));
    message.into()
}

fn ollama_assistant(parts: &[Part]) -> Value {
    let texts = |thoughts: bool| {
        let texts = parts.iter().filter(|part| (part.thought == Some(true)) == thoughts);
        texts.filter_map(|part| part.text.as_deref()).collect::<Vec<_>>()
    };
    let calls = parts.iter().filter_map(|part| part.function_call.as_deref());
    let calls = calls.map(|call| json!({"id": call.id, "function": {"name": call.name, "arguments": arguments(call)}}));
    let mut message = Map::new();
    set(&mut message, "role", Some("assistant"));
    set(&mut message, "content", Some(texts(false).join("\n")));
    set(&mut message, "thinking", some(texts(true)).map(|texts| texts.join("\n")));
    set(&mut message, "tool_calls", some(calls.collect()));
    message.into()
}

/// Returns the user's message. One text is sent without a list.
fn user(pieces: &[Piece], content: impl Iterator<Item = Value>) -> Value {
    match pieces {
        [Piece::Text(text)] => json!({"role": "user", "content": text}),
        _ => json!({"role": "user", "content": content.collect::<Vec<_>>()}),
    }
}

/// Returns the declaration of a tool, as OpenAI and Ollama have it.
fn function(tool: &FunctionDeclaration) -> Value {
    let parameters = schema::of_arguments(&tool.parameters_json_schema);
    json!({"name": tool.name, "description": tool.description, "parameters": parameters})
}

fn arguments(call: &FunctionCall) -> Value {
    call.args.clone().unwrap_or_default().into()
}

/// Returns the form of the answer, as OpenAI's Responses have it.
fn format(said: &Conversation<'_>) -> Option<Value> {
    if let Some(schema) = answer_schema(said.request, said.profile) {
        let strict = schema::of_answer(schema, Properties::Required);
        return Some(json!({"type": "json_schema", "name": schema_name(schema), "strict": true, "schema": strict}));
    }
    let is_json = said.request.output_schema.is_some() || is_json(&said.request.config);
    is_json.then(|| json!({"type": "json_object"}))
}

/// Sets a field that has a value.
fn set(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    body.extend(value.map(|value| (name.to_owned(), value.into())));
}

/// Returns a list, unless it is empty.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
