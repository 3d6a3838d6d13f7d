//! Reads answers of OpenAI's Responses, whole and as events.

use serde_json::{Map, Value, json};

use super::{CollectedAnswer, Finish, PartialCall};

/// Reads an event of a stream. Deltas are shown at once. Items arrive whole after their deltas, and are kept for the
/// whole answer.
pub(in crate::chat) fn event(event: &Value, answer: &mut CollectedAnswer) {
    let delta = event["delta"].as_str().unwrap_or_default();
    match event["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" => answer.show_text(delta),
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => answer.show_thought(delta),
        "response.output_item.done" => item(&event["item"], answer),
        "response.completed" | "response.incomplete" | "response.failed" => response(&event["response"], answer),
        "error" => {
            // Some servers nest the error as in their other responses.
            let error = event.get("error").filter(|error| error.is_object()).unwrap_or(event);
            answer.fail(error["code"].as_str(), error["message"].as_str());
        }
        // Some servers send the whole answer in place of events.
        "" if event.get("output").is_some() => response(event, answer),
        _ => {}
    }
}

/// Returns an error that comes in place of an answer, with its status.
pub(in crate::chat) fn complaint(frame: &Value) -> Option<(u16, &Value)> {
    let nested = frame.get("error").filter(|error| error.is_object() && frame.get("output").is_none());
    let error = match frame["type"].as_str().unwrap_or_default() {
        "response.failed" => frame["response"].get("error").filter(|error| error.is_object()),
        "error" => nested.or(Some(frame)),
        _ => nested,
    };
    error.map(|error| (super::openai::status(error), error))
}

/// Reads a whole answer, or the last event of a stream, which repeats the whole answer.
pub(in crate::chat) fn response(response: &Value, answer: &mut CollectedAnswer) {
    answer.answered_by(response["model"].as_str());
    answer.count(&response["usage"]);
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        return answer.fail(error["code"].as_str(), error["message"].as_str());
    }
    if answer.is_empty() {
        response["output"].as_array().into_iter().flatten().for_each(|of| item(of, answer));
    }
    match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
        (Some("completed"), _) => answer.finish(Finish::Stop),
        (Some("incomplete"), Some("max_output_tokens")) => answer.finish(Finish::MaxTokens),
        (Some("incomplete"), Some("content_filter")) => answer.finish(Finish::Safety),
        (Some(_), _) => answer.finish(Finish::Other),
        (None, _) => {}
    }
}

fn item(item: &Value, answer: &mut CollectedAnswer) {
    let word = |name: &str| item[name].as_str().unwrap_or_default();
    let pieces = |name: &str| item[name].as_array().into_iter().flatten();
    match word("type") {
        "message" => {
            for piece in pieces("content") {
                answer.keep_text(piece["text"].as_str().unwrap_or_default());
                answer.refuse(piece["refusal"].as_str().unwrap_or_default());
            }
        }
        "reasoning" => {
            let thoughts = pieces("summary").chain(pieces("content")).filter_map(|piece| piece["text"].as_str());
            match item.as_object().filter(|_| !word("encrypted_content").is_empty()) {
                // The item goes back as it came.
                Some(item) => {
                    let text = thoughts.collect::<String>();
                    answer.start_thought(Some(text.as_str()).filter(|text| !text.is_empty()), "", item.clone());
                }
                None => thoughts.for_each(|thought| answer.keep_thought(thought, "")),
            }
        }
        "function_call" => answer.start_call(PartialCall {
            id: word("call_id").to_owned(),
            name: word("name").to_owned(),
            text: word("arguments").to_owned(),
            ..PartialCall::default()
        }),
        // Items of tools that run on OpenAI's side are ignored. Our requests never declare such tools.
        _ => {}
    }
}

/// Returns the token counts, in the form of ADK's `LiteLlm` for Chat Completions.
pub(in crate::chat) fn usage(usage: &Map<String, Value>) -> Option<Value> {
    let count = |name: &str| usage.get(name).and_then(Value::as_i64);
    let detail = |of: &str, name: &str| usage.get(of).and_then(|of| of[name].as_i64());
    let (prompt, output) = (count("input_tokens")?, count("output_tokens").unwrap_or(0));
    let mut counts = json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": output,
        "totalTokenCount": count("total_tokens").unwrap_or(prompt.saturating_add(output)),
        "cachedContentTokenCount": detail("input_tokens_details", "cached_tokens").unwrap_or(0),
    });
    if let Some(thoughts) = detail("output_tokens_details", "reasoning_tokens").filter(|count| *count > 0) {
        counts["thoughtsTokenCount"] = thoughts.into();
    }
    Some(counts)
}
