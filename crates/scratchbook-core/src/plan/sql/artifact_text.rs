//! Artifacts as text, for SQL stores.

use serde_json::{Map, Value};

use crate::artifact::check_filename;
use crate::content::Part;
use crate::error::Result;
use crate::json;
use crate::plan::artifact::prepare_artifact;
use crate::plan::limits::Limits;
use crate::plan::usage::Usage;
use crate::session::SessionKey;

/// The owner and the name of an artifact.
#[derive(Debug)]
pub struct ArtifactAddress {
    key: SessionKey,
    filename: String,
    /// Whether it belongs to the user, and so is visible in every session.
    user: bool,
}

impl ArtifactAddress {
    pub fn new(key: &SessionKey, filename: &str) -> Result<Self> {
        let user = check_filename(filename)?;
        Ok(Self { key: key.clone(), filename: filename.to_owned(), user })
    }

    /// Returns the app, the user, the session and the name.
    pub fn columns(&self) -> [&str; 4] {
        // No session has an empty id.
        let session = if self.user { "" } else { self.key.session_id() };
        [self.key.app_name(), self.key.user_id(), session, &self.filename]
    }

    /// Returns the description of a version in messages.
    pub fn place(&self, version: impl std::fmt::Display) -> String {
        format!("version {version} of the artifact '{}' of {}", self.filename, self.key)
    }
}

/// An artifact ready to be written.
#[derive(Debug)]
pub struct NewArtifact {
    pub address: ArtifactAddress,
    /// The part as JSON.
    pub text: String,
    /// The metadata, a JSON object.
    pub metadata: String,
    pub mime_type: Option<String>,
    /// The creation time, in seconds since 1970.
    pub created: f64,
}

impl NewArtifact {
    pub fn new(
        address: ArtifactAddress,
        part: Part,
        metadata: Map<String, Value>,
        created: f64,
        limits: &Limits,
    ) -> Result<Self> {
        let prepared = prepare_artifact(&address.key, &address.filename, part, metadata, limits)?;
        let text = json::to_text(&prepared.artifact, "the artifact")?;
        let metadata = json::to_text(&prepared.custom_metadata, "its metadata")?;
        Ok(Self { address, text, metadata, mime_type: prepared.mime_type, created })
    }

    /// Returns the bytes that count against quotas.
    pub fn usage(&self) -> Usage {
        Usage::artifact((self.text.len() + self.metadata.len()) as u64)
    }
}
