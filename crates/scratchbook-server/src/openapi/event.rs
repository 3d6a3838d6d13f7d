//! The schemas of events in the OpenAPI document.
#![expect(dead_code, reason = "it stands for the library's types in the document")]

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use utoipa::ToSchema;

/// Keys of state and their values. It has a name of its own, by which generated clients know it.
#[derive(ToSchema)]
#[schema(example = json!({"cart": {"milk": 2}, "user:language": "en", "app:version": "1.0.0"}))]
pub(crate) struct StateValues(BTreeMap<String, Value>);

/// One entry of a session's log: who said or did what, and what it changed. The fields are those of ADK's `Event`.
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
    /// The event's id within its session. An event that is sent twice with the same id and content is stored once. An id
    /// is generated if absent.
    #[schema(required = false, max_length = 512)]
    id: String,
    /// `user`, or the name of the agent.
    #[schema(required = false, max_length = 512)]
    author: String,
    /// The run this event belongs to.
    #[schema(required = false)]
    invocation_id: String,
    /// Its time, in seconds since 1970. Now if absent.
    #[schema(required = false, minimum = 0, exclusive_maximum = 253402300800i64)]
    timestamp: f64,
    /// The message, function calls or function responses.
    #[schema(required = false)]
    content: Option<HashMap<String, Value>>,
    /// Its effects: changes of state, artifacts, control flow.
    #[schema(required = false)]
    actions: ActionsSchema,
    /// The branch of a parallel run.
    #[schema(required = false)]
    branch: Option<String>,
    /// What kind of failure ended the run.
    #[schema(required = false)]
    error_code: Option<String>,
    /// The failure in words.
    #[schema(required = false)]
    error_message: Option<String>,
    /// Any data that a program stores with the event.
    #[schema(required = false)]
    custom_metadata: Option<HashMap<String, Value>>,
    /// Its number in the session, from 1 without gaps, assigned by the store.
    #[schema(required = false, read_only)]
    seq: u64,
}

/// The effects of an event. The fields are those of ADK's `EventActions`. Unknown fields are refused.
#[derive(ToSchema)]
#[schema(as = EventActions)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActionsSchema {
    /// Keys and their new values. The string `__ADK_SENTINEL_REMOVED__` removes a key. `user:` and `app:` keys go to the
    /// user and the app, `temp:` keys are dropped.
    #[schema(required = false)]
    state_delta: HashMap<String, Value>,
    /// Artifacts saved, by file name, with the version each got.
    #[schema(required = false)]
    artifact_delta: BTreeMap<String, u64>,
    /// The agent that takes over.
    #[schema(required = false)]
    transfer_to_agent: Option<String>,
    /// Whether the loop around the agent ends.
    #[schema(required = false)]
    escalate: Option<bool>,
    /// Whether a tool's response is shown without the model's summary of it.
    #[schema(required = false)]
    skip_summarization: Option<bool>,
    /// The first run that a rewind undid.
    #[schema(required = false)]
    rewind_before_invocation_id: Option<String>,
}
