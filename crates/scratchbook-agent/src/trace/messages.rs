//! The texts of a model call, up to a maximum size, in the form that OpenTelemetry's conventions prescribe for
//! messages.

use serde_json::{Map, Value, json};

use crate::credentials::{is_credential_call, value_without_secrets};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::content::{Content, Part};

/// The approximate maximum size of a request's messages, and of each other text, in bytes. The last messages are kept.
const BYTES: usize = 32 << 10;
/// The maximum size of a single text or value, in bytes.
const TEXT: usize = 8 << 10;

/// Returns the recorded texts of a request. A system instruction that may contain secret values is left out.
pub(super) fn of_request(request: &LlmRequest, has_secrets: bool) -> Map<String, Value> {
    let mut left = BYTES;
    let mut messages = Vec::new();
    for content in request.contents.iter().rev() {
        let message = message(content, &mut left);
        messages.push(message);
        if left == 0 {
            break;
        }
    }
    messages.reverse();
    let mut texts = Map::from_iter([("gen_ai.input.messages".to_owned(), Value::Array(messages))]);
    if let Some(instruction) = &request.system_instruction {
        let text = if has_secrets { "[secret]".to_owned() } else { cut(instruction, BYTES) };
        texts.insert("gen_ai.system_instructions".to_owned(), json!([{"content": text, "type": "text"}]));
    }
    if !request.tools.is_empty() {
        let mut left = BYTES;
        let tools = request.tools.iter().map(|tool| {
            let parameters = value(&tool.parameters_json_schema, &mut left);
            let description = cut(&tool.description, TEXT);
            json!({"name": tool.name, "description": description, "parameters": parameters, "type": "function"})
        });
        texts.insert("gen_ai.tool.definitions".to_owned(), tools.collect());
    }
    texts
}

/// Returns the recorded texts of a whole answer.
pub(super) fn of_response(response: &LlmResponse) -> Value {
    let mut left = BYTES;
    let mut message =
        response.content.as_ref().map_or_else(|| json!({"parts": []}), |content| message(content, &mut left));
    if let Some(message) = message.as_object_mut() {
        message.insert("role".to_owned(), "assistant".into());
        let reason = response.finish_reason.as_deref().unwrap_or_default().to_lowercase();
        message.insert("finish_reason".to_owned(), reason.into());
    }
    Value::Array(vec![message])
}

fn message(content: &Content, left: &mut usize) -> Value {
    let role = match content.role.as_deref() {
        Some("model") => "assistant",
        Some(role) => role,
        None => "user",
    };
    let mut parts = Vec::new();
    for part in content.parts() {
        if *left == 0 {
            parts.push(json!({"content": "…", "type": "text"}));
            break;
        }
        parts.push(self::part(part, left));
    }
    json!({"role": role, "parts": parts})
}

fn part(part: &Part, left: &mut usize) -> Value {
    if let Some(call) = part.function_call.as_deref() {
        let arguments = shown(call.name.as_deref().unwrap_or_default(), call.args.as_ref(), left);
        return json!({"id": call.id, "name": call.name, "arguments": arguments, "type": "tool_call"});
    }
    if let Some(answer) = part.function_response.as_deref() {
        let response = shown(answer.name.as_deref().unwrap_or_default(), answer.response.as_ref(), left);
        return json!({"id": answer.id, "response": response, "type": "tool_call_response"});
    }
    match &part.text {
        Some(text) => {
            let text = cut(text, TEXT.min(*left));
            *left = left.saturating_sub(text.len());
            let kind = if part.thought == Some(true) { "reasoning" } else { "text" };
            json!({"content": text, "type": kind})
        }
        None => json!({"type": "blob"}),
    }
}

/// Returns the arguments of a tool or its response, without the secrets of credentials.
fn shown(tool: &str, object: Option<&Map<String, Value>>, left: &mut usize) -> Value {
    if is_credential_call(tool) {
        return "[secret]".into();
    }
    let object = object.cloned().map(Value::Object).unwrap_or_default();
    value(&value_without_secrets("", &object), left)
}

/// Returns a value, or only the beginning of its JSON if it is large.
fn value(value: &Value, left: &mut usize) -> Value {
    let text = value.to_string();
    let most = TEXT.min(*left);
    *left = left.saturating_sub(text.len().min(most));
    if text.len() <= most { value.clone() } else { cut(&text, most).into() }
}

/// Returns the beginning of a text.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_in_no_message() {
        let credential = json!({"login": {"authType": "oauth2", "oauth2": {"accessToken": "hunter2"}}, "city": "Rome"});
        let config = json!({"authConfig": {"exchangedAuthCredential": {"apiKey": "hunter2"}}});
        let object = |value: &Value| value.as_object().unwrap().clone();
        let contents = vec![
            Content::new(
                "model",
                vec![
                    Part::function_call("adk_request_credential", object(&config)),
                    Part::function_call("book", object(&credential)),
                ],
            ),
            Content::new(
                "user",
                vec![
                    Part::function_response("c1", "book", credential.clone()),
                    Part::function_response("c2", "adk_request_credential", json!({"token": "hunter2"})),
                ],
            ),
        ];
        let request = LlmRequest { contents: contents.clone(), ..LlmRequest::default() };
        let texts = Value::Object(of_request(&request, false)).to_string();
        assert!(!texts.contains("hunter2") && texts.contains("Rome") && texts.contains("[secret]"), "{texts}");
        let answer = LlmResponse { content: contents.into_iter().next(), ..LlmResponse::default() };
        assert!(!of_response(&answer).to_string().contains("hunter2"));
    }

    #[test]
    fn messages_are_written_as_google_adk_writes_them() {
        let call = Part::function_call("add_to_cart", Map::from_iter([("qty".to_owned(), json!(2))]));
        let request = LlmRequest {
            system_instruction: Some("Be brief.".to_owned()),
            contents: vec![Content::user("add"), Content::new("model", vec![call])],
            ..LlmRequest::default()
        };
        let texts = Value::Object(of_request(&request, false));
        assert_eq!(texts["gen_ai.system_instructions"], json!([{"content": "Be brief.", "type": "text"}]));
        let messages = &texts["gen_ai.input.messages"];
        assert_eq!(messages[0], json!({"role": "user", "parts": [{"content": "add", "type": "text"}]}));
        assert_eq!(messages[1]["role"], "assistant");
        assert_eq!(messages[1]["parts"][0]["arguments"], json!({"qty": 2}));
        let answer = of_response(&LlmResponse::text("Done."));
        let parts = json!([{"content": "Done.", "type": "text"}]);
        assert_eq!(answer, json!([{"role": "assistant", "parts": parts, "finish_reason": "stop"}]));
        let hidden = Value::Object(of_request(&request, true));
        assert_eq!(hidden["gen_ai.system_instructions"][0]["content"], "[secret]");
    }

    #[test]
    fn however_long_a_conversation_is_its_end_is_kept_within_the_bound() {
        let contents = (0..10_000).map(|n| Content::user(format!("{n} {}", "é".repeat(500)))).collect();
        let mut request = LlmRequest { contents, ..LlmRequest::default() };
        request.contents.push(Content::user("x".repeat(1 << 20)));
        let texts = Value::Object(of_request(&request, false));
        let text = texts.to_string();
        assert!(text.len() < 2 * BYTES, "{}", text.len());
        let messages = texts["gen_ai.input.messages"].as_array().unwrap();
        assert!(messages.last().unwrap()["parts"][0]["content"].as_str().unwrap().starts_with("xxx"));
        assert!(messages.len() > 10 && messages.len() < 100, "{}", messages.len());
    }
}
