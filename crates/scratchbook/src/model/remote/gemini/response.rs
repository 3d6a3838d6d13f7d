//! What the Gemini API answers, as a response: as google-adk reads it.

use serde::de::value::Error as NoError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::content::{
    Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse, Part,
};
use crate::error::{Error, Result};
use crate::model::LlmResponse;

/// A `GenerateContentResponse`, or a piece of one.
#[derive(Debug)]
pub(super) struct Answer {
    /// The first candidate, or what is said in place of one.
    pub(super) response: LlmResponse,
    /// Whether there was a candidate.
    pub(super) has_candidate: bool,
}

/// Reads an answer; `None` for one that has only other candidates than the first.
///
/// # Errors
///
/// `InvalidArgument` for what is no answer of the API.
pub(super) fn answer(mut body: Map<String, Value>) -> Result<Option<Answer>> {
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
            // Nothing to say is no failure.
            _ => response.content = Some(Content::new("model", Vec::new())),
        }
        return Ok(Some(Answer { response, has_candidate: false }));
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
    Ok(Some(Answer { response, has_candidate: true }))
}

/// Whether an answer ended neither where the model wanted nor at the limit of tokens: it was blocked, or is malformed.
pub(super) fn ended_badly(response: &LlmResponse) -> bool {
    response.finish_reason.as_deref().is_some_and(|reason| !matches!(reason, "STOP" | "MAX_TOKENS"))
}

/// Takes the calls out of what is not to be acted on; whether there were any.
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

/// The API's sources are the citations of events.
fn citations(mut metadata: Value) -> Value {
    if let Some(fields) = metadata.as_object_mut()
        && let Some(sources) = fields.remove("citationSources")
    {
        fields.insert("citations".to_owned(), sources);
    }
    metadata
}

/// Content without what only later versions of the API know; a part of which nothing is left is left out.
fn content(mut content: Value) -> Result<Content> {
    keep_known::<Content>(&mut content);
    if let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) {
        let is_nothing = |part: &Value| part.as_object().is_some_and(Map::is_empty);
        parts.retain(|part| !is_nothing(part));
        for part in &mut *parts {
            keep_known::<Part>(part);
            for (name, keep) in NESTED {
                part.get_mut(name).into_iter().for_each(keep);
            }
        }
        let count = parts.len();
        parts.retain(|part| !is_nothing(part));
        if parts.len() < count {
            tracing::warn!(parts = count - parts.len(), "parts of an unknown kind were left out of a model's answer");
        }
    }
    serde_json::from_value(content).map_err(|error| Error::invalid(crate::json::describe(&error)))
}

/// Leaves the known fields of an object.
type Keep = fn(&mut Value);

/// The objects in a part that have fields of their own.
const NESTED: [(&str, Keep); 6] = [
    ("codeExecutionResult", keep_known::<CodeExecutionResult>),
    ("executableCode", keep_known::<ExecutableCode>),
    ("fileData", keep_known::<FileData>),
    ("functionCall", keep_known::<FunctionCall>),
    ("functionResponse", keep_known::<FunctionResponse>),
    ("inlineData", keep_known::<Blob>),
];

/// Removes the fields that a type would refuse.
fn keep_known<T: DeserializeOwned>(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        let known = fields_of::<T>();
        fields.retain(|name, _| known.contains(&name.as_str()));
    }
}

/// The names of a struct's fields, as its `Deserialize` knows them.
fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // It stops as soon as it has them.
    let _ = T::deserialize(Names(&mut fields));
    fields
}

struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = NoError;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(NoError::custom(""))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(NoError::custom(""))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
