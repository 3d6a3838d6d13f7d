//! ADK's surface in the OpenAPI document: the requests and answers of its routes. The models are those of google-adk's
//! own document, with the fields that clients use.
#![expect(dead_code, reason = "the document alone reads these")]

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use utoipa::openapi::{ContentBuilder, OpenApi, RefOr, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, OpenApi as _, ToSchema, openapi};

use super::body::{
    ArtifactPart, CreateSessionRequest, RunAgentRequest, SaveArtifactRequest, UpdateMemoryRequest, UpdateSessionRequest,
};
use crate::openapi::path::{AppPath, SessionPath, UserPath};
use crate::openapi::{EventSchema, StateValues, StreamEvent, refusal};

/// The name of this part of the document.
const ADK: &str = "ADK";

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(
        run, run_sse, list_apps, app_info, list_sessions, create_session, get_session, create_session_with_id,
        update_session, delete_session, list_artifacts, save_artifact, load_artifact, delete_artifact, list_versions,
        load_version, describe_versions, describe_version, update_memory, version,
    ),
    components(schemas(AdkRefusal)),
    tags((name = ADK, description = "The API of google-adk's `adk api_server`, version 2.13, for its \
        clients. Unknown fields are ignored, as in google-adk. In events and parts, every field may be \
        written in camelCase or snake_case."))
)]
struct AdkDocument;

/// The part of the OpenAPI document for ADK's surface.
pub(crate) fn document() -> OpenApi {
    AdkDocument::openapi()
}

/// An error in ADK's form.
#[derive(ToSchema)]
#[schema(example = json!({"detail": "Session not found"}))]
struct AdkRefusal {
    /// The reason of the error. If the body does not have the required form, this is a list with one entry for each
    /// mistake.
    detail: Value,
}

/// The errors of a request.
struct AdkErrors;

const REFUSALS: [(&str, &str); 11] = [
    ("400", "The request is invalid, or asks for something that this server does not have."),
    ("401", "The token is missing or unknown."),
    ("403", "The token lacks a right, the name is reserved, or the request comes from a page of another origin."),
    ("404", "The app, session or artifact does not exist, or the token does not allow access to it."),
    ("408", "The body did not arrive in time."),
    ("409", "It already exists, or another writer committed first."),
    ("413", "The body, a part of it, or the response is too large."),
    ("422", "The body or a parameter does not have the required form."),
    ("429", "A queue is full or a limit is reached; try again later."),
    ("501", "The store does not support this operation."),
    ("503", "The store cannot be reached or cannot write at the moment."),
];

impl IntoResponses for AdkErrors {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let text = ContentBuilder::new()
            .schema(Some(<String as utoipa::PartialSchema>::schema()))
            .example(Some(json!("Internal Server Error")))
            .build();
        let what = "The server has a defect, stored data is damaged, or the agent failed.";
        let failed = ResponseBuilder::new().description(what).content("text/plain", text).build();
        REFUSALS
            .into_iter()
            .map(|(status, what)| refusal(status, what, "AdkRefusal", None))
            .chain([("500".to_owned(), failed.into())])
            .collect()
    }
}

/// The versions of the server and of its language.
#[derive(ToSchema)]
#[schema(example = json!({
    "version": "2.13.0-compatible (scratchbook 0.1.0)", "language": "rust", "language_version": "1.92.0",
}))]
struct Version {
    /// The version of google-adk that this server is compatible with, and its own version.
    version: String,
    /// `rust`.
    language: String,
    /// The version of the Rust compiler.
    language_version: String,
}

/// An app that is hosted.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "name": "demo", "rootAgentName": "assistant", "description": "", "language": "yaml", "isComputerUse": false,
    "agents": {"assistant": {
        "name": "assistant", "description": "", "instruction": "Help.", "tools": [], "sub_agents": [],
    }},
}))]
struct AppInfo {
    /// The app.
    name: String,
    /// The agent that starts each run.
    root_agent_name: String,
    /// The description of that agent.
    description: String,
    /// How the agent is defined: `rust` for code, `yaml` for a file.
    language: String,
    /// Whether the agent controls a computer. Always false.
    is_computer_use: bool,
    /// The LLM agents of the app by name. `null` in lists.
    #[schema(required = false)]
    agents: Option<HashMap<String, AgentInfo>>,
}

/// An agent of an app.
#[derive(ToSchema)]
struct AgentInfo {
    /// Its name.
    name: String,
    /// Its description.
    description: String,
    /// Its instruction as written, with its placeholders.
    instruction: String,
    /// Its tools, as declared to the model.
    tools: Vec<HashMap<String, Value>>,
    /// The names of its sub-agents.
    sub_agents: Vec<String>,
}

/// The names of the apps, or their details.
#[derive(ToSchema)]
#[serde(untagged)]
enum AppList {
    /// Their names.
    Names(Vec<String>),
    /// The details of each.
    Detailed(ListAppsResponse),
}

/// The details of all apps.
#[derive(ToSchema)]
struct ListAppsResponse {
    /// The apps.
    apps: Vec<AppInfo>,
}

/// The query of a list of apps.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
struct ListAppsParams {
    /// Whether to return details and not only names.
    #[param(required = false, default = false)]
    detailed: bool,
}

/// A session with its events.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "s1", "appName": "demo", "userId": "alice", "state": {"cart": {"milk": 2}, "user:language": "en"},
    "events": [], "lastUpdateTime": 1795194011.59,
}))]
struct AdkSession {
    /// The session's id, unique among the user's sessions.
    id: String,
    /// The app.
    app_name: String,
    /// The user.
    user_id: String,
    /// The merged state: keys of the session, and keys of the user and the app with their prefixes.
    state: StateValues,
    /// Its events, in the order in which they were appended.
    events: Vec<EventSchema>,
    /// The time of the last event, or of the creation if there is no event, in seconds since 1970.
    last_update_time: f64,
}

/// The query of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
struct ReadAdkSession {
    /// Return only this many of the latest events. This is necessary if the whole session is too large for one
    /// response.
    #[param(minimum = 0, required = false)]
    num_recent_events: u64,
}

/// The metadata of a version of an artifact.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArtifactVersion)]
#[schema(example = json!({
    "version": 0, "canonicalUri": "scratchbook://apps/demo/users/alice/sessions/s1/artifacts/a.csv/versions/0",
    "customMetadata": {}, "createTime": 1767225600.0, "mimeType": "text/csv",
}))]
struct ArtifactVersionSchema {
    /// The version. The first one is 0.
    version: u64,
    /// The address of this version. It names a row of the store and cannot be downloaded.
    canonical_uri: String,
    /// The metadata that was saved with it.
    custom_metadata: HashMap<String, Value>,
    /// The time at which the version was saved, in seconds since 1970.
    create_time: f64,
    /// The content type of the version. Absent for text.
    #[schema(required = false)]
    mime_type: Option<String>,
}

/// An artifact of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct NamePath {
    /// The artifact's name, which may contain slashes. A name that begins with `user:` is an artifact of the user.
    #[param(example = "receipt.txt", min_length = 1)]
    artifact: String,
}

/// A version of an artifact.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct VersionPath {
    /// The artifact's name, which may contain slashes. A name that begins with `user:` is an artifact of the user.
    #[param(example = "receipt.txt", min_length = 1)]
    artifact: String,
    /// The version, or `latest`. The first version is 0.
    #[param(example = "0", min_length = 1)]
    version: String,
}

/// Which version is read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
struct ReadVersion {
    /// The version. The first one is 0. If it is absent, the newest version is read.
    #[param(required = false)]
    version: i64,
}

/// Show the version of the server.
#[utoipa::path(
    get, path = "/version", operation_id = "adkVersion", tag = ADK,
    responses((status = 200, description = "The version of the server.", body = Version), AdkErrors)
)]
fn version() {}

/// List the apps that the token may use.
#[utoipa::path(
    get, path = "/list-apps", operation_id = "adkListApps", tag = ADK, params(ListAppsParams),
    responses((
        status = 200, description = "The names of the apps, or their details.", body = AppList, example = json!(["demo"]),
    ), AdkErrors)
)]
fn list_apps() {}

/// Show the details of an app and its agents.
#[utoipa::path(
    get, path = "/apps/{app}/app-info", operation_id = "adkAppInfo", tag = ADK, params(AppPath),
    responses((status = 200, description = "The details of the app.", body = AppInfo), AdkErrors)
)]
fn app_info() {}

/// List the sessions of a user, without their events.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions", operation_id = "adkListSessions", tag = ADK, params(UserPath),
    responses((
        status = 200, description = "All sessions of the user, the least recently updated first.", body = Vec<AdkSession>,
        example = json!([{"id": "s1", "appName": "demo", "userId": "alice", "state": {}, "events": [], "lastUpdateTime": 1.5}]),
    ), AdkErrors)
)]
fn list_sessions() {}

/// Create a session, optionally with state and events.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions", operation_id = "adkCreateSession", tag = ADK, params(UserPath),
    request_body = CreateSessionRequest,
    responses((status = 200, description = "The session.", body = AdkSession), AdkErrors)
)]
fn create_session() {}

/// Read a session with its events.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "adkGetSession", tag = ADK,
    params(SessionPath, ReadAdkSession),
    responses((status = 200, description = "The session.", body = AdkSession), AdkErrors)
)]
fn get_session() {}

/// Create a session with the given id. The body is the initial state.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "adkCreateSessionWithId", tag = ADK,
    params(SessionPath),
    request_body(content = HashMap<String, Value>, content_type = "application/json", example = json!({"cart": {}})),
    responses((status = 200, description = "The session.", body = AdkSession), AdkErrors)
)]
fn create_session_with_id() {}

/// Change a session's state. The change is stored as an event with the author `user`.
#[utoipa::path(
    patch, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "adkUpdateSession", tag = ADK,
    params(SessionPath), request_body = UpdateSessionRequest,
    responses((status = 200, description = "The session.", body = AdkSession), AdkErrors)
)]
fn update_session() {}

/// Delete a session with its events and its own state.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "adkDeleteSession", tag = ADK,
    params(SessionPath),
    responses((status = 200, description = "It was deleted, or it did not exist. The body is `null`.", body = Value, example = json!({})), AdkErrors)
)]
fn delete_session() {}

/// Add a session to long-term memory.
///
/// This server has no memory service and refuses every request.
#[utoipa::path(
    patch, path = "/apps/{app}/users/{user}/memory", operation_id = "adkUpdateMemory", tag = ADK, params(UserPath),
    request_body = UpdateMemoryRequest, responses(AdkErrors)
)]
fn update_memory() {}

/// List the artifacts of a session and of its user.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts", operation_id = "adkListArtifacts", tag = ADK,
    params(SessionPath),
    responses((status = 200, description = "The names of the artifacts.", body = Vec<String>, example = json!(["receipt.txt"])), AdkErrors)
)]
fn list_artifacts() {}

/// Save a new version of an artifact.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts", operation_id = "adkSaveArtifact", tag = ADK,
    params(SessionPath), request_body = SaveArtifactRequest,
    responses((status = 200, description = "The metadata of the new version.", body = ArtifactVersionSchema), AdkErrors)
)]
fn save_artifact() {}

/// Load an artifact.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}", operation_id = "adkLoadArtifact",
    tag = ADK, params(SessionPath, NamePath, ReadVersion),
    responses((status = 200, description = "The artifact.", body = ArtifactPart), AdkErrors)
)]
fn load_artifact() {}

/// Delete an artifact with all of its versions.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}",
    operation_id = "adkDeleteArtifact", tag = ADK, params(SessionPath, NamePath),
    responses((status = 200, description = "It was deleted, or it did not exist. The body is `null`.", body = Value, example = json!({})), AdkErrors)
)]
fn delete_artifact() {}

/// List the versions of an artifact.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions",
    operation_id = "adkListArtifactVersions", tag = ADK, params(SessionPath, NamePath),
    responses((status = 200, description = "The numbers of the versions.", body = Vec<u64>, example = json!([0, 1])), AdkErrors)
)]
fn list_versions() {}

/// Load a version of an artifact.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions/{version}",
    operation_id = "adkLoadArtifactVersion", tag = ADK, params(SessionPath, VersionPath),
    responses((status = 200, description = "The artifact.", body = ArtifactPart), AdkErrors)
)]
fn load_version() {}

/// List the metadata of an artifact's versions.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions/metadata",
    operation_id = "adkDescribeArtifactVersions", tag = ADK, params(SessionPath, NamePath),
    responses((
        status = 200, description = "The metadata of each version.", body = Vec<ArtifactVersionSchema>,
        example = json!([]),
    ), AdkErrors)
)]
fn describe_versions() {}

/// Show the metadata of a version of an artifact.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions/{version}/metadata",
    operation_id = "adkDescribeArtifactVersion", tag = ADK, params(SessionPath, VersionPath),
    responses((status = 200, description = "The metadata of the version.", body = ArtifactVersionSchema), AdkErrors)
)]
fn describe_version() {}

/// Run an agent in a session and return all events when the run has ended.
#[utoipa::path(
    post, path = "/run", operation_id = "adkRun", tag = ADK, request_body = RunAgentRequest,
    responses((
        status = 200, description = "The events of the run, in order.", body = Vec<EventSchema>, example = json!([{
            "id": "e-0d8f2c", "invocationId": "e-6a1b", "author": "assistant", "timestamp": 1795416600.25,
            "content": {"role": "model", "parts": [{"text": "Done. In your cart: 2 x apples."}]},
            "actions": {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
        }]),
    ), AdkErrors)
)]
fn run() {}

/// Run an agent in a session and stream its events while it runs.
#[utoipa::path(
    post, path = "/run_sse", operation_id = "adkRunSse", tag = ADK, request_body = RunAgentRequest,
    responses((
        status = 200, description = "The events, each as the `data` of a server-sent event.", body = StreamEvent,
        content_type = "text/event-stream", example = json!("data: {\"author\": \"assistant\"}\n\n"),
    ), AdkErrors)
)]
fn run_sse() {}
