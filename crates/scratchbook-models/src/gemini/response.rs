//! A response of the Gemini API as an [`LlmResponse`], read as google-adk reads it.

use serde_json::{Map, Value};

use scratchbook_agent::model::LlmResponse;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, Result};

/// A `GenerateContentResponse`, or a piece of one.
#[derive(Debug)]
pub(super) struct GeminiAnswer {
    /// The first candidate. Without a candidate, this has only the response's other data, such as the usage.
    pub(super) response: LlmResponse,
    /// Whether there was a candidate.
    pub(super) has_candidate: bool,
}

/// Reads a response; `None` if it has only candidates other than the first.
///
/// # Errors
///
/// `InvalidArgument` if the body is not a response of the API.
pub(super) fn answer(mut body: Map<String, Value>) -> Result<Option<GeminiAnswer>> {
    let mut response = LlmResponse {
        usage_metadata: taken(&mut body, "usageMetadata"),
        model_version: text(&mut body, "modelVersion"),
        ..LlmResponse::default()
    };
    let candidates = match taken(&mut body, "candidates") {
        Some(Value::Array(candidates)) => candidates,
        _ => Vec::new(),
    };
    if candidates.is_empty() {
        match taken(&mut body, "promptFeedback") {
            Some(Value::Object(mut feedback)) => {
                response.error_code = text(&mut feedback, "blockReason");
                response.error_message = text(&mut feedback, "blockReasonMessage");
            }
            // An empty answer is not a failure.
            _ => response.content = Some(Content::new("model", Vec::new())),
        }
        return Ok(Some(GeminiAnswer { response, has_candidate: false }));
    }
    let mut objects = candidates.into_iter().filter_map(|candidate| match candidate {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    let Some(mut candidate) =
        objects.find(|fields| fields.get("index").is_none_or(|index| index.as_u64().is_none_or(|n| n == 0)))
    else {
        return Ok(None);
    };
    response.finish_reason = text(&mut candidate, "finishReason");
    response.citation_metadata = taken(&mut candidate, "citationMetadata").map(citations);
    response.avg_logprobs = taken(&mut candidate, "avgLogprobs").and_then(|mean| mean.as_f64());
    response.logprobs_result = taken(&mut candidate, "logprobsResult");
    let mut content = taken(&mut candidate, "content").map(content).transpose()?;
    if ended_badly(&response) && drop_calls(&mut content) {
        response.error_code = response.finish_reason.clone();
        response.error_message = text(&mut candidate, "finishMessage");
    }
    let has_parts = content.as_ref().is_some_and(|content| !content.parts().is_empty());
    if has_parts || response.finish_reason.as_deref() == Some("STOP") {
        response.content = content;
        response.grounding_metadata = taken(&mut candidate, "groundingMetadata");
    } else if response.error_code.is_none() {
        response.error_code = response.finish_reason.clone();
        response.error_message = text(&mut candidate, "finishMessage");
    }
    Ok(Some(GeminiAnswer { response, has_candidate: true }))
}

/// Returns whether an answer was blocked or is malformed: it ended neither normally nor at the token limit.
pub(super) fn ended_badly(response: &LlmResponse) -> bool {
    response.finish_reason.as_deref().is_some_and(|reason| !matches!(reason, "STOP" | "MAX_TOKENS"))
}

/// Removes the calls of an answer that must not be acted on. Returns whether there were any.
pub(super) fn drop_calls(content: &mut Option<Content>) -> bool {
    let Some(parts) = content.as_mut().and_then(|content| content.parts.as_mut()) else {
        return false;
    };
    let count = parts.len();
    parts.retain(|part| part.function_call.is_none());
    let (dropped, is_empty) = (parts.len() < count, parts.is_empty());
    if dropped && is_empty {
        *content = None;
    }
    dropped
}

fn taken(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.remove(name).filter(|value| !value.is_null())
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Renames the API's citation sources to the citations of events.
fn citations(mut metadata: Value) -> Value {
    if let Some(fields) = metadata.as_object_mut()
        && let Some(sources) = fields.remove("citationSources")
    {
        fields.insert("citations".to_owned(), sources);
    }
    metadata
}

/// Returns the content without fields of later API versions. Parts that are then empty are removed.
fn content(content: Value) -> Result<Content> {
    let mut content: Content =
        serde_json::from_value(content).map_err(|error| Error::invalid(scratchbook_core::json::describe(&error)))?;
    if let Some(parts) = &mut content.parts {
        parts.retain(|part| *part != Part::default());
    }
    content.clear_extras();
    if let Some(parts) = &mut content.parts {
        let count = parts.len();
        parts.retain(|part| *part != Part::default());
        if parts.len() < count {
            tracing::warn!(parts = count - parts.len(), "parts of an unknown kind were left out of a model's answer");
        }
    }
    Ok(content)
}
