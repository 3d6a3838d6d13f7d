//! How sessions are made, and what they begin with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::event::{Event, check_timestamp};
use crate::session::check::both;
use crate::session::{StateCheck, micros_of_seconds};

/// How a session is made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CreateSessionConfig {
    /// The id; empty or absent, the service makes one.
    pub session_id: Option<String>,
    /// Among whose sessions the id has to be a new one.
    pub id_scope: IdScope,
    /// The state to start with, a JSON object of prefixed keys; `temp:` keys are dropped.
    pub state: Value,
    /// Events to begin with, committed together with the session, as if appended one by one.
    pub events: Vec<Event>,
    /// What becomes of the `user:` and `app:` keys of the state and the events.
    pub shared_keys: SharedKeys,
    /// When it was made, in seconds since 1970; absent, now. For sessions that come from elsewhere.
    pub create_time: Option<f64>,
    /// When it ends; absent, never.
    pub expiry: Option<Expiry>,
    /// What people know it by; empty or absent, nothing.
    pub title: Option<String>,
    /// What programs find it by, by name.
    pub labels: BTreeMap<String, String>,
    /// What refuses it for what its state and events come to.
    pub check: Option<Arc<dyn StateCheck>>,
}

/// Among whose sessions an id has to be a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdScope {
    /// Those of the user: another user may have a session with the same id.
    #[default]
    User,
    /// Those of all users of the app.
    App,
}

/// What becomes of the `user:` and `app:` keys of the state and the events that a session begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedKeys {
    /// They are written, as by any creation and any append.
    #[default]
    Written,
    /// They stay as they are: in a session that comes from elsewhere they are old. Its events keep theirs in what is
    /// read of them.
    Left,
}

/// When a session ends. From then on it is as if it had been deleted; what it occupies is freed by
/// [`delete_expired`](crate::session::SessionService::delete_expired).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expiry {
    /// At a time, in seconds since 1970.
    At(f64),
    /// So long after it is set, by the store's clock.
    After(Duration),
}

impl Expiry {
    /// The time in microseconds since 1970, rounded up to whole ones.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for what is no time in seconds.
    pub fn micros(self, now: impl FnOnce() -> f64) -> Result<i64> {
        let seconds = match self {
            Self::At(seconds) => seconds,
            Self::After(span) => now() + span.as_secs_f64(),
        };
        check_timestamp(seconds).map_err(|e| e.context("the time at which a session expires"))?;
        Ok(micros_of_seconds(seconds))
    }
}

impl CreateSessionConfig {
    /// With an id.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Refused with `AlreadyExists` where any user of the app has a session with this id.
    ///
    /// Of several such creations of one id at the same time, from wherever, one succeeds. A creation without this, and a
    /// fork, look at the ids of their user alone: an app in which ids are to be unique makes all its sessions with it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
    /// use scratchbook::{CreateSessionConfig, ErrorKind, SessionService, connect};
    ///
    /// let service = connect("memory:").await?.sessions;
    /// let config = CreateSessionConfig::default().with_session_id("ticket-7").with_id_unique_in_app();
    /// service.create_session("shop", "alice", config.clone()).await?;
    /// let refused = service.create_session("shop", "bob", config).await;
    /// assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::AlreadyExists));
    /// let found = service.locate_session("shop", "ticket-7").await?;
    /// assert_eq!(found.map(|key| key.to_string()).as_deref(), Some("shop/alice/ticket-7"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_id_unique_in_app(mut self) -> Self {
        self.id_scope = IdScope::App;
        self
    }

    /// With state: `json!({...})` of prefixed keys.
    #[must_use]
    pub fn with_state(mut self, state: impl Into<Value>) -> Self {
        self.state = state.into();
        self
    }

    /// With events to begin with.
    #[must_use]
    pub fn with_events(mut self, events: Vec<Event>) -> Self {
        self.events = events;
        self
    }

    /// With the keys of the user and the app left as they are.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
    /// use scratchbook::{CreateSessionConfig, Event, SessionService, StateDelta, connect};
    ///
    /// let service = connect("memory:").await?.sessions;
    /// let said = Event::new("agent").with_state_delta(StateDelta::new().with("step", 2)?.with("user:lang", "fr")?);
    /// let config = CreateSessionConfig::default().with_events(vec![said]).with_shared_keys_left();
    /// let session = service.create_session("app", "alice", config).await?;
    /// assert!(session.state().contains("step") && !session.state().contains("user:lang"));
    /// assert!(session.events().get(0).is_some_and(|event| event.actions.state_delta.contains("user:lang")));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_shared_keys_left(mut self) -> Self {
        self.shared_keys = SharedKeys::Left;
        self
    }

    /// Checked in its commit, after what checks it already.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// Made at another time than now, in seconds since 1970, kept to the microsecond.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self
    }

    /// With a title of at most 2,048 bytes; an empty one is none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// With one label more. There are at most 64, with names of at most 256 bytes and values of at most 512.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// It ends so long after it was made.
    #[must_use]
    pub fn with_time_to_live(mut self, span: Duration) -> Self {
        self.expiry = Some(Expiry::After(span));
        self
    }

    /// It ends at a time, in seconds since 1970.
    #[must_use]
    pub fn with_expire_time(mut self, seconds: f64) -> Self {
        self.expiry = Some(Expiry::At(seconds));
        self
    }
}

/// The state with which the fold of a session's events begins: its own keys alone, without prefix.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InitialState {
    /// The number of the last event that is folded into it: 0 for the state the session was made with; events up to
    /// there were pruned.
    pub seq: u64,
    /// The keys and their values.
    pub state: Map<String, Value>,
}

impl InitialState {
    /// State after the event with a number; for stores, yours among them.
    #[must_use]
    pub fn new(seq: u64, state: Map<String, Value>) -> Self {
        Self { seq, state }
    }
}

/// How a session is forked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ForkConfig {
    /// The number of the last event that is taken over, 0 for none; absent, all are.
    pub at: Option<u64>,
    /// The id of the new session; empty or absent, the service makes one.
    pub session_id: Option<String>,
}

impl ForkConfig {
    /// With the events up to this number.
    #[must_use]
    pub fn at(seq: u64) -> Self {
        Self { at: Some(seq), session_id: None }
    }

    /// With an id for the new session.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}
