//! The requests of ADK's surface that have a body.

use std::collections::HashMap;

use scratchbook::content::Part;
use scratchbook::{Content, Event, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::check::FieldType::{Any, Bool, Dict, List, Model, Str};
use super::check::{self, defaulted, optional, required};
use super::content::{CONTENT, PART};
use super::event::EVENT;
use super::{AdkBody, FieldType};
use crate::bodies::{self as counted, CountedItems, Shape};
use crate::openapi::EventSchema;

/// The request to create a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(example = json!({"sessionId": "s1", "state": {"cart": {}, "user:language": "en"}}))]
pub(crate) struct CreateSessionRequest {
    /// The id of the session. If it is empty or absent, the server generates one.
    pub(crate) session_id: Option<String>,
    /// The initial state.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) state: Option<Map<String, Value>>,
    /// The initial events, for example of a session from another server.
    #[schema(value_type = Option<Vec<EventSchema>>)]
    pub(crate) events: Option<Vec<Event>>,
    /// Options for ADK's own session services. This server has no such options.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) options: Option<Map<String, Value>>,
}

static CREATE_SESSION: check::BodyModel = check::BodyModel::ignoring(&[
    optional("sessionId", Str),
    optional("state", Dict(&Any)),
    optional("events", List(&Model(&EVENT))),
    optional("options", Dict(&Any)),
]);

static SESSION_EVENTS: Shape = Shape::Fields(&[("events", &Shape::List(CountedItems::Events, &counted::EVENT))]);

impl AdkBody for CreateSessionRequest {
    const KIND: FieldType = Model(&CREATE_SESSION);
    const SHAPE: &'static Shape = &SESSION_EVENTS;
}

/// `POST /apps/{app}/users/{user}/sessions/{session}`: the body is the state.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct InitialStateBody(pub(crate) Map<String, Value>);

impl AdkBody for InitialStateBody {
    const KIND: FieldType = Dict(&Any);
}

/// The request to change a session's state.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"stateDelta": {"cart": {"milk": 2}}}))]
pub(crate) struct UpdateSessionRequest {
    /// Keys and their new values.
    #[schema(value_type = HashMap<String, Value>)]
    pub(crate) state_delta: StateDelta,
}

static UPDATE_SESSION: check::BodyModel = check::BodyModel::ignoring(&[required("stateDelta", Dict(&Any))]);

impl AdkBody for UpdateSessionRequest {
    const KIND: FieldType = Model(&UPDATE_SESSION);
}

/// The request to add a session to memory.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessionId": "s1"}))]
pub(crate) struct UpdateMemoryRequest {
    /// The session's id.
    pub(crate) session_id: String,
}

static UPDATE_MEMORY: check::BodyModel = check::BodyModel::ignoring(&[required("sessionId", Str)]);

impl AdkBody for UpdateMemoryRequest {
    const KIND: FieldType = Model(&UPDATE_MEMORY);
}

/// The request to run an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "appName": "demo", "userId": "alice", "sessionId": "s1",
    "newMessage": {"role": "user", "parts": [{"text": "Add two apples, please"}]},
}))]
pub(crate) struct RunAgentRequest {
    /// The app.
    pub(crate) app_name: Option<String>,
    /// The user.
    pub(crate) user_id: String,
    /// The session, which must exist.
    pub(crate) session_id: String,
    /// The message of the user, as `google.genai.types.Content`.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) new_message: Option<Content>,
    /// Whether text is streamed in pieces while the model generates it. Only `/run_sse` uses this field.
    #[serde(default)]
    #[schema(required = false)]
    pub(crate) streaming: bool,
    /// Changes to the state, which are committed together with the message.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) state_delta: Option<StateDelta>,
    /// The id of the event with the function call that the message answers.
    pub(crate) function_call_event_id: Option<String>,
    /// The id of the run to resume.
    pub(crate) invocation_id: Option<String>,
    /// Metadata that is stored with each event of the run.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) custom_metadata: Option<Map<String, Value>>,
}

static RUN_AGENT: check::BodyModel = check::BodyModel::ignoring(&[
    optional("appName", Str),
    required("userId", Str),
    required("sessionId", Str),
    optional("newMessage", Model(&CONTENT)),
    defaulted("streaming", Bool),
    optional("stateDelta", Dict(&Any)),
    optional("functionCallEventId", Str),
    optional("invocationId", Str),
    optional("customMetadata", Dict(&Any)),
    // Checked and then ignored, as in ADK: it is for one family of hosted models.
    optional("serviceTier", Str),
]);

static MESSAGE: Shape = Shape::Fields(&[("newMessage", &counted::CONTENT), ("new_message", &counted::CONTENT)]);

impl AdkBody for RunAgentRequest {
    const KIND: FieldType = Model(&RUN_AGENT);
    const SHAPE: &'static Shape = &MESSAGE;
}

/// The request to save a version of an artifact.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"filename": "receipt.txt", "artifact": {"text": "2 x apples"}}))]
pub(crate) struct SaveArtifactRequest {
    /// The artifact's name. If it begins with `user:`, the artifact belongs to the user and not to the session.
    #[schema(min_length = 1, max_length = 512)]
    pub(crate) filename: String,
    /// The data.
    #[schema(value_type = ArtifactPart)]
    pub(crate) artifact: Part,
    /// Metadata that is stored with the version.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) custom_metadata: Option<Map<String, Value>>,
}

static SAVE_ARTIFACT: check::BodyModel = check::BodyModel::ignoring(&[
    required("filename", Str),
    required("artifact", Model(&PART)),
    optional("customMetadata", Dict(&Any)),
]);

static ARTIFACT: Shape = Shape::Fields(&[("artifact", &counted::PART)]);

impl AdkBody for SaveArtifactRequest {
    const KIND: FieldType = Model(&SAVE_ARTIFACT);
    const SHAPE: &'static Shape = &ARTIFACT;
}

/// An artifact in the form of `google.genai.types.Part`. It has a text, data in base64, or the address of a file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document alone reads it")]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"inlineData": {"mimeType": "text/csv", "data": "YSxiCg=="}}))]
pub(crate) struct ArtifactPart {
    /// The text.
    #[schema(required = false)]
    text: Option<String>,
    /// The data: `mimeType`, `data` in base64, and optionally `displayName`.
    #[schema(required = false)]
    inline_data: Option<HashMap<String, Value>>,
    /// The address of a file: `fileUri`, and optionally `mimeType`.
    #[schema(required = false)]
    file_data: Option<HashMap<String, Value>>,
}
