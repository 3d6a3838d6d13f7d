//! Sessions, with ADK's fields and further ones.

use std::collections::BTreeMap;

use scratchbook::{Scope, Session, StateMap};
use serde::Serialize;
use utoipa::ToSchema;

use super::{SeenPositions, StoredEventJson};
use crate::access::{Caller, Right};
use crate::openapi::StateValues;

/// A session with its merged state and the requested events.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
#[schema(example = json!({
    "id": "s1", "appName": "demo", "userId": "alice", "title": "Groceries", "labels": {"team": "food"},
    "state": {"cart": {"milk": 2}, "user:language": "en", "app:version": "1.0.0"}, "events": [],
    "lastUpdateTime": 1795194011.59, "expireTime": null, "eventCount": 3,
    "seen": {"seq": 3, "user": 17, "app": 12},
}))]
pub(crate) struct SessionBody {
    /// The session's id, unique among the user's sessions.
    id: String,
    /// The app.
    app_name: String,
    /// The user.
    user_id: String,
    /// The session's title, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The session's labels, for programs.
    labels: BTreeMap<String, String>,
    /// The merged state: keys of the session, and keys of the user and the app with their prefixes. In lists, only the
    /// session's own keys.
    #[schema(value_type = StateValues)]
    state: StateMap,
    /// The requested events, in their order.
    events: Vec<StoredEventJson>,
    /// The time of the last event, or of the creation if there is no event, in seconds since 1970.
    last_update_time: f64,
    /// The time at which the session expires, in seconds since 1970. `null` if it never expires.
    expire_time: Option<f64>,
    /// The number of the session's last event. `null` if the store does not know it.
    event_count: Option<u64>,
    /// The positions up to which this session was read. Send them back with a write that uses optimistic locking.
    seen: SeenPositions,
}

impl SessionBody {
    /// A session of a list, without the shared state, which the list has in separate fields.
    pub(crate) fn listed(session: Session) -> Self {
        let state = session.state().only(Scope::Session);
        Self { state, ..Self::from(session) }
    }

    /// A session for the caller that has written to it. A caller that may not read sees only its names and numbers.
    pub(crate) fn told(session: Session, caller: &Caller) -> Self {
        let whole = Self::from(session);
        if caller.may(Right::Read) {
            return whole;
        }
        let (title, labels, state, events) = Default::default();
        Self { title, labels, state, events, ..whole }
    }
}

impl From<Session> for SessionBody {
    fn from(session: Session) -> Self {
        Self {
            id: session.id().to_owned(),
            app_name: session.app_name().to_owned(),
            user_id: session.user_id().to_owned(),
            title: session.title().map(str::to_owned),
            labels: session.labels().clone(),
            state: session.state().clone(),
            events: session.events().iter().cloned().map(StoredEventJson).collect(),
            last_update_time: session.last_update_time(),
            expire_time: session.expire_time(),
            event_count: session.known_seq(),
            seen: SeenPositions::of(&session),
        }
    }
}
