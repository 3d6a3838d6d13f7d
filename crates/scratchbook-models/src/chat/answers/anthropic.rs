//! Reads answers of Anthropic's Messages API, whole and as events.

use serde_json::{Map, Value, json};

use super::{CollectedAnswer, Finish, PartialCall};

/// Reads an event of a stream.
pub(in crate::chat) fn event(event: &Value, answer: &mut CollectedAnswer) {
    match event["type"].as_str().unwrap_or_default() {
        // Some servers send the whole answer in place of events.
        "message" => message(event, answer),
        "message_start" => {
            answer.answered_by(event["message"]["model"].as_str());
            answer.count(&event["message"]["usage"]);
        }
        "content_block_start" => {
            let block = &event["content_block"];
            start(block, event["index"].as_u64(), answer);
            // A block may start with text.
            answer.show_text(block["text"].as_str().unwrap_or_default());
            answer.show_thought(block["thinking"].as_str().unwrap_or_default());
        }
        "content_block_delta" => delta(event, answer),
        "message_delta" => {
            answer.count(&event["usage"]);
            stop(&event["delta"], answer);
        }
        "message_stop" => answer.end(),
        "error" => fail(event, answer),
        // Pings, ends of blocks, and new kinds of events are ignored.
        _ => {}
    }
}

/// Reads a whole answer.
pub(in crate::chat) fn message(message: &Value, answer: &mut CollectedAnswer) {
    if message["type"] == "error" {
        return fail(message, answer);
    }
    answer.answered_by(message["model"].as_str());
    answer.count(&message["usage"]);
    message["content"].as_array().into_iter().flatten().for_each(|block| start(block, None, answer));
    stop(message, answer);
}

/// Returns an error that comes in place of an answer, with its status, as listed in
/// <https://docs.anthropic.com/en/api/errors>.
pub(in crate::chat) fn complaint(frame: &Value) -> Option<(u16, &Value)> {
    let error = frame.get("error").filter(|_| frame["type"] == "error")?;
    let status = match error["type"].as_str().unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    Some((status, error))
}

fn fail(event: &Value, answer: &mut CollectedAnswer) {
    let error = &event["error"];
    answer.fail(error["type"].as_str(), error["message"].as_str());
}

fn start(block: &Value, index: Option<u64>, answer: &mut CollectedAnswer) {
    let word = |name: &str| block[name].as_str().unwrap_or_default();
    match word("type") {
        "text" => answer.start_text(word("text")),
        "thinking" => answer.start_thought(Some(word("thinking")), word("signature"), Map::new()),
        // Only Anthropic can read this thinking. It becomes a thought without text, so that it is sent back unchanged.
        "redacted_thinking" => answer.start_thought(None, word("data"), Map::new()),
        "tool_use" => {
            let (id, name) = (word("id").to_owned(), word("name").to_owned());
            // A stream starts with an empty object, which fragments then fill. At the token limit the fragments may
            // never come.
            let streamed = index.is_some() && block["input"].as_object().is_some_and(Map::is_empty);
            let whole = block.get("input").filter(|_| !streamed).cloned();
            answer.start_call(PartialCall { index, id, name, whole, ..PartialCall::default() });
        }
        // Blocks of tools that run on Anthropic's side are ignored. Our requests never declare such tools.
        _ => {}
    }
}

fn delta(event: &Value, answer: &mut CollectedAnswer) {
    let delta = &event["delta"];
    let word = |name: &str| delta[name].as_str().unwrap_or_default();
    match word("type") {
        "text_delta" => answer.text(word("text")),
        "thinking_delta" => answer.thought(word("thinking")),
        "signature_delta" => answer.keep_thought("", word("signature")),
        "input_json_delta" => {
            if let Some(call) = event["index"].as_u64().and_then(|index| answer.call(index)) {
                call.text.push_str(word("partial_json"));
            }
        }
        _ => {}
    }
}

fn stop(of: &Value, answer: &mut CollectedAnswer) {
    match of["stop_reason"].as_str() {
        None => {}
        Some("end_turn" | "stop_sequence" | "tool_use" | "pause_turn") => answer.finish(Finish::Stop),
        Some("max_tokens" | "model_context_window_exceeded") => answer.finish(Finish::MaxTokens),
        Some("refusal") => answer.finish(Finish::Safety),
        Some(_) => answer.finish(Finish::Other),
    }
}

/// Returns the counts in the form of ADK's `AnthropicLlm`: tokens read from or written to a cache belong to the prompt,
/// and thinking is subtracted from the candidates.
pub(in crate::chat) fn usage(usage: &Map<String, Value>) -> Option<Value> {
    let count = |name: &str| usage.get(name).and_then(Value::as_i64);
    let output = count("output_tokens")?;
    let prompt = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
        .iter()
        .filter_map(|name| count(name))
        .fold(0, i64::saturating_add);
    let thinking = usage.get("output_tokens_details").and_then(|details| details["thinking_tokens"].as_i64());
    let thinking = thinking.map(|thinking| thinking.min(output));
    let mut counts = json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": output.saturating_sub(thinking.unwrap_or(0)),
        "totalTokenCount": prompt.saturating_add(output),
    });
    if let Some(cached) = count("cache_read_input_tokens") {
        counts["cachedContentTokenCount"] = cached.into();
    }
    if let Some(thinking) = thinking {
        counts["thoughtsTokenCount"] = thinking.into();
    }
    Some(counts)
}
