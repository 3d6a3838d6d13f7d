//! Agent Engine Sessions in the document, with project and location; without them the paths are the same.
#![expect(dead_code, reason = "the document alone reads these")]

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use utoipa::openapi::{ContentBuilder, OpenApi, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, OpenApi as _, ToSchema, openapi};

use crate::openapi::StateValues;

/// The part of the document that this is.
const ENGINE: &str = "Agent Engine";

/// The versions of the API, with what the names of their operations end in.
const VERSIONS: [(&str, &str); 2] = [("/v1beta1", ""), ("/v1", "V1")];

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(list_sessions, create_session, get_session, update_session, delete_session, append_event, list_events, operation),
    components(schemas(GoogleRefusal)),
    tags((name = ENGINE, description = "Agent Engine Sessions of Vertex AI, for Google's own clients. An engine is an app; \
        project and location stand in names alone, and may be left out: `/v1beta1/reasoningEngines/...` and \
        `/v1/reasoningEngines/...` are the same."))
)]
struct Parts;

/// The part of the document.
pub(crate) fn document() -> OpenApi {
    let mut document = Parts::openapi();
    document.paths.paths.clear();
    VERSIONS.iter().fold(document, |document, (folder, end)| {
        let mut version = Parts::openapi();
        version.paths.paths.values_mut().for_each(|item| name(item, end));
        document.nest(*folder, version)
    })
}

/// Gives each operation a name of its version's own.
fn name(item: &mut PathItem, end: &str) {
    for operation in [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten() {
        if let Some(id) = &mut operation.operation_id {
            id.push_str(end);
        }
    }
}

/// What went wrong, in Google's form.
#[derive(ToSchema)]
#[schema(example = json!({"error": {"code": 404, "message": "there is no session s1", "status": "NOT_FOUND"}}))]
struct GoogleRefusal {
    /// What it is.
    error: GoogleStatus,
}

/// An error of Google's.
#[derive(ToSchema)]
struct GoogleStatus {
    /// The status of the answer.
    code: u16,
    /// What was wrong and what would be right, for people.
    message: String,
    /// The name of a `google.rpc.Code`.
    status: String,
}

/// What a request may be refused with.
struct Refusals;

const REFUSALS: [(&str, &str); 11] = [
    ("400", "What was sent can never be right, or the session is not in a state for it."),
    ("401", "No token, or none that lets in."),
    ("403", "The token's rights are not enough."),
    ("404", "There is no such engine, session or operation, or it is not yours to see."),
    ("408", "The body did not come in the time that it may take."),
    ("409", "It is there already, or somebody was faster."),
    ("413", "The answer would be too large, or the body is, or something in it."),
    ("429", "A queue or a limit is full."),
    ("500", "A defect, or stored data that cannot be read."),
    ("501", "This store cannot do it."),
    ("503", "The store cannot be reached, or cannot write, just now."),
];

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let refusal = |(status, what): (&str, &str)| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("GoogleRefusal"))).build();
            let response = ResponseBuilder::new().description(what).content("application/json", content).build();
            (status.to_owned(), response.into())
        };
        REFUSALS.into_iter().map(refusal).collect()
    }
}

/// An engine.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct EnginePath {
    /// The project; it only appears in names.
    #[param(example = "my-project", min_length = 1)]
    project: String,
    /// The location; it only appears in names.
    #[param(example = "us-central1", min_length = 1)]
    location: String,
    /// The engine's id: the app.
    #[param(example = "shop", min_length = 1)]
    app: String,
}

/// A session of an engine.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct EngineSessionPath {
    /// The project; it only appears in names.
    #[param(example = "my-project", min_length = 1)]
    project: String,
    /// The location; it only appears in names.
    #[param(example = "us-central1", min_length = 1)]
    location: String,
    /// The engine's id: the app.
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
    /// The id of the session; absent, one is made. Letters, digits, `-` and `_`.
    #[param(required = false, example = "s1")]
    session_id: String,
}

/// What is changed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct Mask {
    /// The fields that are changed, between commas; absent, those that are sent.
    #[param(required = false, example = "displayName")]
    update_mask: String,
}

/// A page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct Page {
    /// How many at most in a page: 100 if not given, 1,000 at most.
    #[param(required = false, minimum = 0)]
    page_size: i32,
    /// The `nextPageToken` of the page before.
    #[param(required = false)]
    page_token: String,
    /// The conditions of the list: of sessions `user_id="U"`, `display_name="T"`, `labels.NAME="V"`; of events
    /// `timestamp>="T"`.
    #[param(required = false)]
    filter: String,
    /// In which order they come: of sessions by `update_time` or `create_time`, of events by `timestamp`; with ` desc` the
    /// other way round.
    #[param(required = false)]
    order_by: String,
}

/// A session of an engine.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"userId": "alice", "displayName": "Groceries", "sessionState": {"cart": {}}}))]
struct EngineSession {
    /// Its full name.
    #[schema(required = false, read_only)]
    name: Option<String>,
    /// The user; needed to make one.
    #[schema(required = false)]
    user_id: Option<String>,
    /// What people know it by.
    #[schema(required = false)]
    display_name: Option<String>,
    /// What programs find it by.
    #[schema(required = false)]
    labels: Option<HashMap<String, String>>,
    /// Its keys, and with their prefixes the user's and the app's.
    #[schema(required = false)]
    session_state: Option<StateValues>,
    /// When it expires, as a timestamp of RFC 3339.
    #[schema(required = false)]
    expire_time: Option<String>,
    /// After how many seconds it expires, as in `3600s`, in place of `expireTime`.
    #[schema(required = false, write_only)]
    ttl: Option<String>,
    /// When it was made.
    #[schema(required = false, read_only)]
    create_time: Option<String>,
    /// When its last event was appended.
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
    /// Its full name.
    #[schema(required = false, read_only)]
    name: Option<String>,
    /// `user`, or the name of the agent.
    author: String,
    /// The run that it belongs to.
    #[schema(required = false)]
    invocation_id: Option<String>,
    /// When it arose, as a timestamp of RFC 3339.
    timestamp: String,
    /// What was said, called or answered.
    #[schema(required = false)]
    content: Option<HashMap<String, Value>>,
    /// What it does beyond being said: `stateDelta`, `artifactDelta`, `transferAgent`, `escalate` and others.
    #[schema(required = false)]
    actions: Option<HashMap<String, Value>>,
    /// What kind of failure ended the run.
    #[schema(required = false)]
    error_code: Option<String>,
    /// The failure in words.
    #[schema(required = false)]
    error_message: Option<String>,
    /// `partial`, `branch`, `customMetadata` and others.
    #[schema(required = false)]
    event_metadata: Option<HashMap<String, Value>>,
    /// The whole event, as ADK has it.
    #[schema(required = false)]
    raw_event: Option<HashMap<String, Value>>,
}

/// A page of sessions.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessions": [{"name": "reasoningEngines/shop/sessions/s1", "userId": "alice"}]}))]
struct ListEngineSessionsResponse {
    /// The sessions; absent if there are none.
    #[schema(required = false)]
    sessions: Vec<EngineSession>,
    /// Asks for the next page; absent at the end.
    #[schema(required = false)]
    next_page_token: String,
}

/// A page of events.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessionEvents": [{"author": "user", "timestamp": "2026-11-20T17:10:23Z"}]}))]
struct ListEventsResponse {
    /// The events; absent if there are none.
    #[schema(required = false)]
    session_events: Vec<SessionEvent>,
    /// Asks for the next page; absent at the end.
    #[schema(required = false)]
    next_page_token: String,
}

/// An operation, which is always done.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "name": "reasoningEngines/shop/sessions/s1/operations/1", "metadata": {}, "done": true, "response": {},
}))]
struct EngineOperation {
    /// Its full name.
    name: String,
    /// Its kind and its time.
    metadata: HashMap<String, Value>,
    /// True.
    done: bool,
    /// Its result: a session, or nothing.
    response: HashMap<String, Value>,
}

/// List the sessions of an engine, page by page.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions",
    operation_id = "listEngineSessions", tag = ENGINE, params(EnginePath, Page),
    responses((status = 200, description = "A page of them.", body = ListEngineSessionsResponse), Refusals)
)]
fn list_sessions() {}

/// Make a session.
#[utoipa::path(
    post, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions",
    operation_id = "createEngineSession", tag = ENGINE, params(EnginePath, NewId), request_body = EngineSession,
    responses((status = 200, description = "The operation that has made it.", body = EngineOperation), Refusals)
)]
fn create_session() {}

/// Read a session.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "getEngineSession", tag = ENGINE, params(EngineSessionPath),
    responses((status = 200, description = "The session.", body = EngineSession), Refusals)
)]
fn get_session() {}

/// Change a session.
#[utoipa::path(
    patch, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "updateEngineSession", tag = ENGINE, params(EngineSessionPath, Mask), request_body = EngineSession,
    responses((status = 200, description = "The session.", body = EngineSession), Refusals)
)]
fn update_session() {}

/// Delete a session with its events.
#[utoipa::path(
    delete, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}",
    operation_id = "deleteEngineSession", tag = ENGINE, params(EngineSessionPath),
    responses((status = 200, description = "The operation that has deleted it.", body = EngineOperation), Refusals)
)]
fn delete_session() {}

/// Append an event to a session.
#[utoipa::path(
    post, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}:appendEvent",
    operation_id = "appendEngineEvent", tag = ENGINE, params(EngineSessionPath), request_body = SessionEvent,
    responses((
        status = 200, description = "It is appended.", body = HashMap<String, Value>, example = json!({}),
    ), Refusals)
)]
fn append_event() {}

/// List the events of a session, page by page.
#[utoipa::path(
    get, path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/events",
    operation_id = "listEngineEvents", tag = ENGINE, params(EngineSessionPath, Page),
    responses((status = 200, description = "A page of them.", body = ListEventsResponse), Refusals)
)]
fn list_events() {}

/// Ask for an operation again.
#[utoipa::path(
    get,
    path = "/projects/{project}/locations/{location}/reasoningEngines/{app}/sessions/{session}/operations/{operation}",
    operation_id = "getEngineOperation", tag = ENGINE, params(EngineSessionPath, OperationPath),
    responses((status = 200, description = "The operation.", body = EngineOperation), Refusals)
)]
fn operation() {}
