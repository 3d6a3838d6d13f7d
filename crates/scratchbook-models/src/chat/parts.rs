//! Parts of the conversation that a provider accepts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{ProviderProfile, WireProtocol};
use crate::opaque::attached;
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

/// A piece of the user's message.
#[derive(Debug)]
pub(super) enum Piece {
    Text(String),
    Data(Data),
}

/// Data of the user.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) mime_type: String,
    pub(super) name: Option<String>,
    pub(super) source: DataSource,
}

#[derive(Debug)]
pub(super) enum DataSource {
    Base64(String),
    Url(String),
}

impl Data {
    /// Returns the data's address, which may contain the data itself.
    pub(super) fn url(&self) -> String {
        match &self.source {
            DataSource::Base64(data) => format!("data:{};base64,{data}", self.mime_type),
            DataSource::Url(url) => url.clone(),
        }
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.mime_type.starts_with(kind)
    }
}

/// Returns the user's parts. Consecutive texts are joined, except for Anthropic, which gets each as a block.
pub(super) fn user(parts: &[Part], profile: &ProviderProfile, not_taken: NotTaken) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for part in parts.iter().filter(|part| part.thought != Some(true)) {
        if let Some(text) = words(part).or_else(|| as_text(part.inline_data.as_deref()?)) {
            say(&mut pieces, text, profile);
            continue;
        }
        let data = match (&part.inline_data, &part.file_data) {
            (Some(blob), _) => inline(blob, profile),
            (None, Some(file)) => by_uri(file, profile).map(Some),
            (None, None) => Ok(None),
        };
        match data {
            Ok(data) => pieces.extend(data.map(Piece::Data)),
            Err(error) if not_taken == NotTaken::Refused => return Err(error),
            Err(_) => say(&mut pieces, not_shown(part), profile),
        }
    }
    Ok(pieces)
}

/// Returns the model's parts that are sent back: its texts, its calls, and thoughts that the provider needs. No provider
/// accepts media from the model.
pub(super) fn model(parts: &[Part], profile: &ProviderProfile) -> Vec<Part> {
    let mut sent: Vec<Part> = Vec::new();
    let calls = parts.iter().any(|part| part.function_call.is_some());
    for part in parts {
        if part.function_call.is_some() || (part.thought == Some(true) && is_needed(part, calls, profile)) {
            sent.push(part.clone());
            continue;
        }
        let text = words(part).filter(|_| part.thought != Some(true));
        let Some(text) = text.filter(|text| profile.wire != WireProtocol::Anthropic || !text.trim().is_empty()) else {
            continue;
        };
        match sent.last_mut().filter(|last| last.thought != Some(true)).and_then(|last| last.text.as_mut()) {
            Some(said) if profile.wire != WireProtocol::Anthropic => {
                said.push('\n');
                said.push_str(&text);
            }
            _ => sent.push(Part::text(text)),
        }
    }
    sent
}

/// Returns whether a thought of the model has to be sent back.
///
/// Anthropic accepts thoughts that it has signed, and needs them with calls. Anthropic's signatures are ASCII, and
/// Gemini's are not. Some other providers need the thoughts that led to a call, or what they have attached to a thought.
/// For all other providers, thoughts are dropped.
fn is_needed(part: &Part, calls: bool, profile: &ProviderProfile) -> bool {
    match profile.wire {
        WireProtocol::Anthropic => signature(part).is_some(),
        WireProtocol::Responses => attached(part, &profile.origin).is_some(),
        WireProtocol::Chat | WireProtocol::Ollama => {
            let has_text = part.text.as_deref().is_some_and(|text| !text.is_empty());
            attached(part, &profile.origin).is_some() || (calls && has_text && profile.wants_thoughts())
        }
    }
}

/// Returns Anthropic's signature of a thought.
pub(super) fn signature(part: &Part) -> Option<&str> {
    let signature = std::str::from_utf8(part.thought_signature.as_ref()?).ok()?;
    Some(signature).filter(|signature| signature.is_ascii() && !signature.is_empty())
}

/// Returns media that a tool returned. If the provider does not accept the media, a text names it: the tool's author
/// may not know the provider, and the media must not end the conversation.
pub(super) fn media(part: &Part, profile: &ProviderProfile) -> Vec<Piece> {
    user(std::slice::from_ref(part), profile, NotTaken::Named).unwrap_or_default()
}

fn not_shown(part: &Part) -> String {
    let blob = part.inline_data.as_ref().and_then(|blob| blob.mime_type.as_deref());
    let kind = blob.or_else(|| part.file_data.as_ref()?.mime_type.as_deref());
    format!("(data of type '{}', which cannot be shown)", mime_type(kind).escape_debug())
}

fn say(pieces: &mut Vec<Piece>, text: String, profile: &ProviderProfile) {
    // Anthropic would refuse the whole conversation for an empty text.
    if profile.wire == WireProtocol::Anthropic && text.trim().is_empty() {
        return;
    }
    match pieces.last_mut() {
        // Texts are joined as ADK's `LiteLlm` joins them.
        Some(Piece::Text(said)) if profile.wire != WireProtocol::Anthropic => {
            said.push('\n');
            said.push_str(&text);
        }
        _ => pieces.push(Piece::Text(text)),
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

/// Returns data that is text.
fn as_text(blob: &Blob) -> Option<String> {
    let kind = mime_type(blob.mime_type.as_deref());
    let text = kind.starts_with("text/") || matches!(kind.as_str(), "application/json" | "application/xml");
    text.then(|| String::from_utf8_lossy(bytes(blob)).into_owned())
}

fn inline(blob: &Blob, profile: &ProviderProfile) -> Result<Option<Data>> {
    if bytes(blob).is_empty() {
        return Ok(None);
    }
    let kind = mime_type(blob.mime_type.as_deref());
    let (image, pdf) = (kind.starts_with("image/"), kind == "application/pdf");
    let taken = match profile.wire {
        WireProtocol::Anthropic => {
            pdf || matches!(kind.as_str(), "image/jpeg" | "image/png" | "image/gif" | "image/webp")
        }
        WireProtocol::Chat => image || pdf || kind.starts_with("audio/") || kind.starts_with("video/"),
        WireProtocol::Responses => image || pdf,
        WireProtocol::Ollama => image,
    };
    if !taken {
        return Err(not_taken(&kind, profile.provider.name()));
    }
    let source = DataSource::Base64(STANDARD.encode(bytes(blob)));
    Ok(Some(Data { mime_type: kind, name: blob.display_name.clone(), source }))
}

fn by_uri(file: &FileData, profile: &ProviderProfile) -> Result<Data> {
    let uri = file.file_uri.as_deref().unwrap_or_default();
    let kind = match file.mime_type.as_deref() {
        Some(kind) => mime_type(Some(kind)),
        None => by_ending(uri).to_owned(),
    };
    let web = uri.starts_with("https://") || uri.starts_with("http://");
    let (image, pdf) = (kind.starts_with("image/"), kind == "application/pdf");
    let taken = match profile.wire {
        WireProtocol::Chat => image || kind.starts_with("video/"),
        WireProtocol::Responses | WireProtocol::Anthropic => image || pdf,
        WireProtocol::Ollama => false,
    };
    if !web || !taken {
        // The address is not repeated, since it may contain a secret.
        let what = format!("{} takes no file of type '{kind}' by its address; send its bytes", profile.provider.name());
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(Data { mime_type: kind, name: file.display_name.clone(), source: DataSource::Url(uri.to_owned()) })
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
