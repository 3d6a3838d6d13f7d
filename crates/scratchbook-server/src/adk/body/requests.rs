//! The requests of ADK's surface that have a body.

use std::collections::HashMap;

use scratchbook::content::Part;
use scratchbook::{Content, Event, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::check::Kind::{Any, Bool, Dict, List, Model, Str};
use super::check::{self, defaulted, optional, required};
use super::content::{CONTENT, PART};
use super::event::EVENT;
use super::{Body, Kind};
use crate::bodies::{self as counted, Counted, Shape};
use crate::openapi::EventSchema;

/// What a session is made with.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(example = json!({"sessionId": "s1", "state": {"cart": {}, "user:language": "en"}}))]
pub(crate) struct CreateSessionRequest {
    /// The id; empty or absent, one is made.
    pub(crate) session_id: Option<String>,
    /// State to begin with.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) state: Option<Map<String, Value>>,
    /// Events to begin with, as a session elsewhere had them.
    #[schema(value_type = Option<Vec<EventSchema>>)]
    pub(crate) events: Option<Vec<Event>>,
    /// Options for other session services of ADK; this server ignores them.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) options: Option<Map<String, Value>>,
}

static CREATE_SESSION: check::Model = check::Model::ignoring(&[
    optional("sessionId", Str),
    optional("state", Dict(&Any)),
    optional("events", List(&Model(&EVENT))),
    optional("options", Dict(&Any)),
]);

static SESSION_EVENTS: Shape = Shape::Fields(&[("events", &Shape::List(Counted::Events, &counted::EVENT))]);

impl Body for CreateSessionRequest {
    const KIND: Kind = Model(&CREATE_SESSION);
    const SHAPE: &'static Shape = &SESSION_EVENTS;
}

/// `POST /apps/{app}/users/{user}/sessions/{session}`: the body is the state.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct InitialState(pub(crate) Map<String, Value>);

impl Body for InitialState {
    const KIND: Kind = Dict(&Any);
}

/// What is changed of a session's state.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"stateDelta": {"cart": {"milk": 2}}}))]
pub(crate) struct UpdateSessionRequest {
    /// Keys and their new values.
    #[schema(value_type = HashMap<String, Value>)]
    pub(crate) state_delta: StateDelta,
}

static UPDATE_SESSION: check::Model = check::Model::ignoring(&[required("stateDelta", Dict(&Any))]);

impl Body for UpdateSessionRequest {
    const KIND: Kind = Model(&UPDATE_SESSION);
}

/// Which session is to be remembered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessionId": "s1"}))]
pub(crate) struct UpdateMemoryRequest {
    /// The session's id.
    pub(crate) session_id: String,
}

static UPDATE_MEMORY: check::Model = check::Model::ignoring(&[required("sessionId", Str)]);

impl Body for UpdateMemoryRequest {
    const KIND: Kind = Model(&UPDATE_MEMORY);
}

/// A run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "appName": "shop", "userId": "alice", "sessionId": "s1",
    "newMessage": {"role": "user", "parts": [{"text": "Add two apples, please"}]},
}))]
pub(crate) struct RunAgentRequest {
    /// The app.
    pub(crate) app_name: Option<String>,
    /// The user.
    pub(crate) user_id: String,
    /// The session, which is there.
    pub(crate) session_id: String,
    /// What the user says, as `google.genai.types.Content`.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) new_message: Option<Content>,
    /// Whether answers come in pieces; of `/run_sse` alone.
    #[serde(default)]
    #[schema(required = false)]
    pub(crate) streaming: bool,
    /// What the message changes of the state.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) state_delta: Option<StateDelta>,
    /// The event of the call that the message answers.
    pub(crate) function_call_event_id: Option<String>,
    /// The run that goes on.
    pub(crate) invocation_id: Option<String>,
    /// What is kept beside each event of the run.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) custom_metadata: Option<Map<String, Value>>,
}

static RUN_AGENT: check::Model = check::Model::ignoring(&[
    optional("appName", Str),
    required("userId", Str),
    required("sessionId", Str),
    optional("newMessage", Model(&CONTENT)),
    defaulted("streaming", Bool),
    optional("stateDelta", Dict(&Any)),
    optional("functionCallEventId", Str),
    optional("invocationId", Str),
    optional("customMetadata", Dict(&Any)),
    // Checked and then ignored, as by ADK: it is for one family of hosted models.
    optional("serviceTier", Str),
]);

static MESSAGE: Shape = Shape::Fields(&[("newMessage", &counted::CONTENT), ("new_message", &counted::CONTENT)]);

impl Body for RunAgentRequest {
    const KIND: Kind = Model(&RUN_AGENT);
    const SHAPE: &'static Shape = &MESSAGE;
}

/// A new version of an artifact.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"filename": "receipt.txt", "artifact": {"text": "2 x apples"}}))]
pub(crate) struct SaveArtifactRequest {
    /// Its name; with `user:` before it, the user's.
    #[schema(min_length = 1, max_length = 512)]
    pub(crate) filename: String,
    /// The data.
    #[schema(value_type = ArtifactPart)]
    pub(crate) artifact: Part,
    /// What is kept beside it.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    pub(crate) custom_metadata: Option<Map<String, Value>>,
}

static SAVE_ARTIFACT: check::Model = check::Model::ignoring(&[
    required("filename", Str),
    required("artifact", Model(&PART)),
    optional("customMetadata", Dict(&Any)),
]);

static ARTIFACT: Shape = Shape::Fields(&[("artifact", &counted::PART)]);

impl Body for SaveArtifactRequest {
    const KIND: Kind = Model(&SAVE_ARTIFACT);
    const SHAPE: &'static Shape = &ARTIFACT;
}

/// An artifact, as `google.genai.types.Part`: with text, with data in base64 or with the address of a file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the document alone reads it")]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"inlineData": {"mimeType": "text/csv", "data": "YSxiCg=="}}))]
pub(crate) struct ArtifactPart {
    /// The text.
    #[schema(required = false)]
    text: Option<String>,
    /// `mimeType`, `data` in base64, and if wanted `displayName`.
    #[schema(required = false)]
    inline_data: Option<HashMap<String, Value>>,
    /// `fileUri`, and if wanted `mimeType`.
    #[schema(required = false)]
    file_data: Option<HashMap<String, Value>>,
}
