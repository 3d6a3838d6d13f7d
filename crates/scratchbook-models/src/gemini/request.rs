//! The body that is sent to the Gemini API: the same as google-adk sends for the request, field by field.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::schema::response_schema;
use crate::chat::{BEGIN, GO_ON};
use crate::opaque::detach;
use scratchbook_agent::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::content::{Blob, Content, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json::camel_case;

/// Image types that are text. The API accepts such data only as text.
const IMAGES_OF_TEXT: [&str; 3] = ["image/svg", "image/svg+xml", "image/xml"];

/// Other types of data that are text.
const TEXTS: [&str; 4] = ["application/csv", "application/json", "application/svg+xml", "application/xml"];

/// The minimum length of a base64 signature that counts as another provider's. Only shorter signatures of the API
/// itself may look like base64 by chance.
const SHORTEST_FOREIGN: usize = 16;

/// Returns the body of a request, streamed or not.
pub(super) fn request_body(request: &LlmRequest) -> Result<Value> {
    let mut body = Map::new();
    let contents = request.contents.iter().filter_map(|said| content(said).transpose());
    let mut contents = contents.collect::<Result<Vec<_>>>()?;
    match request.contents.last() {
        None => contents.push(user_text(BEGIN)),
        Some(last) if last.role.as_deref() != Some("user") => contents.push(user_text(GO_ON)),
        Some(_) => {}
    }
    body.insert("contents".to_owned(), contents.into());
    if let Some(instruction) = &request.system_instruction {
        body.insert("systemInstruction".to_owned(), user_text(instruction));
    }
    // ADK adds the functions after the tools that Gemini runs itself.
    let mut tools = request.built_in_tools.clone();
    if !request.tools.is_empty() {
        let declarations = request.tools.iter().map(declaration).collect::<Result<Vec<_>>>()?;
        tools.push(json!({"functionDeclarations": declarations}));
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    let Value::Object(mut config) = documented(value(&request.config)?) else {
        return Err(Error::internal("a config is no object"));
    };
    // The API that is used with a key has no labels for billing.
    config.remove("labels");
    for name in ["safetySettings", "toolConfig"] {
        body.extend(config.remove_entry(name));
    }
    if let Some(Value::String(name)) = config.remove("cachedContent") {
        let path = if name.contains('/') { name } else { format!("cachedContents/{name}") };
        body.insert("cachedContent".to_owned(), path.into());
    }
    if let Some(schema) = &request.output_schema {
        config.insert("responseMimeType".to_owned(), "application/json".into());
        let (name, schema) = match response_schema(schema) {
            Some(reduced) => ("responseSchema", reduced),
            None => ("responseJsonSchema", schema.clone()),
        };
        config.insert(name.to_owned(), schema);
    }
    body.insert("generationConfig".to_owned(), config.into());
    Ok(body.into())
}

fn value(part: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(part).map_err(|error| Error::internal("a request cannot be written").with_source(error))
}

/// Returns settings with the API's field names. An agent's file may use other names, such as `thinking_budget`.
fn documented(settings: Value) -> Value {
    match settings {
        Value::Array(items) => items.into_iter().map(documented).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (camel_case(&name), documented(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

fn user_text(text: &str) -> Value {
    json!({"parts": [{"text": text}], "role": "user"})
}

fn declaration(tool: &FunctionDeclaration) -> Result<Value> {
    let mut declaration = value(tool)?;
    if let Some(fields) = declaration.as_object_mut().filter(|_| tool.parameters_json_schema.is_null()) {
        fields.remove("parametersJsonSchema");
    }
    Ok(declaration)
}

/// Returns a content without unknown fields, which the API refuses; `None` if nothing is left of it.
fn content(content: &Content) -> Result<Option<Value>> {
    let mut fields = Map::new();
    if let Some(parts) = &content.parts {
        let sent = parts.iter().filter(|part| !is_sealed(part)).filter_map(known);
        let sent: Vec<_> = sent.map(|known| part(&known)).collect::<Result<_>>()?;
        if sent.is_empty() && !parts.is_empty() {
            return Ok(None);
        }
        fields.insert("parts".to_owned(), sent.into());
    }
    fields.extend(content.role.iter().map(|role| ("role".to_owned(), role.as_str().into())));
    Ok(Some(fields.into()))
}

/// Returns a part without unknown fields and without other providers' data; `None` if nothing is left of it.
fn known(part: &Part) -> Option<Cow<'_, Part>> {
    if part.check_known().is_ok() && part.part_metadata.is_none() {
        return Some(Cow::Borrowed(part));
    }
    let mut known = part.clone();
    known.clear_extras();
    detach(&mut known);
    let is_empty = known == Part::default() || known == Part { thought: Some(true), ..Part::default() };
    (!is_empty).then_some(Cow::Owned(known))
}

/// Returns whether a part is a thought that only the provider that made it can read.
fn is_sealed(part: &Part) -> bool {
    let is_empty = part.text.as_deref().is_none_or(str::is_empty) && part.function_call.is_none();
    part.thought == Some(true) && is_empty && has_foreign_signature(part)
}

/// Returns whether another provider signed the thought. The API would refuse such a signature. Anthropic's signatures
/// are base64 text, and the API's own are arbitrary bytes. The placeholders that the API accepts instead of a signature
/// are not base64.
fn has_foreign_signature(part: &Part) -> bool {
    let signature = part.thought_signature.as_deref().unwrap_or_default();
    signature.len() >= SHORTEST_FOREIGN && STANDARD.decode(signature).is_ok()
}

fn part(part: &Part) -> Result<Value> {
    let mime_type = part.inline_data.as_ref().map(|blob| blob.mime_type.as_deref().unwrap_or_default());
    if let (Some(blob), Some(mime_type)) = (&part.inline_data, mime_type)
        && !is_media(&essence(mime_type))
    {
        return Ok(json!({"text": in_words(blob)}));
    }
    let mut sent = value(part)?;
    if let Some(fields) = sent.as_object_mut().filter(|_| has_foreign_signature(part)) {
        fields.remove("thoughtSignature");
    }
    for name in ["inlineData", "fileData"] {
        if let Some(data) = sent.get_mut(name).and_then(Value::as_object_mut) {
            data.remove("displayName");
        }
    }
    // The API refuses `IMAGE/PNG`.
    if let (Some(mime_type), Some(data)) = (mime_type, sent.get_mut("inlineData")) {
        let (kind, parameters) = mime_type.split_at(mime_type.find(';').unwrap_or(mime_type.len()));
        data["mimeType"] = format!("{}{parameters}", kind.trim().to_ascii_lowercase()).into();
    }
    // These fields are removed: only other APIs of Google stream them, and no API accepts them in a request.
    if let Some(call) = sent.get_mut("functionCall").and_then(Value::as_object_mut) {
        call.remove("partialArgs");
        call.remove("willContinue");
    }
    Ok(sent)
}

/// Returns a MIME type without its parameters.
fn essence(mime_type: &str) -> Cow<'_, str> {
    let kind = mime_type.split(';').next().unwrap_or_default().trim();
    if kind.bytes().any(|b| b.is_ascii_uppercase()) { kind.to_ascii_lowercase().into() } else { kind.into() }
}

/// Returns whether the API accepts data of this type.
fn is_media(mime_type: &str) -> bool {
    let is_known = ["image/", "audio/", "video/"].iter().any(|kind| mime_type.starts_with(kind));
    (is_known && !IMAGES_OF_TEXT.contains(&mime_type)) || mime_type == "application/pdf"
}

/// Returns the text for data that the API does not accept. It is google-adk's text, which does not name the data.
fn in_words(blob: &Blob) -> String {
    let mime_type = essence(blob.mime_type.as_deref().unwrap_or_default());
    let is_text = mime_type.starts_with("text/")
        || TEXTS.contains(&mime_type.as_ref())
        || IMAGES_OF_TEXT.contains(&mime_type.as_ref());
    let shown = if mime_type.is_empty() { "application/octet-stream" } else { mime_type.as_ref() };
    match &blob.data {
        None => format!("[Artifact: inline-file, type: {shown}. No inline data was provided.]"),
        Some(data) if is_text => String::from_utf8_lossy(data).into_owned(),
        Some(data) => {
            let size = data.len() as f64 / 1024.0;
            format!(
                "[Binary artifact: inline-file, type: {shown}, size: {size:.1} KB. Content cannot be displayed inline.]"
            )
        }
    }
}
