//! The requests of ADK's surface that have a body.

use scratchbook::{Content, Event, Part, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::check::Kind::{Any, Bool, Dict, List, Model, Str};
use super::check::{self, defaulted, optional, required};
use super::content::{CONTENT, PART};
use super::event::EVENT;
use super::{Body, Kind};
use crate::bodies::{self as counted, Counted, Shape};

/// `POST /apps/{app}/users/{user}/sessions`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CreateSessionRequest {
    pub(crate) session_id: Option<String>,
    pub(crate) state: Option<Map<String, Value>>,
    pub(crate) events: Option<Vec<Event>>,
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

/// `PATCH /apps/{app}/users/{user}/sessions/{session}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateSessionRequest {
    pub(crate) state_delta: StateDelta,
}

static UPDATE_SESSION: check::Model = check::Model::ignoring(&[required("stateDelta", Dict(&Any))]);

impl Body for UpdateSessionRequest {
    const KIND: Kind = Model(&UPDATE_SESSION);
}

/// `PATCH /apps/{app}/users/{user}/memory`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateMemoryRequest {
    pub(crate) session_id: String,
}

static UPDATE_MEMORY: check::Model = check::Model::ignoring(&[required("sessionId", Str)]);

impl Body for UpdateMemoryRequest {
    const KIND: Kind = Model(&UPDATE_MEMORY);
}

/// `POST /run` and `POST /run_sse`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAgentRequest {
    pub(crate) app_name: Option<String>,
    pub(crate) user_id: String,
    pub(crate) session_id: String,
    pub(crate) new_message: Option<Content>,
    #[serde(default)]
    pub(crate) streaming: bool,
    pub(crate) state_delta: Option<StateDelta>,
    pub(crate) function_call_event_id: Option<String>,
    pub(crate) invocation_id: Option<String>,
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
    // Checked, and left alone as by ADK: it is for one family of hosted models.
    optional("serviceTier", Str),
]);

static MESSAGE: Shape = Shape::Fields(&[("newMessage", &counted::CONTENT), ("new_message", &counted::CONTENT)]);

impl Body for RunAgentRequest {
    const KIND: Kind = Model(&RUN_AGENT);
    const SHAPE: &'static Shape = &MESSAGE;
}

/// `POST /apps/{app}/users/{user}/sessions/{session}/artifacts`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaveArtifactRequest {
    pub(crate) filename: String,
    pub(crate) artifact: Part,
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
