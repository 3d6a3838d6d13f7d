//! Parts of the conversation in each provider's form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use genai::chat::{Binary, ContentPart, CustomPart};
use serde_json::{Value, json};

use super::{ProviderProfile, WireProtocol};
use scratchbook_core::content::{Blob, FileData, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// What happens to data that a provider does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The data causes an error, so that the user learns that the model does not see the data.
    Refused,
    /// The data is replaced by a text that names it. This applies to older data: the user can no longer change it, so
    /// it must not end the conversation.
    Named,
}

/// Returns the user's parts. Consecutive texts are joined, since each provider would join them differently.
pub(super) fn user(parts: &[Part], profile: &ProviderProfile, not_taken: NotTaken) -> Result<Vec<ContentPart>> {
    let mut content = Vec::new();
    for part in parts.iter().filter(|part| part.thought != Some(true)) {
        if let Some(text) = words(part) {
            say(&mut content, text, profile);
            continue;
        }
        if let Some(text) = part.inline_data.as_deref().and_then(as_text) {
            say(&mut content, text, profile);
            continue;
        }
        let data = match (&part.inline_data, &part.file_data) {
            (Some(blob), _) => inline(blob, profile),
            (None, Some(file)) => by_uri(file, profile).map(Some),
            (None, None) => Ok(None),
        };
        match data {
            Ok(data) => content.extend(data),
            Err(error) if not_taken == NotTaken::Refused => return Err(error),
            Err(_) => say(&mut content, not_shown(part), profile),
        }
    }
    Ok(content)
}

/// Returns the model's parts, without media: no provider accepts media from the model.
pub(super) fn model(parts: &[Part], profile: &ProviderProfile) -> Vec<ContentPart> {
    let mut content = Vec::new();
    let calls = parts.iter().any(|part| part.function_call.is_some());
    for part in parts {
        if part.thought == Some(true) {
            content.extend(thought(part, calls, profile));
        } else if let Some(call) = &part.function_call {
            content.push(ContentPart::ToolCall(genai::chat::ToolCall {
                call_id: call.id.clone().unwrap_or_default(),
                fn_name: call.name.clone().unwrap_or_default(),
                fn_arguments: Value::Object(call.args.clone().unwrap_or_default()),
                thought_signatures: None,
            }));
        } else if let Some(text) = words(part) {
            say(&mut content, text, profile);
        }
    }
    content
}

/// Returns a block of a message in Anthropic's form, for which genai has no type.
pub(super) fn block(data: Value) -> ContentPart {
    ContentPart::Custom(CustomPart { model_iden: None, data })
}

/// Returns media that a tool returned. If the provider does not accept the media, a text names it: the tool's author
/// may not know the provider, and the media must not end the conversation.
pub(super) fn media(part: &Part, profile: &ProviderProfile) -> Vec<ContentPart> {
    user(std::slice::from_ref(part), profile, NotTaken::Named).unwrap_or_default()
}

/// Returns media that a tool returned as one of Anthropic's blocks.
pub(super) fn media_block(part: &Part) -> Value {
    let blob = part.inline_data.clone().unwrap_or_default();
    let (kind, data) = (mime_type(blob.mime_type.as_deref()), STANDARD.encode(bytes(&blob)));
    if data.is_empty() || anthropic_takes(&kind).is_err() {
        let text = as_text(&blob).filter(|text| !text.trim().is_empty()).unwrap_or_else(|| not_shown(part));
        return json!({"type": "text", "text": text});
    }
    let block = if kind == "application/pdf" { "document" } else { "image" };
    json!({"type": block, "source": {"type": "base64", "media_type": kind, "data": data}})
}

fn not_shown(part: &Part) -> String {
    let blob = part.inline_data.as_ref().and_then(|blob| blob.mime_type.as_deref());
    let kind = blob.or_else(|| part.file_data.as_ref()?.mime_type.as_deref());
    format!("(data of type '{}', which cannot be shown)", mime_type(kind).escape_debug())
}

fn say(content: &mut Vec<ContentPart>, text: String, profile: &ProviderProfile) {
    // Anthropic would refuse the whole conversation for an empty text.
    if profile.wire == WireProtocol::Anthropic && text.trim().is_empty() {
        return;
    }
    match content.last_mut() {
        // Texts are joined as ADK's `LiteLlm` joins them.
        Some(ContentPart::Text(said)) if profile.wire != WireProtocol::Anthropic => {
            said.push('\n');
            said.push_str(&text);
        }
        _ => content.push(ContentPart::Text(text)),
    }
}

/// Returns the text of a part. Code that ran on the model's side becomes text, in ADK's form.
fn words(part: &Part) -> Option<String> {
    if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty()) {
        return Some(text.clone());
    }
    if let Some(code) = &part.executable_code {
        return Some(format!("Code:```python\n{}\n```", code.code.as_deref().unwrap_or_default()));
    }
    let result = part.code_execution_result.as_ref()?;
    Some(format!("Execution Result:```code_output\n{}\n```", result.output.as_deref().unwrap_or_default()))
}

/// Returns a thought of the model if it has to be sent back.
///
/// Anthropic accepts thoughts that it has signed, and needs them with calls. Anthropic's signatures are ASCII, and
/// Gemini's are not. Some other providers need the thoughts that led to a call. For all other providers, thoughts are
/// dropped.
fn thought(part: &Part, calls: bool, profile: &ProviderProfile) -> Vec<ContentPart> {
    let text = part.text.as_deref().unwrap_or_default();
    let signature = part.thought_signature.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let signature = signature.filter(|signature| signature.is_ascii() && !signature.is_empty());
    match (profile.wire, signature) {
        (WireProtocol::Anthropic, Some(data)) if text.is_empty() => {
            vec![block(json!({"type": "redacted_thinking", "data": data}))]
        }
        (WireProtocol::Anthropic, Some(signature)) => {
            vec![block(json!({"type": "thinking", "thinking": text, "signature": signature}))]
        }
        (WireProtocol::Chat | WireProtocol::Ollama, _) if calls && profile.wants_thoughts() && !text.is_empty() => {
            vec![ContentPart::ReasoningContent(text.to_owned())]
        }
        _ => Vec::new(),
    }
}

/// Returns data that is text.
fn as_text(blob: &Blob) -> Option<String> {
    let kind = mime_type(blob.mime_type.as_deref());
    let text = kind.starts_with("text/") || matches!(kind.as_str(), "application/json" | "application/xml");
    text.then(|| String::from_utf8_lossy(bytes(blob)).into_owned())
}

fn inline(blob: &Blob, profile: &ProviderProfile) -> Result<Option<ContentPart>> {
    if bytes(blob).is_empty() {
        return Ok(None);
    }
    let kind = mime_type(blob.mime_type.as_deref());
    let (image, pdf) = (kind.starts_with("image/"), kind == "application/pdf");
    let taken = match profile.wire {
        WireProtocol::Anthropic => return anthropic_takes(&kind).map(|()| Some(binary(blob, kind, profile))),
        WireProtocol::Chat => image || pdf || kind.starts_with("audio/") || kind.starts_with("video/"),
        WireProtocol::Responses => image || pdf,
        WireProtocol::Ollama => image,
    };
    if taken { Ok(Some(binary(blob, kind, profile))) } else { Err(not_taken(&kind, profile.provider())) }
}

fn binary(blob: &Blob, kind: String, profile: &ProviderProfile) -> ContentPart {
    // OpenAI refuses files without a name.
    let name = blob.display_name.clone().or_else(|| {
        let nameless = profile.wire == WireProtocol::Chat && kind == "application/pdf";
        nameless.then(|| "document.pdf".to_owned())
    });
    ContentPart::Binary(Binary::from_base64(kind, STANDARD.encode(bytes(blob)), name))
}

fn anthropic_takes(kind: &str) -> Result<()> {
    match kind {
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" | "application/pdf" => Ok(()),
        _ => Err(not_taken(kind, "anthropic")),
    }
}

fn by_uri(file: &FileData, profile: &ProviderProfile) -> Result<ContentPart> {
    let uri = file.file_uri.as_deref().unwrap_or_default();
    let kind = match file.mime_type.as_deref() {
        Some(kind) => mime_type(Some(kind)),
        None => by_ending(uri).to_owned(),
    };
    let web = uri.starts_with("https://") || uri.starts_with("http://");
    let (image, pdf) = (kind.starts_with("image/"), kind == "application/pdf");
    let url = || ContentPart::Binary(Binary::from_url(kind.clone(), uri, file.display_name.clone()));
    match profile.wire {
        WireProtocol::Chat if web && (image || kind.starts_with("video/")) => Ok(url()),
        WireProtocol::Responses if web && (image || pdf) => Ok(url()),
        WireProtocol::Anthropic if web && image => {
            Ok(block(json!({"type": "image", "source": {"type": "url", "url": uri}})))
        }
        WireProtocol::Anthropic if web && pdf => Ok(url()),
        // The address is not repeated, since it may contain a secret.
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} takes no file of type '{kind}' by its address; send its bytes", profile.provider()),
        )),
    }
}

fn not_taken(kind: &str, provider: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{provider} takes no data of type '{}'", kind.escape_debug()))
}

fn bytes(blob: &Blob) -> &[u8] {
    blob.data.as_deref().unwrap_or_default()
}

/// Returns a MIME type without its parameters.
fn mime_type(of: Option<&str>) -> String {
    of.and_then(|of| of.split(';').next()).unwrap_or("application/octet-stream").trim().to_ascii_lowercase()
}

/// Returns the MIME type for the file extension of an address.
fn by_ending(uri: &str) -> &'static str {
    let path = uri.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match path.rsplit('.').next().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "mp4" => "video/mp4",
        _ => "application/octet-stream",
    }
}
