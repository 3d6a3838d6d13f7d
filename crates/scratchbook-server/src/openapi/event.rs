//! The schemas of events in the OpenAPI document.
#![expect(dead_code, reason = "it stands for the library's types in the document")]

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use utoipa::ToSchema;

/// Keys of state and their values. The schema has a separate name, which generated clients use.
#[derive(ToSchema)]
#[schema(example = json!({"cart": {"milk": 2}, "user:language": "en", "app:version": "1.0.0"}))]
pub(crate) struct StateValues(BTreeMap<String, Value>);

/// One entry of a session's log: what somebody said or did, and what it changed. The fields are those of ADK's `Event`.
/// Fields that are not listed here are stored and returned unchanged.
#[derive(ToSchema)]
#[schema(as = Event)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "e1", "author": "agent", "invocationId": "i1", "timestamp": 1795194011.59,
    "content": {"role": "model", "parts": [{"text": "Two milks are in your cart."}]},
    "actions": {"stateDelta": {"cart": {"milk": 2}}},
}))]
pub(crate) struct EventSchema {
    /// The event's id within its session. An event that is sent twice with the same id and content is stored once. If
    /// the id is absent, the server generates one.
    #[schema(required = false, max_length = 512)]
    id: String,
    /// `user`, or the name of the agent.
    #[schema(required = false, max_length = 512)]
    author: String,
    /// The id of the run that the event belongs to.
    #[schema(required = false)]
    invocation_id: String,
    /// The time of the event, in seconds since 1970. If it is absent, the server uses the current time.
    #[schema(required = false, minimum = 0, exclusive_maximum = 253402300800i64)]
    timestamp: f64,
    /// The message, function calls or function responses.
    #[schema(required = false)]
    content: Option<HashMap<String, Value>>,
    /// The effects of the event: changes to the state and to artifacts, and control flow.
    #[schema(required = false)]
    actions: ActionsSchema,
    /// The branch of a parallel agent in which the event happened.
    #[schema(required = false)]
    branch: Option<String>,
    /// The kind of the failure that ended the run.
    #[schema(required = false)]
    error_code: Option<String>,
    /// A description of the failure.
    #[schema(required = false)]
    error_message: Option<String>,
    /// Any data that a program stores with the event.
    #[schema(required = false)]
    custom_metadata: Option<HashMap<String, Value>>,
    /// The number of the event in the session. The store assigns the numbers from 1 without gaps.
    #[schema(required = false, read_only)]
    seq: u64,
}

/// The effects of an event. The fields are those of ADK's `EventActions`. Unknown fields are refused.
#[derive(ToSchema)]
#[schema(as = EventActions)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActionsSchema {
    /// Keys and their new values. The string `__ADK_SENTINEL_REMOVED__` removes a key. Keys that begin with `user:` or
    /// `app:` are stored for the user or the app. Keys that begin with `temp:` are not stored.
    #[schema(required = false)]
    state_delta: HashMap<String, Value>,
    /// The artifacts that were saved: their file names, each with its new version.
    #[schema(required = false)]
    artifact_delta: BTreeMap<String, u64>,
    /// The agent that takes over.
    #[schema(required = false)]
    transfer_to_agent: Option<String>,
    /// Whether the loop agent that contains this agent ends.
    #[schema(required = false)]
    escalate: Option<bool>,
    /// Whether a tool's result is shown without a summary by the model.
    #[schema(required = false)]
    skip_summarization: Option<bool>,
    /// For a rewind, the id of the first run that it undid.
    #[schema(required = false)]
    rewind_before_invocation_id: Option<String>,
}
