//! `load_artifacts`: the tool with which a model reads artifacts.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::Tool;
use crate::agent::{CallbackContext, ToolContext};
use crate::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::content::{Blob, Content, Part};
use scratchbook_core::error::Result;

/// The tool's name, which is ADK's.
const NAME: &str = "load_artifacts";

/// The result of a call. The texts of this file are ADK's.
const STATUS: &str =
    "artifact contents temporarily inserted and removed. to access these artifacts, call load_artifacts tool again.";

/// Types of data that are sent to a model unchanged.
const MEDIA: [&str; 3] = ["image/", "audio/", "video/"];

/// Image types that are text.
const TEXT_IMAGES: [&str; 3] = ["image/svg", "image/svg+xml", "image/xml"];

/// Other types that are text.
const TEXTS: [&str; 4] = ["application/csv", "application/json", "application/svg+xml", "application/xml"];

/// Endings of names whose data is text.
const TEXT_NAMES: [&str; 4] = [".csv", ".txt", ".json", ".xml"];

/// ADK's tool `load_artifacts`: the model is shown the names of the session's artifacts, and the contents of the
/// artifacts that it asks for. The contents are only in the next request; the session's events contain only the names.
///
/// Images, audio, video and PDF files are sent unchanged, and texts as text. For other data, the model receives only
/// the type and the size.
///
/// ```
/// use scratchbook::agent::{LlmAgent, LoadArtifactsTool};
///
/// let agent = LlmAgent::builder("reader").tool(LoadArtifactsTool::new()).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Debug)]
pub struct LoadArtifactsTool {
    declaration: FunctionDeclaration,
}

impl LoadArtifactsTool {
    /// Creates the tool.
    #[must_use]
    pub fn new() -> Self {
        let declaration = FunctionDeclaration {
            name: NAME.to_owned(),
            description: "Loads artifacts into the session for this request.\n\nNOTE: Call when you need access to \
                          artifacts (for example, uploads saved by the\nweb UI)."
                .to_owned(),
            parameters_json_schema: json!({
                "type": "object",
                "properties": {"artifact_names": {"type": "array", "items": {"type": "string"}}},
            }),
            response_json_schema: None,
        };
        Self { declaration }
    }
}

impl Default for LoadArtifactsTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for LoadArtifactsTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, args: Map<String, Value>, _context: ToolContext) -> Result<Value> {
        Ok(match names(&args) {
            Some(names) => json!({"artifact_names": names, "status": STATUS}),
            None => {
                json!({"error": "'artifact_names' must be a list of strings.", "error_code": "INVALID_ARGUMENTS"})
            }
        })
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, context: &CallbackContext) -> Result<()> {
        request.tools.push(self.declaration.clone());
        let known = context.list_artifacts().await?;
        if known.is_empty() {
            return Ok(());
        }
        request.append_instruction(&instruction(&known));
        let asked = request.contents.last().into_iter().flat_map(|content| content.function_responses());
        let asked = asked.filter(|response| response.name.as_deref() == Some(NAME));
        let asked: Vec<_> = asked.filter_map(|response| names(response.response.as_ref()?)).flatten().collect();
        let mut loaded = HashSet::new();
        for name in asked {
            let found = match listed_name(&name, &known) {
                // A model may repeat a name, and each copy of an artifact takes memory.
                Some(listed) if !loaded.insert(listed.clone()) => continue,
                Some(listed) => context.load_artifact(&listed).await?,
                None => None,
            };
            match found {
                Some(artifact) => {
                    let title = Part::text(format!("Artifact {name} is:"));
                    request.contents.push(Content::new("user", vec![title, readable(artifact, &name)]));
                }
                None => tracing::warn!("a model asks for an artifact that the session does not have"),
            }
        }
        Ok(())
    }
}

/// Returns the names in a call's arguments or in its response; `None` if they are not a list of texts.
fn names(fields: &Map<String, Value>) -> Option<Vec<String>> {
    match fields.get("artifact_names") {
        None => Some(Vec::new()),
        Some(Value::Array(names)) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// Returns the name that the session lists for the name that a model has written. Models may leave out the prefix of
/// the user's artifacts, or add it.
fn listed_name(asked: &str, known: &[String]) -> Option<String> {
    let lists = |name: &str| known.iter().any(|known| known == name);
    let other = match asked.strip_prefix("user:") {
        Some(bare) => bare.to_owned(),
        None => format!("user:{asked}"),
    };
    [asked.to_owned(), other].into_iter().find(|name| lists(name))
}

fn instruction(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| ascii_json(name)).collect();
    let names = names.join(", ");
    format!(
        "You have a list of artifacts:
  [{names}]

  When the user asks questions about any of the artifacts, you should call the
  `load_artifacts` function to load the artifact. Always call load_artifacts
  before answering questions related to the artifacts, regardless of whether the
  artifacts have been loaded before. Do not depend on prior answers about the
  artifacts.
  "
    )
}

/// Returns a text as JSON in ASCII, as Python writes it.
fn ascii_json(text: &str) -> String {
    let mut units = [0; 2];
    let written = Value::from(text).to_string();
    let escaped = written.chars().map(|c| match c.is_ascii() {
        true => c.to_string(),
        false => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    });
    escaped.collect()
}

/// Returns an artifact in a form that every model accepts.
fn readable(artifact: Part, name: &str) -> Part {
    let Some(Blob { data, mime_type, .. }) = artifact.inline_data.as_deref() else {
        return artifact;
    };
    let kind = mime_type.as_deref().and_then(|kind| kind.split(';').next()).unwrap_or_default();
    let kind = kind.trim().to_lowercase();
    let is_media = MEDIA.iter().any(|media| kind.starts_with(media)) || kind == "application/pdf";
    if is_media && !TEXT_IMAGES.contains(&kind.as_str()) {
        return with_plain_type(artifact);
    }
    let shown = if kind.is_empty() { "application/octet-stream" } else { &kind };
    let Some(data) = data else {
        return Part::text(format!("[Artifact: {name}, type: {shown}. No inline data was provided.]"));
    };
    let lower = name.to_lowercase();
    let is_text = kind.starts_with("text/")
        || TEXTS.contains(&kind.as_str())
        || TEXT_IMAGES.contains(&kind.as_str())
        || TEXT_NAMES.iter().any(|ending| lower.ends_with(ending));
    if is_text {
        return Part::text(String::from_utf8_lossy(data).into_owned());
    }
    let size = data.len() as f64 / 1024.0;
    Part::text(format!(
        "[Binary artifact: {name}, type: {shown}, size: {size:.1} KB. Content cannot be displayed inline.]"
    ))
}

/// Writes the type in lower case, as providers expect it. Its parameters stay as they are.
fn with_plain_type(mut artifact: Part) -> Part {
    if let Some(kind) = artifact.inline_data.as_mut().and_then(|blob| blob.mime_type.as_mut()) {
        let (base, parameters) = kind.split_at(kind.find(';').unwrap_or(kind.len()));
        *kind = format!("{}{parameters}", base.trim().to_lowercase());
    }
    artifact
}
