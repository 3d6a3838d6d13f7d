//! Sessions: the trait of every store, the session it returns, and the options and results of its methods.

mod capability;
mod check;
mod commit_scope;
mod event_hashes;
mod ext;
mod feed;
mod forward;
mod history;
mod key;
mod metadata;
mod notices;
mod options;
mod retry;
mod secret;
mod seen;
mod service;
mod state_bytes;
mod sync;
mod tail;
mod verify;
mod watch;
mod watches;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use imbl::Vector;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::event::Event;
use crate::state::{StateDelta, StateMap};

pub use crate::{forward_sessions, unsupported_sessions};
pub use capability::{Capabilities, Capability};
pub use check::{CheckedWrite, StateCheck};
pub use event_hashes::{EventHash, EventHashes};
pub use ext::SessionServiceExt;
pub use feed::{FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, Removal, RemovalKind};
pub use history::{KeyDiff, KeyWrite, StateDiff};
pub use key::{SessionKey, StateOwner};
pub use metadata::{OtherLabels, SessionMetadata, SessionUpdate, TitleFilter};
pub use notices::{CommitNotices, CommitNotifier};
pub use options::{
    AppendOptions, ChangeQuery, Committed, ConflictMode, CreateSessionConfig, EventCursor, Expiry, ForkConfig,
    GetSessionConfig, IdScope, InitialState, ListOrder, ListSessionsConfig, ListSessionsResponse, ListStateConfig,
    Outcome, Prune, PutStateOptions, SharedKeys, StateChange, StatePage, StateSelection,
};
pub use secret::SecretKeys;
pub use seen::{LogPositions, Seen};
pub use service::SessionService;
pub use state_bytes::StateBytes;
pub use verify::Verified;
pub use watch::{Watch, Watched};
pub use watches::Watches;

#[doc(hidden)]
pub use commit_scope::{CommitScope, ScopeHashes};
#[doc(hidden)]
pub use ext::temp_changes;
#[doc(hidden)]
pub use ext::{check_event_number, no_session};
pub(crate) use feed::feed_name;
#[doc(hidden)]
pub use forward::unsupported;
pub(crate) use history::event_writer;
pub use key::{check_id, check_nameable};
#[doc(hidden)]
pub use key::{check_owner, check_session_id};
#[doc(hidden)]
pub use notices::Followed;
#[doc(hidden)]
pub use options::PAGE_BYTES;
#[doc(hidden)]
pub use retry::pauses as retry_pauses;
#[doc(hidden)]
pub use state_bytes::FoldRoom;

/// A snapshot of a conversation: its events and its merged state.
///
/// A snapshot cannot be changed directly; [`append_event`](SessionServiceExt::append_event) advances it. Cloning is
/// cheap, whatever the session's length. In JSON it is ADK's `Session`.
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
    /// Whether the store reported the number of the last event.
    is_counted: bool,
    secret: SecretKeys,
}

impl Session {
    /// Creates a session without events. This and the `with_` methods are for store implementations, including your
    /// own.
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

    /// Sets the events, in the store's order, each with its number.
    #[must_use]
    pub fn with_events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Replaces the state, for a layer that shows it in another form.
    #[doc(hidden)]
    pub fn with_state(mut self, state: StateMap) -> Self {
        self.state = state;
        self
    }

    /// Sets the creation time, in seconds since 1970.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self.seen.set_create_time(seconds);
        self
    }

    /// Sets the timestamp of the last appended event, or of the creation, in seconds since 1970.
    #[must_use]
    pub fn with_last_update_time(mut self, seconds: f64) -> Self {
        self.last_update_time = seconds;
        self
    }

    /// Sets the expiry time, in seconds since 1970; `None` means never.
    #[must_use]
    pub fn with_expire_time(mut self, seconds: Option<f64>) -> Self {
        self.expire_time = seconds;
        self
    }

    /// Sets the title and the labels.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Into<Arc<SessionMetadata>>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Sets how many bytes the store keeps of the session.
    #[must_use]
    pub fn with_stored_bytes(mut self, bytes: u64) -> Self {
        self.stored_bytes = Some(bytes);
        self
    }

    /// Sets the number of the session's last event, whether that event was read or not.
    #[must_use]
    pub fn with_seq(mut self, seq: u64) -> Self {
        self.seen.set_seq(seq);
        self.is_counted = true;
        self
    }

    /// Marks the number of the session's last event as unknown, because the store does not count events.
    #[must_use]
    pub fn with_unknown_seq(mut self) -> Self {
        self.seen.set_seq(0);
        self.is_counted = false;
        self
    }

    /// Sets the positions up to which the logs of the user's and the app's state were read, in the same snapshot.
    #[must_use]
    pub fn with_log_positions(mut self, logs: LogPositions) -> Self {
        self.seen.set_logs(logs);
        self
    }

    /// Marks these keys as secret, in addition to those already marked.
    #[must_use]
    pub fn with_secret_keys(mut self, secret: &SecretKeys) -> Self {
        self.secret = self.secret.and(secret);
        self
    }

    /// Returns the app, the user and the id of the session.
    #[must_use]
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Returns the session's id, unique within its user.
    #[must_use]
    pub fn id(&self) -> &str {
        self.key.session_id()
    }

    /// Returns the app's name.
    #[must_use]
    pub fn app_name(&self) -> &str {
        self.key.app_name()
    }

    /// Returns the user's id.
    #[must_use]
    pub fn user_id(&self) -> &str {
        self.key.user_id()
    }

    /// Returns the merged state: session, `user:` and `app:` keys, and the `temp:` keys of events appended to this
    /// snapshot.
    #[must_use]
    pub fn state(&self) -> &StateMap {
        &self.state
    }

    /// Returns the events that were requested, in the store's order.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Returns the creation time, in seconds since 1970, to the microsecond; `None` if the store does not report it.
    #[must_use]
    pub fn create_time(&self) -> Option<f64> {
        self.create_time
    }

    /// Returns the timestamp of the last appended event, in seconds since 1970, to the microsecond; before the first
    /// event, the creation time.
    #[must_use]
    pub fn last_update_time(&self) -> f64 {
        self.last_update_time
    }

    /// Returns the expiry time, in seconds since 1970, to the microsecond; `None` means never.
    #[must_use]
    pub fn expire_time(&self) -> Option<f64> {
        self.expire_time
    }

    /// Returns how many bytes of JSON the store kept for this session when it was read. All events that were not pruned
    /// count, whether they were read or not, and so does the initial state, unless it is empty. The events of a fork
    /// are copies and count. The current values of the session's keys do not count again, and neither do the keys of
    /// its user and its app; artifacts count only for [quotas](crate::plan::limits::Limits::user_bytes). `None` if the
    /// store does not count.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<u64> {
        self.stored_bytes
    }

    /// Returns the title shown to people, as of this read; never empty.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.metadata.title.as_deref()
    }

    /// Returns the labels that programs search by, by name.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.metadata.labels
    }

    /// Returns the title and the labels.
    #[must_use]
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the number of the last event up to which this snapshot is complete. It is 0 if there are no events, and
    /// if the store does not count them; see [`known_seq`](Self::known_seq).
    ///
    /// If other writers appended events in between, an append to this snapshot does not advance this number. The
    /// numbers of the events then have a gap, which [`refresh`](SessionServiceExt::refresh) closes.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seen.seq()
    }

    /// Returns [`seq`](Self::seq), or `None` if the number is unknown, because the store does not number events (such
    /// as Vertex AI) and only a part of the events was read.
    #[must_use]
    pub fn known_seq(&self) -> Option<u64> {
        self.is_counted.then(|| self.seq())
    }

    /// Returns the version that this snapshot has seen: everything committed before the snapshot was read, and the
    /// snapshot's own writes since then. Appends with optimistic locking, [per key](ConflictMode::ByKey) or [per
    /// session](ConflictMode::BySession), compare with this version.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Returns the keys that are marked as secret.
    #[must_use]
    pub fn secret_keys(&self) -> &SecretKeys {
        &self.secret
    }

    /// Returns the last event up to which this snapshot is complete.
    fn last_seen(&self) -> Option<&Arc<Event>> {
        self.events.iter().rev().find(|event| event.seq.is_some_and(|seq| seq <= self.seq()))
    }

    /// Replaces this snapshot with a fresh one, whose events were read from the last seen event on. Returns `false` if
    /// that event is a different one now, because the session was deleted and created again.
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
        let after = self.events.iter().rev().take_while(|event| event.seq != seq).count();
        let kept = self.events.len().saturating_sub(after + 1);
        let mut events = self.events.slice(0, kept);
        fresh.events.iter().for_each(|event| events.insert(events.len(), Arc::clone(event)));
        *self = fresh.with_events(events);
        true
    }

    /// Applies a committed append of this snapshot's owner, unless it has been applied already.
    ///
    /// An event can arrive after one with a higher number, if the response to its append was lost and the append was
    /// retried. The later event's changes then win.
    #[doc(hidden)]
    pub fn apply(&mut self, committed: &Committed, temp: &StateDelta) {
        let Committed { event, logs, .. } = committed;
        // An event without a number is recognized by its id, and the count is unknown from then on.
        let Some(seq) = event.seq else {
            self.is_counted = false;
            if !self.has_event(event) {
                self.take_over(event, temp, &[]);
            }
            return;
        };
        if !self.has_event(event) {
            let later: Vec<_> =
                self.events.iter().rev().take_while(|known| known.seq.unwrap_or_default() > seq).cloned().collect();
            self.take_over(event, temp, &later);
        }
        self.has_written(event, *logs);
    }

    /// Whether this snapshot includes an event: by its number, or by its id if the store does not number events.
    #[doc(hidden)]
    #[must_use]
    pub fn has_event(&self, event: &Event) -> bool {
        let Some(seq) = event.seq else {
            return self.events.iter().any(|known| known.id == event.id);
        };
        let mut later = self.events.iter().rev().take_while(|known| known.seq.unwrap_or_default() >= seq);
        seq <= self.seq() || later.any(|known| known.seq == event.seq)
    }

    /// Applies `temp:` changes that no event carries.
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
        let index = self.events.len() - later.len();
        self.events.insert(index, Arc::clone(event));
        // To skip earlier events, an iterator would visit each of them.
        let following = (index..self.events.len()).filter_map(|index| self.events.get(index)?.seq);
        for number in following {
            if number == self.seen.seq() + 1 {
                self.seen.set_seq(number);
            }
        }
    }

    /// Marks the keys that this snapshot's own event wrote as seen, at the position of that write. The positions of the
    /// logs as a whole do not advance, because writes of others before that position were not seen.
    fn has_written(&mut self, event: &Event, logs: LogPositions) {
        let seq = event.seq.unwrap_or_default();
        event.actions.state_delta.iter().for_each(|(key, _)| self.seen.add_own(key, seq, logs));
    }
}

/// If any keys are secret, fields that may hold their values are shown as counts only.
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

/// Converts seconds to microseconds, the precision of all times that are used for ordering.
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

/// A sequence of events in the store's order; clones share the events.
#[derive(Clone, Default, PartialEq)]
pub struct Events(Arc<Vector<Arc<Event>>>);

impl Events {
    /// Returns the number of events here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no events here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the event at this index, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<Event>> {
        self.0.get(index)
    }

    /// Returns the last event.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Event>> {
        self.0.last()
    }

    /// Inserts an event at an index. Clones that share these events do not change.
    pub(crate) fn insert(&mut self, index: usize, event: Arc<Event>) {
        let events = Arc::make_mut(&mut self.0);
        // Nearly every event goes to the end, where insertion is cheap.
        if index == events.len() { events.push_back(event) } else { events.insert(index, event) }
    }

    pub(crate) fn push_back(&mut self, event: Arc<Event>) {
        Arc::make_mut(&mut self.0).push_back(event);
    }

    /// Returns the events from the index `from` up to the index `to`, which is excluded.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        Self(Arc::new(Vector::clone(&self.0).slice(from..to)))
    }

    /// Returns the events, oldest first.
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
