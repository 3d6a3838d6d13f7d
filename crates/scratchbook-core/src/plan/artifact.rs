//! Preparing an artifact for storage, the same for every store.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::limits::Limits;
use crate::artifact::check_filename;
use crate::content::Part;
use crate::error::{Error, Result};
use crate::json;
use crate::session::{SessionKey, check_nameable};

/// A validated artifact, ready to be stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedArtifact {
    /// The data.
    pub artifact: Arc<Part>,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// The custom metadata.
    pub custom_metadata: Map<String, Value>,
    /// The length of the data and the custom metadata as JSON, in bytes.
    pub bytes: u64,
}

/// Validates an artifact and prepares it for storage in a session, or for its user, under a name.
///
/// # Errors
///
/// `InvalidArgument` for an id or a name that is `.` or `..`, for a name that [`check_filename`] refuses, for an absolute path, and for a path that contains
/// `..` or `versions`, which the addresses of versions use. Also for a part without text, data or a file's URI, and for
/// a part that is nested too deeply. `PayloadTooLarge` for an artifact above the limits.
pub fn prepare_artifact(
    session: &SessionKey,
    filename: &str,
    artifact: Part,
    custom_metadata: Map<String, Value>,
    limits: &Limits,
) -> Result<PreparedArtifact> {
    session.check_nameable()?;
    check_new_filename(filename)?;
    let mime_type = match (&artifact.inline_data, &artifact.file_data, &artifact.text) {
        (Some(blob), _, _) if blob.data.is_some() => blob.mime_type.clone(),
        (_, Some(file), _) if file.file_uri.is_some() => file.mime_type.clone(),
        (_, _, Some(_)) => None,
        _ => return Err(Error::invalid("an artifact is a part with text, data or a file's URI; this has none")),
    };
    let bytes = json::text_length(&artifact, "the artifact")?;
    artifact.check_extras()?;
    let beside = json::text_length(&custom_metadata, "the artifact's metadata")?;
    limits.check_artifact_metadata(
        filename,
        beside.saturating_add(mime_type.as_ref().map_or(0, |kind| kind.len() as u64)),
    )?;
    let bytes = bytes.saturating_add(beside);
    limits.check_artifact(filename, bytes)?;
    Ok(PreparedArtifact { artifact: Arc::new(artifact), mime_type, custom_metadata, bytes })
}

/// Refuses a new name that would point elsewhere if it were used as a file path or an address, by the rules of ADK's
/// file store. Existing artifacts with such names can be read and deleted.
fn check_new_filename(filename: &str) -> Result<()> {
    let user = check_filename(filename)?;
    let name = if user { &filename["user:".len()..] } else { filename }.trim();
    let drive = name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic();
    let why = if drive || name.starts_with(['/', '\\']) {
        "is an absolute path; give it one without a beginning"
    } else if name.split(['/', '\\']).any(|segment| segment == "..") {
        "must not contain parent traversal"
    } else if name.split(['/', '\\']).any(|segment| segment == "versions") {
        "contains 'versions', by which the versions of an artifact are asked for; give it another name"
    } else {
        return check_nameable("artifact name", filename);
    };
    Err(Error::invalid(format!("the artifact name '{filename}' {why}")))
}
