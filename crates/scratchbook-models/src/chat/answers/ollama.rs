//! Reads answers of Ollama's chat, whole and line by line.

use serde_json::{Map, Value, json};

use super::{CollectedAnswer, Finish, PartialCall};

/// Reads a line of a stream or a whole answer, which have the same form.
pub(in crate::chat) fn read(line: &Value, answer: &mut CollectedAnswer) {
    if let Some(error) = line.get("error") {
        return answer.fail(None, error.as_str());
    }
    answer.answered_by(line["model"].as_str());
    let message = &line["message"];
    answer.thought(message["thinking"].as_str().unwrap_or_default());
    answer.text(message["content"].as_str().unwrap_or_default());
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        answer.start_call(PartialCall {
            id: call["id"].as_str().unwrap_or_default().to_owned(),
            name: function["name"].as_str().unwrap_or_default().to_owned(),
            // Calls arrive whole, so missing arguments are an empty object.
            whole: Some(function.get("arguments").cloned().unwrap_or_else(|| json!({}))),
            ..PartialCall::default()
        });
    }
    if line["done"] == true {
        answer.count(line);
        match line["done_reason"].as_str() {
            None | Some("stop") => answer.finish(Finish::Stop),
            Some("length") => answer.finish(Finish::MaxTokens),
            Some(_) => answer.finish(Finish::Other),
        }
        answer.end();
    }
}

/// Returns the counts in the form of ADK's `LiteLlm`.
pub(in crate::chat) fn usage(usage: &Map<String, Value>) -> Option<Value> {
    let count = |name: &str| usage.get(name).and_then(Value::as_i64);
    let answer = count("eval_count")?;
    // The count is absent if the whole prompt was in the cache.
    let prompt = count("prompt_eval_count").unwrap_or(0);
    Some(json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": answer,
        "totalTokenCount": prompt.saturating_add(answer),
        "cachedContentTokenCount": count("prompt_eval_cached_count").unwrap_or(0),
    }))
}
