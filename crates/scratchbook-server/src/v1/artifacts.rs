//! Artifacts: listed, read and written as the bytes they are.

use axum::Json;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use scratchbook::artifact::{ArtifactVersion, ListVersionsConfig, describe_version};
use scratchbook::content::Part;
use scratchbook::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::error::{ReadErrors, WriteRefusals};
use super::request::{BytesBody as Sent, NoQuery, Paged, PathArtifact, Query, page_size};
use super::{ARTIFACTS, ApiError, JsonAnswer, SessionScope};
use crate::openapi::path::{ArtifactPath, SessionPath};

/// The content type of data that is sent without a content type.
const UNKNOWN: &str = "application/octet-stream";

/// Which version is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadArtifact {
    /// The version. The first one is 0. If it is absent, the newest version is read.
    version: Option<u64>,
}

/// The bytes of an artifact.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary, example = "2 x apples")]
pub(super) struct Data(#[expect(dead_code, reason = "the document alone reads it")] Vec<u8>);

/// A page of names.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"names": ["receipt.txt", "user:photo.png"], "nextPageToken": null}))]
pub(super) struct ArtifactPage {
    /// The names, in byte order. The names of the user's artifacts begin with `user:`.
    names: Vec<String>,
    /// The token of the next page. `null` on the last page.
    next_page_token: Option<String>,
}

/// A page of versions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "versions": [{"version": 0, "mimeType": "text/csv", "customMetadata": {}, "createTime": 1767225600.0}],
    "nextPageToken": null,
}))]
pub(super) struct VersionPage {
    /// The versions, oldest first.
    versions: Vec<ArtifactVersionBody>,
    /// The token of the next page. `null` on the last page.
    next_page_token: Option<String>,
}

/// The metadata of a version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VersionBody)]
#[schema(example = json!({"version": 0, "mimeType": "text/csv", "customMetadata": {}, "createTime": 1767225600.0}))]
pub(super) struct ArtifactVersionBody {
    /// The version. The first one is 0.
    version: u64,
    /// The content type of the version. `null` for text.
    mime_type: Option<String>,
    /// The metadata that was saved with it.
    #[schema(value_type = std::collections::BTreeMap<String, Value>)]
    custom_metadata: Map<String, Value>,
    /// The time at which the version was saved, in seconds since 1970.
    create_time: f64,
}

impl From<ArtifactVersion> for ArtifactVersionBody {
    fn from(version: ArtifactVersion) -> Self {
        Self {
            version: version.version,
            mime_type: version.mime_type,
            custom_metadata: version.custom_metadata,
            create_time: version.create_time,
        }
    }
}

/// List the artifacts of a session and of its user.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts", operation_id = "listArtifacts",
    tag = ARTIFACTS, params(SessionPath, Paged),
    responses((status = 200, description = "One page of names.", body = ArtifactPage), ReadErrors)
)]
pub(super) async fn list(scope: SessionScope, Query(query): Query<Paged>) -> JsonAnswer<ArtifactPage> {
    let size = page_size("pageSize", query.page_size)?;
    let names = scope.app_state.store.artifacts.list_artifacts(&scope.key).await?;
    let first = query.page_token.map_or(0, |last| names.partition_point(|name| *name <= last));
    let (names, more) = page(names, first, size);
    let next_page_token = more.then(|| names.last().cloned()).flatten();
    Ok(Json(ArtifactPage { names, next_page_token }))
}

/// List the versions of an artifact.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions",
    operation_id = "listArtifactVersions", tag = ARTIFACTS, params(SessionPath, ArtifactPath, Paged),
    responses((status = 200, description = "One page of versions.", body = VersionPage), ReadErrors)
)]
pub(super) async fn versions(
    scope: SessionScope,
    PathArtifact(name): PathArtifact,
    Query(query): Query<Paged>,
) -> JsonAnswer<VersionPage> {
    let size = page_size("pageSize", query.page_size)?;
    let after = query.page_token.map(|token| number(&token)).transpose()?;
    let config = ListVersionsConfig::default().with_from(after.map_or(0, |after| after.saturating_add(1)));
    let artifacts = &scope.app_state.store.artifacts;
    let versions = artifacts.list_artifact_versions(&scope.key, &name, &config.with_limit(size)).await?;
    if versions.is_empty() && after.is_none() {
        return Err(missing(&name).into());
    }
    // A page may end before its size, because of the bytes of the metadata.
    let next_page_token = match versions.last() {
        Some(last) => {
            let next = config.with_from(last.version + 1).with_limit(1).without_metadata();
            let more = artifacts.list_artifact_versions(&scope.key, &name, &next).await?;
            (!more.is_empty()).then(|| last.version.to_string())
        }
        None => None,
    };
    Ok(Json(VersionPage { versions: versions.into_iter().map(ArtifactVersionBody::from).collect(), next_page_token }))
}

/// Download an artifact.
///
/// The response has the bytes and the content type that were saved. Text is UTF-8. A browser saves the response as a
/// file and does not show it as a page.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", operation_id = "getArtifact",
    tag = ARTIFACTS, params(SessionPath, ArtifactPath, ReadArtifact),
    responses((status = 200, description = "The data.", body = Data, content_type = "*/*"), ReadErrors)
)]
pub(super) async fn get(
    scope: SessionScope,
    PathArtifact(name): PathArtifact,
    Query(query): Query<ReadArtifact>,
) -> Result<Response, ApiError> {
    let part = scope.app_state.store.artifacts.load_artifact(&scope.key, &name, query.version).await?;
    let (kind, data) = match part.ok_or_else(|| missing(&name))? {
        Part { inline_data: Some(blob), .. } => (blob.mime_type.unwrap_or_default(), blob.data.unwrap_or_default()),
        Part { text: Some(text), .. } => ("text/plain; charset=utf-8".to_owned(), text.into_bytes()),
        _ => {
            let message = format!("the artifact '{name}' has no data here, only the address of a file elsewhere");
            return Err(Error::new(ErrorKind::FailedPrecondition, message).into());
        }
    };
    let kind = HeaderValue::try_from(kind).ok().filter(|kind| !kind.is_empty());
    let file = name.strip_prefix("user:").unwrap_or(&name).rsplit(['/', '\\']).next().unwrap_or_default();
    let saved = format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(file, NON_ALPHANUMERIC));
    // An artifact is never to be shown as a page of this server.
    let headers = [
        (CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static(UNKNOWN))),
        (CONTENT_DISPOSITION, HeaderValue::try_from(saved).unwrap_or(HeaderValue::from_static("attachment"))),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, data).into_response())
}

/// Save a new version of an artifact.
///
/// The body is the data, and its content type is stored with it. If the name begins with `user:`, all sessions of the
/// user share the artifact.
#[utoipa::path(
    put, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", operation_id = "saveArtifact",
    tag = ARTIFACTS, params(SessionPath, ArtifactPath), request_body(content = Data, content_type = UNKNOWN),
    responses((status = 201, description = "The metadata of the version.", body = ArtifactVersionBody), WriteRefusals)
)]
pub(super) async fn save(
    scope: SessionScope,
    PathArtifact(name): PathArtifact,
    _: NoQuery,
    headers: HeaderMap,
    Sent(data): Sent,
) -> Result<impl IntoResponse, ApiError> {
    let kind = match headers.get(CONTENT_TYPE) {
        Some(kind) => kind.to_str().map_err(|_| Error::invalid("the content type is not of plain text"))?,
        None => UNKNOWN,
    };
    let part = Part::bytes(data, kind);
    let artifacts = &scope.app_state.store.artifacts;
    let version = artifacts.save_artifact(&scope.key, &name, part, Map::new()).await?;
    let saved = describe_version(artifacts.as_ref(), &scope.key, &name, Some(version)).await?;
    let saved = saved.ok_or_else(|| missing(&name))?;
    Ok((StatusCode::CREATED, Json(ArtifactVersionBody::from(saved))))
}

/// Delete all versions of an artifact.
///
/// If the artifact does not exist, the response is the same.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", operation_id = "deleteArtifact",
    tag = ARTIFACTS, params(SessionPath, ArtifactPath),
    responses((status = 204, description = "The artifact is deleted, or it did not exist."), ReadErrors)
)]
pub(super) async fn delete(
    scope: SessionScope,
    PathArtifact(name): PathArtifact,
    _: NoQuery,
) -> Result<StatusCode, ApiError> {
    scope.app_state.store.artifacts.delete_artifact(&scope.key, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no artifact '{name}' of that version in the session"))
}

fn number(token: &str) -> Result<u64> {
    token.parse().map_err(|_| Error::invalid(format!("pageToken is '{token}'; it is the nextPageToken of a page")))
}

/// A page of the items, beginning with the one at index `first`, and whether there are more.
fn page<T>(mut all: Vec<T>, first: usize, size: usize) -> (Vec<T>, bool) {
    let mut page = all.split_off(first);
    let more = page.len() > size;
    page.truncate(size);
    (page, more)
}
