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
    ///   [`Limits::artifact_bytes`](crate::plan::limits::Limits::artifact_bytes), or if its MIME type and its custom
    ///   metadata exceed 64 KiB.
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

    /// Lists a page of the versions of a name, oldest first. The page is empty only after the last version.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names the artifact that cannot be read.
    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>>;

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

/// Which versions of an artifact are listed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListVersionsConfig {
    /// The first version of the page: 0 by default.
    pub from: u64,
    /// The maximum number of versions: 1,000 by default.
    pub limit: usize,
    /// The maximum size of the metadata in the page, in bytes: 4 MiB by default. A page has at least one version.
    pub page_bytes: u64,
    /// Whether the custom metadata is read. Without it, the versions have an empty map.
    pub has_metadata: bool,
}

impl Default for ListVersionsConfig {
    fn default() -> Self {
        Self { from: 0, limit: 1000, page_bytes: 4 << 20, has_metadata: true }
    }
}

impl ListVersionsConfig {
    /// Begins with this version.
    #[must_use]
    pub fn with_from(self, from: u64) -> Self {
        Self { from, ..self }
    }

    /// Lists at most this many versions.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Leaves the custom metadata out.
    #[must_use]
    pub fn without_metadata(self) -> Self {
        Self { has_metadata: false, ..self }
    }
}

/// Lists all versions of an artifact without their custom metadata, oldest first.
///
/// # Errors
///
/// As [`ArtifactService::list_artifact_versions`].
pub async fn all_versions(
    artifacts: &(impl ArtifactService + ?Sized),
    session: &SessionKey,
    filename: &str,
) -> Result<Vec<ArtifactVersion>> {
    let mut versions: Vec<ArtifactVersion> = Vec::new();
    let mut config = ListVersionsConfig::default().without_metadata();
    loop {
        let page = artifacts.list_artifact_versions(session, filename, &config).await?;
        let Some(last) = page.last() else { return Ok(versions) };
        config.from = last.version + 1;
        versions.extend(page);
    }
}

/// Describes one version of an artifact, by default the newest; `None` if it does not exist.
///
/// # Errors
///
/// As [`ArtifactService::list_artifact_versions`].
pub async fn describe_version(
    artifacts: &(impl ArtifactService + ?Sized),
    session: &SessionKey,
    filename: &str,
    version: Option<u64>,
) -> Result<Option<ArtifactVersion>> {
    let version = match version {
        Some(version) => version,
        None => match all_versions(artifacts, session, filename).await?.last() {
            Some(newest) => newest.version,
            None => return Ok(None),
        },
    };
    let config = ListVersionsConfig::default().with_from(version).with_limit(1);
    let found = artifacts.list_artifact_versions(session, filename, &config).await?.pop();
    Ok(found.filter(|found| found.version == version))
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
