//! `Content` and `Part`, with the JSON fields of Google's GenAI types.
//!
//! Names are written in camelCase and read in camelCase or snake_case; unknown fields are kept and written back.

use std::iter;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
pub use crate::extra::ExtraFields;
use crate::extra::{Extra, check_known};

/// One message of the conversation: parts of text, calls, responses or data, and the role of its author.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The parts, in order.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::json::optional_objects")]
    pub parts: Option<Vec<Part>>,
    /// `user` or `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Content {
    /// Creates content from parts, in a role.
    #[must_use]
    pub fn new(role: impl Into<String>, parts: Vec<Part>) -> Self {
        Self { parts: Some(parts), role: Some(role.into()), extra: ExtraFields::default() }
    }

    /// Creates a text message by the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new("user", vec![Part::text(text)])
    }

    /// Creates a text message by the model.
    #[must_use]
    pub fn model(text: impl Into<String>) -> Self {
        Self::new("model", vec![Part::text(text)])
    }

    /// Returns the parts; empty if the field is absent.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or_default()
    }

    /// Returns the text of all parts that are not thoughts, joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts().iter().filter(|part| part.thought != Some(true)).filter_map(|part| part.text.as_deref()).collect()
    }

    /// Returns the function calls among the parts.
    pub fn function_calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts().iter().filter_map(|part| part.function_call.as_deref())
    }

    /// Returns the function responses among the parts.
    pub fn function_responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts().iter().filter_map(|part| part.function_response.as_deref())
    }

    /// Refuses fields unknown to this version. Use this for content that people write by hand, in which an unknown name
    /// is a mistake.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the first unknown field.
    pub fn check_known(&self) -> Result<()> {
        check_known(self.extras())
    }

    /// Returns all unknown fields in the content, with their parents.
    pub(crate) fn extras(&self) -> impl Iterator<Item = Extra<'_>> {
        iter::once(("content", &self.extra)).chain(self.parts().iter().flat_map(Part::extras))
    }

    /// Removes all unknown fields.
    #[doc(hidden)]
    pub fn clear_extras(&mut self) {
        self.extra = ExtraFields::default();
        self.parts.iter_mut().flatten().for_each(Part::clear_extras);
    }
}

impl From<&str> for Content {
    /// Creates a text message by the user.
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Content {
    /// Creates a text message by the user.
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

/// One piece of content; usually exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The resolution at which media is processed.
    #[serde(default, alias = "media_resolution", skip_serializing_if = "Option::is_none")]
    pub media_resolution: Option<Box<Value>>,
    /// The result of running code.
    #[serde(
        default,
        alias = "code_execution_result",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub code_execution_result: Option<Box<CodeExecutionResult>>,
    /// Code the model wants run.
    #[serde(
        default,
        alias = "executable_code",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub executable_code: Option<Box<ExecutableCode>>,
    /// Data stored elsewhere, by its URI.
    #[serde(
        default,
        alias = "file_data",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub file_data: Option<Box<FileData>>,
    /// A call that the model requests.
    #[serde(
        default,
        alias = "function_call",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub function_call: Option<Box<FunctionCall>>,
    /// The response of a tool.
    #[serde(
        default,
        alias = "function_response",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub function_response: Option<Box<FunctionResponse>>,
    /// Inline data.
    #[serde(
        default,
        alias = "inline_data",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::optional_object"
    )]
    pub inline_data: Option<Box<Blob>>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether this part is the model's reasoning, not its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<bool>,
    /// An opaque token with which a model resumes its reasoning.
    #[serde(default, alias = "thought_signature", with = "optional_bytes", skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<Vec<u8>>,
    /// The section of a video to which the part refers.
    #[serde(default, alias = "video_metadata", skip_serializing_if = "Option::is_none")]
    pub video_metadata: Option<Box<Value>>,
    /// A call of a tool that runs on the model's side.
    #[serde(default, alias = "tool_call", skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Box<Value>>,
    /// The response of a tool on the model's side.
    #[serde(default, alias = "tool_response", skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Box<Value>>,
    /// Any data that a program keeps with the part.
    #[serde(default, alias = "part_metadata", skip_serializing_if = "Option::is_none")]
    pub part_metadata: Option<Box<Map<String, Value>>>,
    /// A transcription of audio.
    #[serde(default, alias = "audio_transcription", skip_serializing_if = "Option::is_none")]
    pub audio_transcription: Option<Box<Value>>,
    /// How media is processed.
    #[serde(default, alias = "media_processing", skip_serializing_if = "Option::is_none")]
    pub media_processing: Option<Box<Value>>,
    /// Metadata about speech.
    #[serde(default, alias = "speech_metadata", skip_serializing_if = "Option::is_none")]
    pub speech_metadata: Option<Box<Value>>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Part {
    /// Creates a part of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Creates a part of data with its MIME type.
    #[must_use]
    pub fn bytes(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        let blob = Blob { data: Some(data.into()), mime_type: Some(mime_type.into()), ..Blob::default() };
        Self { inline_data: Some(Box::new(blob)), ..Self::default() }
    }

    /// Creates a call of a tool by name.
    #[must_use]
    pub fn function_call(name: impl Into<String>, args: Map<String, Value>) -> Self {
        let call = FunctionCall { name: Some(name.into()), args: Some(args), ..FunctionCall::default() };
        Self { function_call: Some(Box::new(call)), ..Self::default() }
    }

    /// Creates a response to a call, with the id and the name of the call. An object is used as is; any other value
    /// becomes `{"result": value}`.
    #[must_use]
    pub fn function_response(id: impl Into<String>, name: impl Into<String>, response: Value) -> Self {
        let response = match response {
            Value::Object(map) => map,
            value => Map::from_iter([("result".to_owned(), value)]),
        };
        let (id, name, response) = (Some(id.into()), Some(name.into()), Some(response));
        let response = FunctionResponse { id, name, response, ..FunctionResponse::default() };
        Self { function_response: Some(Box::new(response)), ..Self::default() }
    }

    /// Refuses fields unknown to this version, as [`Content::check_known`] does.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the first unknown field.
    pub fn check_known(&self) -> Result<()> {
        check_known(self.extras())
    }

    /// Refuses unknown fields that have the name of a known field, as `Event::check_extras` does.
    pub(crate) fn check_extras(&self) -> Result<()> {
        let is_same = || {
            let read = serde_json::to_value(self).and_then(serde_json::from_value::<Self>);
            read.is_ok_and(|read| read == *self)
        };
        if self.extras().any(|(_, fields)| !fields.is_empty()) && !is_same() {
            return Err(Error::invalid("an unknown field of the part has the name of a known one; set that one"));
        }
        Ok(())
    }

    fn extras(&self) -> impl Iterator<Item = Extra<'_>> {
        [
            ("part", Some(&self.extra)),
            ("codeExecutionResult", self.code_execution_result.as_ref().map(|result| &result.extra)),
            ("executableCode", self.executable_code.as_ref().map(|code| &code.extra)),
            ("fileData", self.file_data.as_ref().map(|file| &file.extra)),
            ("functionCall", self.function_call.as_ref().map(|call| &call.extra)),
            ("functionResponse", self.function_response.as_ref().map(|response| &response.extra)),
            ("inlineData", self.inline_data.as_ref().map(|blob| &blob.extra)),
        ]
        .into_iter()
        .filter_map(|(of, fields)| Some((of, fields?)))
    }

    /// Removes unknown fields.
    #[doc(hidden)]
    pub fn clear_extras(&mut self) {
        let inner = [
            self.code_execution_result.as_mut().map(|result| &mut result.extra),
            self.executable_code.as_mut().map(|code| &mut code.extra),
            self.file_data.as_mut().map(|file| &mut file.extra),
            self.function_call.as_mut().map(|call| &mut call.extra),
            self.function_response.as_mut().map(|response| &mut response.extra),
            self.inline_data.as_mut().map(|blob| &mut blob.extra),
        ];
        inner.into_iter().flatten().chain([&mut self.extra]).for_each(|extra| *extra = ExtraFields::default());
    }
}

/// A call of a tool that the model requests, with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCall {
    /// The id of the call, to which its response refers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The arguments by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Map<String, Value>>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Arguments that are still being streamed.
    #[serde(default, alias = "partial_args", skip_serializing_if = "Option::is_none")]
    pub partial_args: Option<Vec<Value>>,
    /// Whether more of this call follows.
    #[serde(default, alias = "will_continue", skip_serializing_if = "Option::is_none")]
    pub will_continue: Option<bool>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The response of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionResponse {
    /// Whether more responses to this call follow.
    #[serde(default, alias = "will_continue", skip_serializing_if = "Option::is_none")]
    pub will_continue: Option<bool>,
    /// When the model receives the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<String>,
    /// Media that belongs to the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Value>>,
    /// The id of the call that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The response, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Map<String, Value>>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Data with its MIME type; base64 in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// The bytes.
    #[serde(default, with = "optional_bytes", skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<u8>>,
    /// The name to display.
    #[serde(default, alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The MIME type.
    #[serde(default, alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Data stored elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileData {
    /// The name to display.
    #[serde(default, alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The URI.
    #[serde(default, alias = "file_uri", skip_serializing_if = "Option::is_none")]
    pub file_uri: Option<String>,
    /// The MIME type.
    #[serde(default, alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Code the model wants run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutableCode {
    /// The code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its language, such as `PYTHON`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The id of this piece of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The result of running code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeExecutionResult {
    /// The outcome, such as `OUTCOME_OK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The id of the code that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Fields unknown to this version, kept as received.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Writes URL-safe base64 with padding, as ADK does; reads both the URL-safe and the standard alphabet, with or without
/// padding.
mod optional_bytes {
    use std::result::Result;

    use super::*;

    const OUT: GeneralPurpose = base64::engine::general_purpose::URL_SAFE;
    const IN: GeneralPurpose = GeneralPurpose::new(
        &URL_SAFE,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_str(&OUT.encode(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let url_safe = text.replace('+', "-").replace('/', "_");
        IN.decode(url_safe).map(Some).map_err(|e| serde::de::Error::custom(format!("not base64: {e}")))
    }
}
