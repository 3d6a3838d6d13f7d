//! Artifacts: named, versioned data of a session or, with the prefix `user:` in the name, of a user.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::Part;
use crate::error::{Error, Result};
use crate::session::{SessionKey, check_id};

pub use crate::{forward_artifacts, unsupported_artifacts};

/// Stores artifacts. Versions count from 0; nothing is overwritten.
///
/// A name that starts with `user:` belongs to the user and is visible in all of the user's sessions in the app; any
/// other name belongs to the session and is deleted with it.
#[async_trait]
pub trait ArtifactService: fmt::Debug + Send + Sync + 'static {
    /// Saves data under a name and returns its version.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` for an empty name, a name over 512 bytes or with control characters, an absolute path, or a
    ///   path that contains `..` or `versions`;
    /// - `InvalidArgument` for a part without text, data or a file's URI, and for a part that is nested too deeply;
    /// - `PayloadTooLarge` if the artifact exceeds
    ///   [`Limits::artifact_bytes`](crate::plan::limits::Limits::artifact_bytes).
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64>;

    /// Reads a version, by default the newest; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names the artifact that cannot be read.
    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>>;

    /// Lists the names of all artifacts of the session and of its user, in byte order.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>>;

    /// Lists the versions of a name, oldest first; empty if there are none.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names the artifact that cannot be read.
    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>>;

    /// Deletes all versions of a name; does nothing if there are none.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()>;
}

impl<A: ArtifactService + ?Sized> ArtifactService for Arc<A> {
    forward_artifacts!(**self =>
        save_artifact, load_artifact, list_artifacts, list_artifact_versions, delete_artifact);
}

/// The metadata of one version of an artifact. In JSON it is ADK's `ArtifactVersion`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersion {
    /// The version, from 0.
    pub version: u64,
    /// Custom metadata that was saved with it.
    pub custom_metadata: Map<String, Value>,
    /// The time of the save, in seconds since 1970.
    pub create_time: f64,
    /// The MIME type; text has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl ArtifactVersion {
    /// Creates the metadata of a version saved at a time, in seconds since 1970. For store implementations, including
    /// your own.
    #[must_use]
    pub fn new(version: u64, create_time: f64) -> Self {
        Self { version, custom_metadata: Map::new(), create_time, mime_type: None }
    }

    /// Sets the MIME type and the custom metadata.
    #[must_use]
    pub fn with_metadata(mut self, mime_type: Option<String>, custom_metadata: Map<String, Value>) -> Self {
        self.mime_type = mime_type;
        self.custom_metadata = custom_metadata;
        self
    }
}

/// Whether a name belongs to the user.
///
/// # Errors
///
/// `InvalidArgument` for a name that not every store can hold.
pub fn check_filename(filename: &str) -> Result<bool> {
    check_id("artifact name", filename)?;
    let user = filename.strip_prefix("user:");
    if user.unwrap_or(filename).is_empty() {
        return Err(Error::invalid("the artifact has no name; give it one"));
    }
    Ok(user.is_some())
}
