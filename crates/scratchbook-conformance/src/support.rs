//! Helpers of the promises: a separate app on the store, and calls that have to succeed.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Committed, CreateSessionConfig, GetSessionConfig, ListSessionsConfig, Session, SessionKey,
    SessionService, StateOwner,
};
use scratchbook_core::state::{Scope, StateDelta};
use scratchbook_core::store::Store;

/// Names that some database or file system confuses, or treats specially.
pub(super) const NAMES: &[&str] = &[
    "cart",
    "Cart",
    "CART",
    "c\u{e9}",
    "ce\u{301}",
    "\u{df}",
    "ss",
    "\u{130}",
    "i",
    "\u{1f6d2}",
    "\u{fb01}",
    "fi",
    "100%",
    "100_",
    "1000",
    "it's",
    "its",
    "\"quoted\"",
    "'; DROP TABLE sessions; --",
    "a/b",
    "a\\b",
    "...",
    "NULL",
    "0",
    "00",
    "1e3",
    "cart\u{200b}",
    "*",
    "?",
    "$1",
    "{cart}",
];

/// An app that no other test on the store uses.
#[derive(Clone, Debug)]
pub(super) struct TestApp {
    pub(super) store: Store,
    pub(super) app: String,
}

impl TestApp {
    pub(super) fn new(store: &Store) -> Self {
        Self { store: store.clone(), app: format!("conformance-{}", Uuid::now_v7()) }
    }

    pub(super) fn sessions(&self) -> &Arc<dyn SessionService> {
        &self.store.sessions
    }

    pub(super) fn key(&self, user: &str, id: &str) -> SessionKey {
        SessionKey::new(&self.app, user, id).unwrap()
    }

    pub(super) async fn try_create(&self, user: &str, config: CreateSessionConfig) -> Result<Session> {
        self.sessions().create_session(&self.app, user, config).await
    }

    pub(super) async fn create(&self, user: &str, state: Value) -> Session {
        self.create_as(user, CreateSessionConfig::default().with_state(state)).await
    }

    pub(super) async fn create_as(&self, user: &str, config: CreateSessionConfig) -> Session {
        self.try_create(user, config).await.expect("create_session")
    }

    /// Creates a session and appends events to it, one by one.
    pub(super) async fn create_with(&self, user: &str, config: CreateSessionConfig, events: Vec<Event>) -> Session {
        let session = self.create_as(user, config).await;
        for event in events {
            self.append(session.key(), event).await;
        }
        session
    }

    /// Reads the whole session.
    pub(super) async fn get(&self, key: &SessionKey) -> Session {
        self.read(key, GetSessionConfig::default()).await
    }

    /// Reads a part of the session.
    pub(super) async fn read(&self, key: &SessionKey, config: GetSessionConfig) -> Session {
        let session = self.sessions().get_session(key, &config).await.expect("get_session");
        session.unwrap_or_else(|| panic!("the session {key} is not there"))
    }

    /// Returns the current merged state.
    pub(super) async fn state(&self, key: &SessionKey) -> Value {
        state(&self.read(key, GetSessionConfig::state_only()).await)
    }

    /// Returns the numbers of the events that are read.
    pub(super) async fn seqs(&self, key: &SessionKey, config: GetSessionConfig) -> Vec<u64> {
        self.numbers(&self.read(key, config).await).await
    }

    /// Returns the numbers of a session's events. If the store only reports them for whole sessions, the whole session
    /// is read, and the events are matched by id.
    pub(super) async fn numbers(&self, session: &Session) -> Vec<u64> {
        if session.events().iter().all(|event| event.seq.is_some()) {
            return seqs(session);
        }
        let whole = self.get(session.key()).await;
        let of = |event: &Arc<Event>| whole.events().iter().find(|known| known.id == event.id)?.seq;
        session.events().iter().map(|event| of(event).expect("an event that the whole session has")).collect()
    }

    /// Returns the number of an appended event, as reported or as in the whole session.
    pub(super) async fn number(&self, key: &SessionKey, committed: &Committed) -> Option<u64> {
        match committed.event.seq {
            Some(number) => Some(number),
            None => self.get(key).await.events().iter().find(|event| event.id == committed.event.id)?.seq,
        }
    }

    pub(super) async fn append(&self, key: &SessionKey, event: Event) -> Committed {
        self.try_append(key, event).await.expect("append")
    }

    pub(super) async fn try_append(&self, key: &SessionKey, event: Event) -> Result<Committed> {
        self.sessions().append(key, event, AppendOptions::default()).await
    }

    /// Appends an event that changes state.
    pub(super) async fn set(&self, key: &SessionKey, state: Value) -> Committed {
        self.append(key, changing(state)).await
    }

    pub(super) async fn list(&self, user: Option<&str>) -> Vec<Session> {
        let mut config = ListSessionsConfig::default().with_page_size(1000);
        config.user_id = user.map(str::to_owned);
        let page = self.sessions().list_sessions(&self.app, &config).await.expect("list_sessions");
        assert_eq!(page.next_page_token, None, "a page of {} sessions has another one after it", page.sessions.len());
        page.sessions
    }

    pub(super) fn user(&self, user: &str) -> StateOwner {
        StateOwner::user(&self.app, user).unwrap()
    }

    pub(super) fn app(&self) -> StateOwner {
        StateOwner::app(&self.app).unwrap()
    }

    pub(super) async fn user_state(&self, user: &str) -> Value {
        match self.sessions().get_state(&self.user(user)).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => self.seen_by(user, Scope::User).await,
            state => state.expect("get_state of a user").into(),
        }
    }

    pub(super) async fn app_state(&self) -> Value {
        match self.sessions().get_state(&self.app()).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => self.seen_by("somebody", Scope::App).await,
            state => state.expect("get_state of an app").into(),
        }
    }

    /// Returns the keys of a scope as a new session of a user shows them, for a store without shared state outside of
    /// sessions.
    async fn seen_by(&self, user: &str, scope: Scope) -> Value {
        let session = self.create(user, Value::Object(Map::new())).await;
        let seen = self.get(session.key()).await.state().scope_as(scope).expect("a scope");
        self.sessions().delete_session(session.key()).await.expect("delete_session");
        seen
    }
}

/// Returns events without their numbers, which some stores only report for whole sessions.
pub(super) fn unnumbered<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Vec<Event> {
    let unnumbered = |event: &Arc<Event>| {
        let mut event = event.as_ref().clone();
        event.seq = None;
        event
    };
    events.into_iter().map(unnumbered).collect()
}

/// Returns a delta that sets these keys.
pub(super) fn delta(state: Value) -> StateDelta {
    StateDelta::try_from(state).expect("a delta")
}

/// Returns a delta that removes these keys.
pub(super) fn removal(keys: &[&str]) -> StateDelta {
    let mut delta = StateDelta::new();
    keys.iter().for_each(|key| delta.remove(*key).expect("a removal"));
    delta
}

/// Returns an event that sets these keys.
pub(super) fn changing(state: Value) -> Event {
    Event::new("agent").with_state_delta(delta(state))
}

/// Returns an event with a text.
pub(super) fn saying(text: &str) -> Event {
    Event::new("user").with_content(text)
}

/// Returns the merged state as a JSON object.
pub(super) fn state(session: &Session) -> Value {
    session.state().to_map().into()
}

pub(super) fn seqs(session: &Session) -> Vec<u64> {
    session.events().iter().map(|event| event.seq.expect("a stored event has a number")).collect()
}

pub(super) fn ids(sessions: &[Session]) -> Vec<&str> {
    sessions.iter().map(Session::id).collect()
}

/// Asserts that two values are identical: `0.0` differs from `-0.0`, `1` from `1.0`, and the order of keys counts.
#[track_caller]
pub(super) fn assert_same(found: Option<&Value>, sent: &Value, what: &str) {
    let found = found.unwrap_or_else(|| panic!("{what}: it is not there"));
    let (found, sent) = (found.to_string(), sent.to_string());
    if found != sent {
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        panic!("{what}: sent {}, found {}", cut(&sent), cut(&found));
    }
}

/// Asserts that a call is refused with this kind.
#[track_caller]
pub(super) fn assert_refused<T: Debug>(result: Result<T>, kind: ErrorKind, what: &str) -> Error {
    match result {
        Ok(found) => panic!("{what} was to be refused as {kind}, and gave {found:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{what} was to be refused as {kind}, and gave: {error}");
            assert!(!error.to_string().is_empty(), "{what} was refused without a word");
            error
        }
    }
}
