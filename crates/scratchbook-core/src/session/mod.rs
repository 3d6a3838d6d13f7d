//! Sessions: what a service returns, how it is asked, and the contract it keeps.

mod check;
mod commits;
mod ext;
mod feed;
mod history;
mod key;
mod metadata;
mod options;
mod retry;
mod secret;
mod seen;
mod service;
mod tail;
mod verify;
mod watch;
mod watches;
mod whose;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use imbl::Vector;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::event::Event;
use crate::state::{StateDelta, StateMap};

pub use check::{CheckedWrite, StateCheck};
pub use commits::{CommitNotices, CommitNotifier};
pub use ext::SessionServiceExt;
pub use feed::{FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, Removal, RemovalKind};
pub use history::{KeyDiff, KeyWrite, StateDiff};
pub use key::{SessionKey, StateOwner};
pub use metadata::{OtherLabels, SessionMetadata, SessionUpdate, TitleFilter};
pub use options::{
    AppendOptions, Committed, ConflictMode, CreateSessionConfig, EventCursor, Expiry, ForkConfig, GetSessionConfig,
    IdScope, InitialState, ListOrder, ListSessionsConfig, ListSessionsResponse, ListStateConfig, Outcome,
    PutStateOptions, SharedKeys, StateChange, StatePage, StateSelection,
};
pub use secret::SecretKeys;
pub use seen::{LogPositions, Seen};
pub use service::SessionService;
pub use verify::Verified;
pub use watch::{Watch, Watched};
pub use watches::Watches;

#[doc(hidden)]
pub use commits::Followed;
#[doc(hidden)]
pub use ext::no_session;
#[doc(hidden)]
pub use ext::temp_changes;
pub(crate) use feed::feed_name;
pub(crate) use history::event_writer;
pub use key::check_id;
#[doc(hidden)]
pub use key::{check_owner, check_session_id};
#[doc(hidden)]
pub use options::PAGE_BYTES;
#[doc(hidden)]
pub use retry::pauses as retry_pauses;
#[doc(hidden)]
pub use whose::{Places, Whose};

/// A conversation as it was when it was read: its events and its merged state.
///
/// It cannot be changed by its holder: only [`append_event`](SessionServiceExt::append_event) moves it on.
/// Copies are cheap, whatever its length. In JSON it is ADK's `Session`.
#[derive(Clone)]
pub struct Session {
    key: SessionKey,
    state: StateMap,
    events: Events,
    create_time: Option<f64>,
    last_update_time: f64,
    expire_time: Option<f64>,
    metadata: Arc<SessionMetadata>,
    stored_bytes: Option<u64>,
    seen: Seen,
    /// Whether the store has told the number of the last event.
    is_counted: bool,
    secret: SecretKeys,
}

impl Session {
    /// A session without events; for stores, yours among them, as are the `with_` methods.
    #[must_use]
    pub fn new(key: SessionKey, state: StateMap) -> Self {
        let (events, seen, secret) = (Events::default(), Seen::default(), SecretKeys::default());
        let metadata = Arc::default();
        Self {
            key,
            state,
            events,
            create_time: None,
            last_update_time: 0.0,
            expire_time: None,
            metadata,
            stored_bytes: None,
            seen,
            is_counted: true,
            secret,
        }
    }

    /// With events, in the store's order, each with its number.
    #[must_use]
    pub fn with_events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// The same session with its state as an adapter shows it.
    #[doc(hidden)]
    pub fn with_state(mut self, state: StateMap) -> Self {
        self.state = state;
        self
    }

    /// With the time at which it was made, in seconds.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self.seen.set_create_time(seconds);
        self
    }

    /// With the timestamp of the event appended last, or of the creation, in seconds.
    #[must_use]
    pub fn with_last_update_time(mut self, seconds: f64) -> Self {
        self.last_update_time = seconds;
        self
    }

    /// With the time at which it expires, in seconds; `None` for never.
    #[must_use]
    pub fn with_expire_time(mut self, seconds: Option<f64>) -> Self {
        self.expire_time = seconds;
        self
    }

    /// With its title and labels.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Into<Arc<SessionMetadata>>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// With how much of it is stored, in bytes.
    #[must_use]
    pub fn with_stored_bytes(mut self, bytes: u64) -> Self {
        self.stored_bytes = Some(bytes);
        self
    }

    /// With the number of the session's last event, read or not.
    #[must_use]
    pub fn with_seq(mut self, seq: u64) -> Self {
        self.seen.set_seq(seq);
        self.is_counted = true;
        self
    }

    /// Without the number of the session's last event: its store has not counted them.
    #[must_use]
    pub fn with_unknown_seq(mut self) -> Self {
        self.seen.set_seq(0);
        self.is_counted = false;
        self
    }

    /// With the positions up to which the logs of the user's and the app's state were read with it, in one snapshot.
    #[must_use]
    pub fn with_log_positions(mut self, logs: LogPositions) -> Self {
        self.seen.set_logs(logs);
        self
    }

    /// With these keys marked as secret, besides those that are.
    #[must_use]
    pub fn with_secret_keys(mut self, secret: &SecretKeys) -> Self {
        self.secret = self.secret.and(secret);
        self
    }

    /// The full address.
    #[must_use]
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// The session's id among its user's.
    #[must_use]
    pub fn id(&self) -> &str {
        self.key.session_id()
    }

    /// The app.
    #[must_use]
    pub fn app_name(&self) -> &str {
        self.key.app_name()
    }

    /// The user.
    #[must_use]
    pub fn user_id(&self) -> &str {
        self.key.user_id()
    }

    /// The merged state: session, `user:` and `app:` keys, and `temp:` keys of events appended to this copy.
    #[must_use]
    pub fn state(&self) -> &StateMap {
        &self.state
    }

    /// The events that were asked for, in the store's order.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// When it was made, in seconds, to the microsecond; `None` where its store does not say.
    #[must_use]
    pub fn create_time(&self) -> Option<f64> {
        self.create_time
    }

    /// The timestamp of the event appended last, in seconds, to the microsecond; at first the creation's.
    #[must_use]
    pub fn last_update_time(&self) -> f64 {
        self.last_update_time
    }

    /// When it expires, in seconds, to the microsecond; `None` for never.
    #[must_use]
    pub fn expire_time(&self) -> Option<f64> {
        self.expire_time
    }

    /// How much of it its store kept when this was read, in bytes of JSON: of all of its events that were not pruned,
    /// read or not, and of the state with which their fold begins, unless that is empty. A fork has copies, which count.
    /// The keys of its state do not count again, nor do those of its user and its app; its artifacts count for
    /// [quotas](crate::plan::limits::Limits::user_bytes) alone. `None` if the store does not count.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<u64> {
        self.stored_bytes
    }

    /// What people know it by, as it was when this was read; never empty.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.metadata.title.as_deref()
    }

    /// What programs find it by, by name.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.metadata.labels
    }

    /// Title and labels.
    #[must_use]
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// The number of the last event up to which this copy has seen everything; 0 where there is none, or where the store
    /// has not counted them, see [`known_seq`](Self::known_seq).
    ///
    /// An own append over events by others does not move it: the gap shows in the events' numbers, and
    /// [`refresh`](SessionServiceExt::refresh) closes it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seen.seq()
    }

    /// [`seq`](Self::seq), or `None` where the store has not counted the session's events: one that has no numbers for
    /// them, such as Vertex AI, of which a part was read.
    #[must_use]
    pub fn known_seq(&self) -> Option<u64> {
        self.is_counted.then(|| self.seq())
    }

    /// What this copy has seen: all that was there when it was read, and what it has itself written since. An append
    /// [by key](ConflictMode::ByKey) or [by session](ConflictMode::BySession) goes by it.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Which keys are marked as secret.
    #[must_use]
    pub fn secret_keys(&self) -> &SecretKeys {
        &self.secret
    }

    /// The last event here up to which this copy has seen everything.
    fn last_seen(&self) -> Option<&Arc<Event>> {
        self.events.iter().rev().find(|event| event.seq.is_some_and(|seq| seq <= self.seq()))
    }

    /// Takes over the session as it is now, of which the events were read from the last one seen on. False where
    /// that one is another now: the session was deleted and made anew.
    fn continue_with(&mut self, fresh: Self) -> bool {
        let Some(seen) = self.last_seen() else {
            let same = fresh.seq() >= self.seq();
            if same {
                *self = fresh;
            }
            return same;
        };
        if fresh.events.get(0).is_none_or(|event| event.id != seen.id) {
            return false;
        }
        let seq = seen.seq;
        let kept = self.events.iter().position(|event| event.seq == seq).unwrap_or_default();
        let mut events = self.events.slice(0, kept);
        fresh.events.iter().for_each(|event| events.insert(events.len(), Arc::clone(event)));
        *self = fresh.with_events(events);
        true
    }

    /// Takes over what an append of this copy's holder has committed, unless it is here already.
    ///
    /// An event may come later than one with a higher number, when the answer to its append was lost and the
    /// append tried again: then what the later event changed stays as it is.
    #[doc(hidden)]
    pub fn apply(&mut self, committed: &Committed, temp: &StateDelta) {
        let Committed { event, logs, .. } = committed;
        let Some(seq) = event.seq else {
            // A store that tells no numbers: what is here is known by its id, and how many there are is not.
            self.is_counted = false;
            if self.events.iter().all(|known| known.id != event.id) {
                self.take_over(event, temp, &[]);
            }
            return;
        };
        let later: Vec<_> =
            self.events.iter().rev().take_while(|e| e.seq.unwrap_or_default() >= seq).cloned().collect();
        if seq > self.seq() && later.iter().all(|e| e.seq != event.seq) {
            self.take_over(event, temp, &later);
        }
        self.has_written(event, *logs);
    }

    /// Takes over `temp:` changes that no event carries.
    #[doc(hidden)]
    pub fn apply_temp(&mut self, temp: &StateDelta) {
        self.state.apply(temp);
    }

    fn take_over(&mut self, event: &Arc<Event>, temp: &StateDelta, later: &[Arc<Event>]) {
        if later.is_empty() {
            self.state.apply(&event.actions.state_delta);
            self.state.apply(temp);
            if let Some(seconds) = event.timestamp {
                self.last_update_time = seconds_of_micros(micros_of_seconds(seconds));
            }
        } else {
            let (mut changes, mut temp) = (event.actions.state_delta.clone(), temp.clone());
            changes.retain(|key| !later.iter().any(|e| e.actions.state_delta.contains(key)));
            temp.retain(|key| !self.state.contains(key));
            self.state.apply(&changes);
            self.state.apply(&temp);
        }
        self.events.insert(self.events.len() - later.len(), Arc::clone(event));
        let seen = self.events.iter().skip(self.events.len() - later.len() - 1);
        for number in seen.filter_map(|event| event.seq) {
            if number == self.seen.seq() + 1 {
                self.seen.set_seq(number);
            }
        }
    }

    /// Remembers the keys of an own event as seen where it wrote them. What others wrote before it was not seen, so
    /// that the logs as such stay where they were read.
    fn has_written(&mut self, event: &Event, logs: LogPositions) {
        let seq = event.seq.unwrap_or_default();
        event.actions.state_delta.iter().for_each(|(key, _)| self.seen.add_own(key, seq, logs));
    }
}

/// Where keys are marked as secret, what could hold their values is only counted.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Session");
        out.field("key", &self.key);
        if self.secret.is_empty() {
            out.field("state", &self.state).field("events", &self.events).field("metadata", &self.metadata);
        } else {
            let keys: Vec<_> = self.state.iter().map(|(key, _)| key).collect();
            out.field("state", &keys).field("events", &self.events.len());
        }
        out.field("create_time", &self.create_time)
            .field("last_update_time", &self.last_update_time)
            .field("expire_time", &self.expire_time);
        out.field("seen", &self.seen).finish()
    }
}

/// Times are kept to the microsecond wherever they order something.
#[doc(hidden)]
pub fn micros_of_seconds(seconds: f64) -> i64 {
    // In range for every timestamp that passes `check_timestamp`.
    (seconds * 1e6).round() as i64
}

#[doc(hidden)]
pub fn seconds_of_micros(micros: i64) -> f64 {
    micros as f64 / 1e6
}

impl Serialize for Session {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Session", 6)?;
        out.serialize_field("id", self.id())?;
        out.serialize_field("appName", self.app_name())?;
        out.serialize_field("userId", self.user_id())?;
        out.serialize_field("state", &self.state)?;
        out.serialize_field("events", &self.events)?;
        out.serialize_field("lastUpdateTime", &self.last_update_time)?;
        out.end()
    }
}

/// A run of events in the store's order; copies share them.
#[derive(Clone, Default, PartialEq)]
pub struct Events(Arc<Vector<Arc<Event>>>);

impl Events {
    /// How many events there are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The event at a place, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<Event>> {
        self.0.get(index)
    }

    /// The last event.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Event>> {
        self.0.last()
    }

    /// Puts an event at a place. Copies that share these events keep what they have.
    pub(crate) fn insert(&mut self, index: usize, event: Arc<Event>) {
        let events = Arc::make_mut(&mut self.0);
        // The end is where nearly all go, and cheap.
        if index == events.len() { events.push_back(event) } else { events.insert(index, event) }
    }

    /// The events from one place up to another.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        Self(Arc::new(Vector::clone(&self.0).slice(from..to)))
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.0.iter()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<Arc<Event>> for Events {
    fn from_iter<I: IntoIterator<Item = Arc<Event>>>(events: I) -> Self {
        Self(Arc::new(events.into_iter().collect()))
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Arc::as_ref))
    }
}
