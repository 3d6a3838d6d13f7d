//! Events: ADK's, with their numbers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use scratchbook::{Error, Event, Result, StateDelta};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::access::{Caller, Right};
use crate::adk::hide_internal;

/// Our field in an event: its number.
const SEQ: &str = "seq";

/// An event as it is stored, with its number.
#[derive(Clone, Debug)]
pub(crate) struct Stored(pub(crate) Arc<Event>);

impl Stored {
    /// An event that a caller has written: one who may not read is not told what its changes came to, for that may
    /// hold what was there before.
    pub(crate) fn told(mut event: Arc<Event>, caller: &Caller) -> Self {
        if !caller.may(Right::Read) {
            Arc::make_mut(&mut event).actions.state_delta = StateDelta::new();
        }
        Self(event)
    }
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Numbered<'a> {
            #[serde(flatten)]
            event: &'a Event,
            #[serde(skip_serializing_if = "Option::is_none")]
            seq: Option<u64>,
        }
        let seq = self.0.seq;
        if !self.0.extra().contains_key(SEQ) && !self.0.is_restored() {
            return Numbered { event: &self.0, seq }.serialize(serializer);
        }
        let mut event = Event::clone(&self.0);
        hide_internal(&mut event);
        // It may have come with a field of this name by another way than ours.
        event.extra_mut().shift_remove(SEQ);
        Numbered { event: &event, seq }.serialize(serializer)
    }
}

impl PartialSchema for Stored {
    fn schema() -> RefOr<Schema> {
        EventSchema::schema()
    }
}

impl ToSchema for Stored {
    fn name() -> std::borrow::Cow<'static, str> {
        EventSchema::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        EventSchema::schemas(schemas);
    }
}

/// An event as it is sent.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Given(Event);

impl Given {
    /// The event, to be appended. What is not known in its actions and its content is taken for a mistake.
    pub(crate) fn into_event(self) -> Result<Event> {
        let mut event = self.0;
        event.check_known().map_err(|e| e.context("event"))?;
        if event.extra().contains_key(SEQ) {
            return Err(Error::invalid("the event has a 'seq'; leave it out, the store gives the number"));
        }
        if event.is_partial() {
            return Err(Error::invalid(
                "the event is partial, a piece of a stream, which is not stored; append it whole",
            ));
        }
        // What a client says that an agent has called, no run carries out.
        hide_internal(&mut event);
        event.mark_restored();
        Ok(event)
    }

    /// The event, to begin a session with. It may come from another session: its number there is left out.
    pub(crate) fn into_first_event(mut self) -> Result<Event> {
        self.0.extra_mut().shift_remove(SEQ);
        self.into_event()
    }
}

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
#[expect(dead_code, reason = "it stands for the library's type in the document")]
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
    /// When it arose, in seconds since 1970; absent, now.
    #[schema(required = false, minimum = 0, exclusive_maximum = 253402300800i64)]
    timestamp: f64,
    /// What was said, called or answered.
    #[schema(required = false)]
    content: Option<HashMap<String, Value>>,
    /// What it does beyond being said.
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

/// What an event does beyond being said. The fields are those of ADK's `EventActions`; unknown ones are refused.
#[derive(ToSchema)]
#[schema(as = EventActions)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it stands for the library's type in the document")]
pub(crate) struct ActionsSchema {
    /// Keys and their new values. The string `__ADK_SENTINEL_REMOVED__` removes a key. `user:` and `app:` keys go to the
    /// user and the app, `temp:` keys are dropped.
    #[schema(required = false)]
    state_delta: HashMap<String, Value>,
    /// Artifacts saved, by file name, with the version each got.
    #[schema(required = false)]
    artifact_delta: BTreeMap<String, u64>,
    /// The agent that is to go on.
    #[schema(required = false)]
    transfer_to_agent: Option<String>,
    /// Whether the loop around the agent is to end.
    #[schema(required = false)]
    escalate: Option<bool>,
    /// Whether a tool's response is shown as it is.
    #[schema(required = false)]
    skip_summarization: Option<bool>,
    /// The run before which the session was taken back to.
    #[schema(required = false)]
    rewind_before_invocation_id: Option<String>,
}

impl PartialSchema for Given {
    fn schema() -> RefOr<Schema> {
        EventSchema::schema()
    }
}

impl ToSchema for Given {
    fn name() -> std::borrow::Cow<'static, str> {
        EventSchema::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        EventSchema::schemas(schemas);
    }
}
