//! Artifacts, as ADK's clients save, list, load and delete them.
//!
//! As in ADK, the session need not exist yet. Once the session is created, it has the artifacts that were saved for it.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use percent_encoding::{AsciiSet, utf8_percent_encode};
use scratchbook::artifact::{ArtifactVersion, ListVersionsConfig, all_versions, describe_version};
use scratchbook::content::{Blob, Part};
use scratchbook::{Error, Result, SessionKey, plan};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::AdkError;
use super::artifact_path::{ArtifactPathTail, ArtifactTarget};
use super::body::{JsonBody, SaveArtifactRequest};
use crate::access::Caller;
use crate::answers::{self, too_large};
use crate::app_state::AppState;
use crate::scope::SessionScope;
use crate::wire_names::SEGMENT;

/// Returns the routes.
pub(super) fn routes() -> Router<AppState> {
    let artifact = get(read).delete(delete);
    Router::new()
        .route("/apps/{app}/users/{user}/sessions/{session}/artifacts", get(list).post(save))
        .route("/apps/{app}/users/{user}/sessions/{session}/artifacts/", artifact.clone())
        .route("/apps/{app}/users/{user}/sessions/{session}/artifacts/{*path}", artifact)
}

/// Returns the names of the artifacts of a session and of its user.
async fn list(scope: SessionScope<AppState, AdkError>) -> Result<Json<Vec<String>>, AdkError> {
    Ok(Json(scope.app_state.store.artifacts.list_artifacts(&scope.key).await?))
}

/// Saves a new version.
async fn save(
    scope: SessionScope<AppState, AdkError>,
    JsonBody(request): JsonBody<SaveArtifactRequest>,
) -> Result<Json<AdkArtifactVersion>, AdkError> {
    let SaveArtifactRequest { filename, mut artifact, custom_metadata } = request;
    if filename.split(['/', '\\']).any(|segment| segment == "..") {
        return Err(AdkError::bad_request(format!(
            "Artifact filename '{filename}' must not contain parent traversal."
        )));
    }
    match artifact.inline_data.as_deref_mut() {
        Some(Blob { data: None, .. }) => {
            return Err(AdkError::bad_request("Artifact inline_data must contain data."));
        }
        Some(blob) if blob.mime_type.as_deref().is_none_or(str::is_empty) => {
            blob.mime_type = Some("application/octet-stream".to_owned());
        }
        None if artifact.text.is_none() => {
            return Err(AdkError::bad_request("Artifact must have either inline_data or text content."));
        }
        _ => {}
    }
    let artifacts = &scope.app_state.store.artifacts;
    let version = artifacts.save_artifact(&scope.key, &filename, artifact, custom_metadata.unwrap_or_default()).await?;
    let artifacts = SessionArtifacts { app_state: &scope.app_state, key: &scope.key };
    let described = artifacts.describe(&filename, WantedVersion::Number(version)).await?;
    // Another client may have deleted the artifact in between.
    Ok(Json(described.ok_or_else(|| not_found("Artifact version not found"))?))
}

/// Returns an artifact, its versions, one version, or metadata.
async fn read(
    scope: SessionScope<AppState, AdkError>,
    path: ArtifactPathTail,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, AdkError> {
    let artifacts = SessionArtifacts { app_state: &scope.app_state, key: &scope.key };
    Ok(match path.asked() {
        ArtifactTarget::Artifact { name } => {
            let wanted = match query.iter().rfind(|(key, _)| key == "version") {
                Some((_, version)) => WantedVersion::number(version).ok_or_else(|| not_an_integer(version))?,
                None => WantedVersion::Latest,
            };
            Json(artifacts.load(name, wanted).await?).into_response()
        }
        ArtifactTarget::Version { name, version } => {
            let wanted = WantedVersion::parse(version).ok_or_else(invalid_version)?;
            Json(artifacts.load(name, wanted).await?).into_response()
        }
        ArtifactTarget::Versions { name } => {
            let versions = artifacts.versions(name).await?;
            Json(versions.iter().map(|version| version.version).collect::<Vec<_>>()).into_response()
        }
        ArtifactTarget::VersionsMetadata { name } => artifacts.describe_all(name, &scope.caller).await?,
        ArtifactTarget::VersionMetadata { name, version } => {
            let wanted = WantedVersion::parse(version).ok_or_else(invalid_version)?;
            let described = artifacts.describe(name, wanted).await?;
            Json(described.ok_or_else(|| not_found("Artifact version not found"))?).into_response()
        }
    })
}

/// Deletes all versions of an artifact. Succeeds if the artifact does not exist.
async fn delete(
    scope: SessionScope<AppState, AdkError>,
    ArtifactPathTail(name): ArtifactPathTail,
) -> Result<Json<()>, AdkError> {
    if plan::check_filename(&name).is_ok() {
        scope.app_state.store.artifacts.delete_artifact(&scope.key, &name).await?;
    }
    Ok(Json(()))
}

/// The artifacts of a session. A name that is invalid for an artifact matches nothing.
struct SessionArtifacts<'a> {
    app_state: &'a AppState,
    key: &'a SessionKey,
}

impl SessionArtifacts<'_> {
    async fn load(&self, name: &str, wanted: WantedVersion) -> Result<Part, AdkError> {
        let version = match wanted {
            WantedVersion::Latest => None,
            WantedVersion::Number(version) => Some(version),
            WantedVersion::Never => return Err(not_found("Artifact not found")),
        };
        if plan::check_filename(name).is_err() {
            return Err(not_found("Artifact not found"));
        }
        let part = self.app_state.store.artifacts.load_artifact(self.key, name, version).await?;
        part.ok_or_else(|| not_found("Artifact not found"))
    }

    /// Returns the versions of an artifact without their metadata, oldest first.
    async fn versions(&self, name: &str) -> Result<Vec<ArtifactVersion>> {
        if plan::check_filename(name).is_err() {
            return Ok(Vec::new());
        }
        all_versions(self.app_state.store.artifacts.as_ref(), self.key, name).await
    }

    /// Answers with the metadata of all versions, which are read page by page.
    async fn describe_all(&self, name: &str, caller: &Caller) -> Result<Response> {
        let most = self.app_state.limits.answer_bytes;
        let mut out = b"[".to_vec();
        let mut share = self.app_state.answers.share(caller);
        let mut config = ListVersionsConfig::default();
        while plan::check_filename(name).is_ok() {
            let page = self.app_state.store.artifacts.list_artifact_versions(self.key, name, &config).await?;
            let Some(last) = page.last() else { break };
            config.from = last.version + 1;
            for version in page {
                if out.len() > 1 {
                    out.push(b',');
                }
                let version = AdkArtifactVersion::new(self.key, name, version);
                serde_json::to_writer(&mut out, &version).map_err(|e| {
                    Error::internal("the metadata of a version cannot be written as JSON").with_source(e)
                })?;
            }
            if out.len() > most {
                let instead = "list the versions page by page at \
                    /v1/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions";
                return Err(too_large(most, instead));
            }
            share.grow_to(out.len())?;
        }
        out.push(b']');
        Ok(answers::ready(out, Some(share)))
    }

    async fn describe(&self, name: &str, wanted: WantedVersion) -> Result<Option<AdkArtifactVersion>> {
        let number = match wanted {
            WantedVersion::Latest => None,
            WantedVersion::Number(number) => Some(number),
            WantedVersion::Never => return Ok(None),
        };
        if plan::check_filename(name).is_err() {
            return Ok(None);
        }
        let version = describe_version(self.app_state.store.artifacts.as_ref(), self.key, name, number).await?;
        Ok(version.map(|version| AdkArtifactVersion::new(self.key, name, version)))
    }
}

/// The version that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WantedVersion {
    Latest,
    Number(u64),
    /// A number that no version has, such as -1.
    Never,
}

impl WantedVersion {
    /// Parses a version in a path.
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" { Some(Self::Latest) } else { Self::number(text) }
    }

    /// Parses a text that Python reads as an integer.
    fn number(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // An underscore may stand between two digits.
        let is_number = digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
        if !is_number {
            return None;
        }
        let number = digits.replace('_', "").parse().ok();
        Some(number.filter(|number| !negative || *number == 0).map_or(Self::Never, Self::Number))
    }
}

/// A version, with exactly the fields of ADK's `ArtifactVersion`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AdkArtifactVersion {
    version: u64,
    canonical_uri: String,
    custom_metadata: Map<String, Value>,
    create_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

impl AdkArtifactVersion {
    fn new(key: &SessionKey, name: &str, version: ArtifactVersion) -> Self {
        Self {
            canonical_uri: canonical_uri(key, name, version.version),
            version: version.version,
            custom_metadata: version.custom_metadata,
            create_time: version.create_time,
            mime_type: version.mime_type,
        }
    }
}

/// The characters that are not encoded in a URI's path.
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// Returns the location of a version in the form of ADK's stores. The location names a row of the database, so clients
/// cannot fetch it.
fn canonical_uri(key: &SessionKey, name: &str, version: u64) -> String {
    let [app, user, session] =
        [key.app_name(), key.user_id(), key.session_id()].map(|name| utf8_percent_encode(name, SEGMENT));
    let (owner, name) = match name.strip_prefix("user:") {
        Some(name) => (format!("apps/{app}/users/{user}"), name),
        None => (format!("apps/{app}/users/{user}/sessions/{session}"), name),
    };
    format!("scratchbook://{owner}/artifacts/{}/versions/{version}", utf8_percent_encode(name, PATH))
}

fn not_found(detail: &str) -> AdkError {
    AdkError::new(StatusCode::NOT_FOUND, json!(detail))
}

/// Returns the error with which FastAPI refuses a query parameter that is not an integer.
fn not_an_integer(input: &str) -> AdkError {
    let message = "Input should be a valid integer, unable to parse string as an integer";
    let detail = json!([{"type": "int_parsing", "loc": ["query", "version"], "msg": message, "input": input}]);
    AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

fn invalid_version() -> AdkError {
    AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, json!("Invalid version ID"))
}
