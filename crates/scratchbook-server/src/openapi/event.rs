//! Events, as the document has them.
#![expect(dead_code, reason = "it stands for the library's types in the document")]

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use utoipa::ToSchema;

/// Keys of state and their values. It has a name of its own, by which generated clients know it.
#[derive(ToSchema)]
#[schema(example = json!({"cart": {"milk": 2}, "user:language": "en", "app:version": "1.0.0"}))]
pub(crate) struct StateValues(BTreeMap<String, Value>);

/// One entry of a session's log: who said or did what, and what it changed. The fields are those of ADK's `Event`; more
/// of them than are listed may come, and are given back as they came.
#[derive(ToSchema)]
#[schema(as = Event)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "e1", "author": "agent", "invocationId": "i1", "timestamp": 1795194011.59,
    "content": {"role": "model", "parts": [{"text": "Two milks are in your cart."}]},
    "actions": {"stateDelta": {"cart": {"milk": 2}}},
}))]
pub(crate) struct EventSchema {
    /// The event's id within its session. Sent twice with the same content, an event is stored once; absent, one is made.
    #[schema(required = false, max_length = 512)]
    id: String,
    /// `user`, or the name of the agent.
    #[schema(required = false, max_length = 512)]
    author: String,
    /// The run this event belongs to.
    #[schema(required = false)]
    invocation_id: String,
    /// Its time, in seconds since 1970; if absent, now.
    #[schema(required = false, minimum = 0, exclusive_maximum = 253402300800i64)]
    timestamp: f64,
    /// What was said, called or answered.
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
    /// Anything a program wants to keep beside the event.
    #[schema(required = false)]
    custom_metadata: Option<HashMap<String, Value>>,
    /// Its number in the session, from 1 without gaps. Given by the store.
    #[schema(required = false, read_only)]
    seq: u64,
}

/// The effects of an event. The fields are those of ADK's `EventActions`; unknown ones are refused.
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
    /// The agent that continues.
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
