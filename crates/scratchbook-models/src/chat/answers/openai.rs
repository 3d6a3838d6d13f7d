//! Reads answers of OpenAI's Chat Completions, whole and in chunks, and of the many servers with the same protocol.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{CollectedAnswer, Finish, PartialCall};

/// Fields of a message with data that goes back unchanged, such as signatures of thoughts.
const OF_MESSAGE: [&str; 3] = ["extra_content", "reasoning_details", "thinking_blocks"];

/// Fields of a call with such data.
const OF_CALL: [&str; 2] = ["extra_content", "provider_specific_fields"];

/// Reads a chunk of a stream. A whole answer has a `message` where a chunk has a `delta`.
pub(in crate::chat) fn read(frame: &Value, answer: &mut CollectedAnswer) {
    if let Some(error) = frame.get("error").filter(|error| !error.is_null()) {
        return fail(error, answer);
    }
    answer.answered_by(frame["model"].as_str());
    answer.count(&frame["usage"]);
    // Groq puts the usage here.
    answer.count(&frame["x_groq"]["usage"]);
    // Further choices are alternative answers. Only the first is used.
    let choices = frame["choices"].as_array().into_iter().flatten();
    let Some(choice) = choices.into_iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0) else {
        return;
    };
    let message = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
    // The model's thinking has several names.
    let thought = ["reasoning_content", "reasoning"].iter().find_map(|name| Some((*name, message[*name].as_str()?)));
    if let Some((name, text)) = thought.filter(|(_, text)| !text.is_empty()) {
        answer.thought_of(name, text);
    }
    for name in OF_MESSAGE {
        keep(name, &message[name], answer.data());
    }
    content(&message["content"], answer);
    answer.refuse(message["refusal"].as_str().unwrap_or_default());
    message["tool_calls"].as_array().into_iter().flatten().for_each(|call| tool_call(call, answer));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
        answer.finish(finish(reason));
    }
    // A whole answer, which may come in place of a stream. Some servers omit the finish reason.
    if choice.get("delta").is_none() && message.is_object() {
        answer.end();
    }
}

/// Keeps attached data. A list may come in pieces, whose texts are put together.
fn keep(name: &str, data: &Value, kept: &mut Map<String, Value>) {
    let (Value::Array(pieces), Some(Value::Array(list))) = (data, kept.get_mut(name)) else {
        if !data.is_null() {
            kept.insert(name.to_owned(), data.clone());
        }
        return;
    };
    let mut pieces = pieces.iter();
    if let (Some(Value::Object(last)), Some(Value::Object(first))) = (list.last_mut(), pieces.clone().next())
        && ["type", "index"].iter().all(|field| last.get(*field) == first.get(*field))
        && last.get("signature").is_none_or(|signature| matches!(signature.as_str(), None | Some("")))
        && ["text", "summary", "thinking", "signature"].iter().any(|field| first.contains_key(*field))
    {
        pieces.next();
        for (field, value) in first.iter().filter(|(_, value)| !value.is_null()) {
            match (last.get_mut(field), value, field.as_str()) {
                (Some(Value::String(text)), Value::String(more), "text" | "summary" | "thinking") => {
                    text.push_str(more);
                }
                _ => {
                    last.insert(field.clone(), value.clone());
                }
            }
        }
    }
    list.extend(pieces.cloned());
}

/// Returns an error that comes in place of an answer, with its status. Some gateways name the status; otherwise it is
/// 500.
pub(in crate::chat) fn complaint(frame: &Value) -> Option<(u16, &Value)> {
    let error = frame.get("error").filter(|error| !error.is_null())?;
    Some((status(error), error))
}

pub(super) fn status(error: &Value) -> u16 {
    let code = error["code"].as_u64().or_else(|| error["status"].as_u64()).and_then(|code| u16::try_from(code).ok());
    let named = [&error["code"], &error["type"]].into_iter().filter_map(Value::as_str).find_map(|name| match name {
        "rate_limit_exceeded" | "rate_limit_error" | "insufficient_quota" => Some(429),
        "invalid_request_error" => Some(400),
        "invalid_api_key" | "authentication_error" => Some(401),
        _ => None,
    });
    code.filter(|code| (400..600).contains(code)).or(named).unwrap_or(500)
}

fn fail(error: &Value, answer: &mut CollectedAnswer) {
    let word = |name: &str| error.get(name).and_then(Value::as_str);
    answer.fail(word("code").or_else(|| word("type")), word("message").or_else(|| error.as_str()));
}

/// Reads text, or Mistral's list of typed pieces of text and thinking.
fn content(content: &Value, answer: &mut CollectedAnswer) {
    if let Some(text) = content.as_str() {
        return answer.text(text);
    }
    for piece in content.as_array().into_iter().flatten() {
        answer.text(piece["text"].as_str().unwrap_or_default());
        let thoughts = piece["thinking"].as_array().into_iter().flatten();
        thoughts.for_each(|thought| answer.thought(thought["text"].as_str().unwrap_or_default()));
    }
}

/// Reads a call, or a fragment of a call.
fn tool_call(piece: &Value, answer: &mut CollectedAnswer) {
    if answer.is_closed() {
        return;
    }
    let id = piece["id"].as_str().unwrap_or_default();
    let function = &piece["function"];
    let name = function["name"].as_str().unwrap_or_default();
    let index = piece["index"].as_u64();
    // The calls are searched for the index, so that a large index allocates nothing.
    let found = answer.calls().position(|call| goes_on(call, index, id, name));
    if found.is_none() {
        answer.start_call(PartialCall { index, ..PartialCall::default() });
        if answer.is_closed() {
            return;
        }
    }
    let Some(call) = answer.calls().nth(found.unwrap_or(0)) else {
        return;
    };
    if call.id.is_empty() {
        call.id = id.to_owned();
    }
    if call.name != name {
        call.name.push_str(name);
    }
    for name in OF_CALL {
        keep(name, &piece[name], &mut call.data);
    }
    match &function["arguments"] {
        Value::String(text) => call.text.push_str(text),
        Value::Null => {}
        whole => call.whole = Some(whole.clone()),
    }
}

/// Returns whether a fragment with this index, id and name continues a call.
///
/// The index decides first. But some servers give all calls the same index, and some give each fragment a new id. So
/// with the same index, a new id starts a new call only if the fragment has a name, and if this name differs or the
/// previous call is complete. Without an index the id decides, and a fragment without a name continues the last call.
fn goes_on(call: &PartialCall, index: Option<u64>, id: &str, name: &str) -> bool {
    let other = !id.is_empty() && !call.id.is_empty() && id != call.id;
    let whole = || serde_json::from_str::<IgnoredAny>(&call.text).is_ok();
    match index {
        Some(_) => call.index == index && !(other && !name.is_empty() && (name != call.name || whole())),
        None => !other && (!id.is_empty() || name.is_empty()),
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" | "tool_calls" | "function_call" => Finish::Stop,
        "length" | "model_length" => Finish::MaxTokens,
        "content_filter" => Finish::Safety,
        _ => Finish::Other,
    }
}

/// Returns the token counts as ADK's `LiteLlm` does: the count of the candidates includes the tokens for thinking.
pub(in crate::chat) fn usage(usage: &Map<String, Value>) -> Option<Value> {
    let prompt = usage.get("prompt_tokens")?.as_i64()?;
    let completion = usage.get("completion_tokens").and_then(Value::as_i64).unwrap_or(0);
    let detail = |of: &str, name: &str| usage.get(of).and_then(|of| of[name].as_i64());
    let cached = detail("prompt_tokens_details", "cached_tokens");
    // DeepSeek has its own name for the cached tokens.
    let cached = cached.or_else(|| usage.get("prompt_cache_hit_tokens").and_then(Value::as_i64));
    let mut counts = json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion,
        "totalTokenCount": usage.get("total_tokens").and_then(Value::as_i64).unwrap_or(prompt.saturating_add(completion)),
        "cachedContentTokenCount": cached.unwrap_or(0),
    });
    if let Some(thoughts) = detail("completion_tokens_details", "reasoning_tokens").filter(|count| *count > 0) {
        counts["thoughtsTokenCount"] = thoughts.into();
    }
    Some(counts)
}
