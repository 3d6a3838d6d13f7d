//! ADK's events, with their numbers.

use std::sync::Arc;

use scratchbook::{Error, Event, Result, StateDelta};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::access::{Caller, Right};
use crate::adk::hide_internal;
use crate::openapi::EventSchema;

/// The field that this API adds to an event: its number.
const SEQ: &str = "seq";

/// An event as it is stored, with its number.
#[derive(Clone, Debug)]
pub(crate) struct StoredEventJson(pub(crate) Arc<Event>);

impl StoredEventJson {
    /// An event for the caller that has written it. If the caller may not read, the results of its changes are
    /// left out, because they could reveal earlier values.
    pub(crate) fn told(mut event: Arc<Event>, caller: &Caller) -> Self {
        if !caller.may(Right::Read) {
            Arc::make_mut(&mut event).actions.state_delta = StateDelta::new();
        }
        Self(event)
    }
}

impl Serialize for StoredEventJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct NumberedEvent<'a> {
            #[serde(flatten)]
            event: &'a Event,
            #[serde(skip_serializing_if = "Option::is_none")]
            seq: Option<u64>,
        }
        let seq = self.0.seq;
        if !self.0.extra().contains_key(SEQ) && !self.0.is_restored() {
            return NumberedEvent { event: &self.0, seq }.serialize(serializer);
        }
        let mut event = Event::clone(&self.0);
        hide_internal(&mut event);
        // The event may have been stored with a field of this name in some other way than through this API.
        event.extra_mut().shift_remove(SEQ);
        NumberedEvent { event: &event, seq }.serialize(serializer)
    }
}

/// Gives types whose JSON is an event the schema of events.
macro_rules! documented_as_events {
    ($($type:ty),+) => {
        $(impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                EventSchema::schema()
            }
        }

        impl ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                EventSchema::name()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                EventSchema::schemas(schemas);
            }
        })+
    };
}

documented_as_events!(StoredEventJson, Given);

/// An event as a client sends it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Given(Event);

impl Given {
    /// The event for an append. Unknown fields in its actions and its content are refused.
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
        // A call that a client puts into an event is never carried out by a run.
        hide_internal(&mut event);
        event.mark_restored();
        Ok(event)
    }

    /// The event for a new session. It may come from another session: its number there is left out.
    pub(crate) fn into_first_event(mut self) -> Result<Event> {
        self.0.extra_mut().shift_remove(SEQ);
        self.into_event()
    }
}
