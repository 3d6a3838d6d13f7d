//! Agent Engine Sessions in the document. The paths have project and location; the paths without them are otherwise the
//! same.
#![expect(dead_code, reason = "the document alone reads these")]

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use utoipa::openapi::{OpenApi, PathItem, RefOr};
use utoipa::{IntoParams, IntoResponses, OpenApi as _, ToSchema, openapi};

use crate::openapi::{StateValues, refusal};

/// The name of this part of the document.
const ENGINE: &str = "Agent Engine";

/// The versions of the API, with the suffixes of their operations' names.
const VERSIONS: [(&str, &str); 2] = [("/v1beta1", ""), ("/v1", "V1")];

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(list_sessions, create_session, get_session, update_session, delete_session, append_event, list_events, operation),
    components(schemas(GoogleRefusal)),
    tags((name = ENGINE, description = "The API of Vertex AI's Agent Engine Sessions, for Google's own clients. An engine \
        is an app. Project and location appear only in resource names and may be left out: `/v1beta1/reasoningEngines/...` \
        and `/v1/reasoningEngines/...` work as well."))
)]
struct VertexDocument;

/// The part of the OpenAPI document for Vertex AI's surface.
pub(crate) fn document() -> OpenApi {
    let mut document = VertexDocument::openapi();
    document.paths.paths.clear();
    VERSIONS.iter().fold(document, |document, (folder, end)| {
        let mut version = VertexDocument::openapi();
        version.paths.paths.values_mut().for_each(|item| name(item, end));
        document.nest(*folder, version)
    })
}

/// Appends a version's suffix to the name of each operation.
fn name(item: &mut PathItem, end: &str) {
    for operation in [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten() {
        if let Some(id) = &mut operation.operation_id {
            id.push_str(end);
        }
    }
}

/// An error in Google's form.
#[derive(ToSchema)]
#[schema(example = json!({"error": {"code": 404, "message": "there is no session s1", "status": "NOT_FOUND"}}))]
struct GoogleRefusal {
    /// The error.
    error: GoogleStatus,
}

/// An error, in the form of `google.rpc.Status`.
#[derive(ToSchema)]
struct GoogleStatus {
    /// The HTTP status of the response.
    code: u16,
    /// A message for people, which says what was wrong and what would be right.
    message: String,
    /// The name of the `google.rpc.Code`.
    status: String,
}

/// The errors of a request.
struct VertexErrors;

const REFUSALS: [(&str, &str); 11] = [
    ("400", "The request is invalid, or the session is not in a state that allows it."),
    ("401", "The token is missing or unknown."),
    ("403", "The token lacks the right that this operation needs."),
    ("404", "The engine, session or operation does not exist, or the token does not allow access to it."),
    ("408", "The body did not arrive in time."),
    ("409", "It already exists, or another writer committed first."),
    ("413", "The body, a part of it, or the response is too large."),
    ("429", "A queue is full or a limit is reached; try again later."),
    ("500", "The server has a defect, or stored data is damaged."),
    ("501", "The store does not support this operation."),
    ("503", "The store cannot be reached or cannot write at the moment."),
];

impl IntoResponses for VertexErrors {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        REFUSALS.into_iter().map(|(status, what)| refusal(status, what, "GoogleRefusal", None)).collect()
    }
}

/// An engine.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct EnginePath {
    /// The project. It appears only in resource names.
    #[param(example = "my-project", min_length = 1)]
    project: String,
    /// The location. It appears only in resource names.
    #[param(example = "us-central1", min_length = 1)]
    location: String,
    /// The engine's id, which is the name of the app.
    #[param(example = "shop", min_length = 1)]
    app: String,
}

/// A session of an engine.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct EngineSessionPath {
    /// The project. It appears only in resource names.
    #[param(example = "my-project", min_length = 1)]
    project: String,
    /// The location. It appears only in resource names.
    #[param(example = "us-central1", min_length = 1)]
    location: String,
    /// The engine's id, which is the name of the app.
    #[param(example = "shop", min_length = 1)]
    app: String,
    /// The session's id.
    #[param(example = "s1", min_length = 1)]
    session: String,
}

/// An operation.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OperationPath {
    /// The operation's number.
    #[param(example = "5239567565414647720", min_length = 1)]
    operation: String,
}

/// The session's id.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct NewId {
    /// The id of the session. It consists of letters, digits, `-` and `_`. If it is absent, the server generates one.
    #[param(required = false, example = "s1")]
    session_id: String,
}

/// The fields to change.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct Mask {
    /// The fields to change, separated by commas. If it is absent, all fields in the body are changed.
    #[param(required = false, example = "displayName")]
    update_mask: String,
}

/// The page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct PageParams {
    /// The maximum number of items in a page, at most 1,000. The default is 100.
    #[param(required = false, minimum = 0)]
    page_size: i32,
    /// The `nextPageToken` of the previous page.
    #[param(required = false)]
    page_token: String,
    /// A filter. Its conditions are `user_id="U"`, `display_name="T"` and `labels.NAME="V"` for sessions, and
    /// `timestamp>="T"` for events. `AND` joins several conditions.
    #[param(required = false)]
    filter: String,
    /// The order: `update_time` or `create_time` for sessions, `timestamp` for events. Append ` desc` for the
    /// descending order.
    #[param(required = false)]
    order_by: String,
}

/// A session of an engine.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"userId": "alice", "displayName": "Groceries", "sessionState": {"cart": {}}}))]
struct EngineSession {
    /// The full resource name.
    #[schema(required = false, read_only)]
    name: Option<String>,
    /// The user. Required to create a session.
    #[schema(required = false)]
    user_id: Option<String>,
    /// The session's title, for people.
    #[schema(required = false)]
    display_name: Option<String>,
    /// The session's labels, for programs.
    #[schema(required = false)]
    labels: Option<HashMap<String, String>>,
    /// The merged state: keys of the session, and keys of the user and the app with their prefixes.
    #[schema(required = false)]
    session_state: Option<StateValues>,
    /// The time at which the session expires, as a timestamp of RFC 3339.
    #[schema(required = false)]
    expire_time: Option<String>,
    /// The time until the session expires, as in `3600s`. Send this or `expireTime`.
    #[schema(required = false, write_only)]
    ttl: Option<String>,
    /// The time of the creation, as a timestamp of RFC 3339.
    #[schema(required = false, read_only)]
    create_time: Option<String>,
    /// The time of the last event, as a timestamp of RFC 3339.
    #[schema(required = false, read_only)]
    update_time: Option<String>,
}

/// An event of a session.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "author": "user", "invocationId": "i1", "timestamp": "2026-11-20T17:10:23Z",
    "content": {"role": "user", "parts": [{"text": "Hello"}]}, "actions": {"stateDelta": {"greeted": true}},
}))]
struct SessionEvent {
    /// The full resource name.
    #[schema(required = false, read_only)]
    name: Option<String>,
    /// `user`, or the name of the agent.
    author: String,
    /// The id of the run that the event belongs to.
    #[schema(required = false)]
    invocation_id: Option<String>,
    /// The time of the event, as a timestamp of RFC 3339.
    timestamp: String,
    /// The message, function calls or function responses.
    #[schema(required = false)]
    content: Option<HashMap<String, Value>>,
    /// The effects of the event: `stateDelta`, `artifactDelta`, `transferAgent`, `escalate` and others.
    #[schema(required = false)]
    actions: Option<HashMap<String, Value>>,
    /// The kind of the failure that ended the run.
    #[schema(required = false)]
    error_code: Option<String>,
    /// A description of the failure.
    #[schema(required = false)]
    error_message: Option<String>,
    /// Further fields of the event: `partial`, `branch`, `customMetadata` and others.
    #[schema(required = false)]
    event_metadata: Option<HashMap<String, Value>>,
    /// The whole event in ADK's form.
    #[schema(required = false)]
    raw_event: Option<HashMap<String, Value>>,
}

/// A page of sessions.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessions": [{"name": "reasoningEngines/shop/sessions/s1", "userId": "alice"}]}))]
struct ListEngineSessionsResponse {
    /// The sessions. Absent if there are none.
    #[schema(required = false)]
    sessions: Vec<EngineSession>,
    /// The token of the next page. Absent on the last page.
    #[schema(required = false)]
    next_page_token: String,
}

/// A page of events.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessionEvents": [{"author": "user", "timestamp": "2026-11-20T17:10:23Z"}]}))]
struct ListEventsResponse {
    /// The events. Absent if there are none.
    #[schema(required = false)]
    session_events: Vec<SessionEvent>,
    /// The token of the next page. Absent on the last page.
    #[schema(required = false)]
    next_page_token: String,
}

/// A long-running operation in Google's form. In this server, every operation is already done.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "name": "reasoningEngines/shop/sessions/s1/operations/1", "metadata": {}, "done": true, "response": {},
}))]
struct EngineOperation {
    /// The full resource name.
    name: String,
    /// The type and time of the operation.
    metadata: HashMap<String, Value>,
    /// Always true.
    done: bool,
    /// The result: a session, or an empty object.
    response: HashMap<String, Value>,
}

/// List the sessions of an engine, page by page.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions",
    operation_id = "listEngineSessions", tag = ENGINE, params(EnginePath, PageParams),
    responses((status = 200, description = "One page of sessions.", body = ListEngineSessionsResponse), VertexErrors)
)]
fn list_sessions() {}

/// Create a session.
#[utoipa::path(
    post, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions",
    operation_id = "createEngineSession", tag = ENGINE, params(EnginePath, NewId), request_body = EngineSession,
    responses((status = 200, description = "The operation, with the new session as its response.", body = EngineOperation), VertexErrors)
)]
fn create_session() {}

/// Read a session.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "getEngineSession", tag = ENGINE, params(EngineSessionPath),
    responses((status = 200, description = "The session.", body = EngineSession), VertexErrors)
)]
fn get_session() {}

/// Change a session.
#[utoipa::path(
    patch, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "updateEngineSession", tag = ENGINE, params(EngineSessionPath, Mask), request_body = EngineSession,
    responses((status = 200, description = "The session.", body = EngineSession), VertexErrors)
)]
fn update_session() {}

/// Delete a session with its events.
#[utoipa::path(
    delete, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "deleteEngineSession", tag = ENGINE, params(EngineSessionPath),
    responses((
        status = 200, description = "The operation, with an empty response.", body = EngineOperation
    ), VertexErrors)
)]
fn delete_session() {}

/// Append an event to a session.
#[utoipa::path(
    post, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}:appendEvent",
    operation_id = "appendEngineEvent", tag = ENGINE, params(EngineSessionPath), request_body = SessionEvent,
    responses((
        status = 200, description = "The event is appended.", body = HashMap<String, Value>, example = json!({}),
    ), VertexErrors)
)]
fn append_event() {}

/// List the events of a session, page by page.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/events",
    operation_id = "listEngineEvents", tag = ENGINE, params(EngineSessionPath, PageParams),
    responses((status = 200, description = "One page of events.", body = ListEventsResponse), VertexErrors)
)]
fn list_events() {}

/// Read an operation.
#[utoipa::path(
    get,
    path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/operations/{operation}",
    operation_id = "getEngineOperation", tag = ENGINE, params(EngineSessionPath, OperationPath),
    responses((status = 200, description = "The operation.", body = EngineOperation), VertexErrors)
)]
fn operation() {}
