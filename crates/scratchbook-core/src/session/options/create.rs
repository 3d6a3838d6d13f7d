//! Options for creating and forking sessions, and the initial state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::event::{Event, check_timestamp};
use crate::session::check::both;
use crate::session::{StateCheck, micros_of_seconds};

/// Options for creating a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CreateSessionConfig {
    /// The id; if empty or absent, the service generates one.
    pub session_id: Option<String>,
    /// The sessions among which the id has to be unique.
    pub id_scope: IdScope,
    /// The initial state, a JSON object of prefixed keys; `temp:` keys are dropped.
    pub state: Value,
    /// Initial events, committed together with the session, as if appended one by one.
    pub events: Vec<Event>,
    /// How the `user:` and `app:` keys of the initial state and events are treated.
    pub shared_keys: SharedKeys,
    /// The creation time, in seconds since 1970; if absent, now. Set it for imported sessions.
    pub create_time: Option<f64>,
    /// When the session expires; if absent, never.
    pub expiry: Option<Expiry>,
    /// The title shown to people; if empty or absent, there is none.
    pub title: Option<String>,
    /// The labels that programs search by: names and values.
    pub labels: BTreeMap<String, String>,
    /// A check that can refuse the resulting state and events.
    pub check: Option<Arc<dyn StateCheck>>,
}

/// The sessions among which an id has to be unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdScope {
    /// Sessions of the same user: another user may have a session with the same id.
    #[default]
    User,
    /// Sessions of all users of the app.
    App,
}

/// How the `user:` and `app:` keys of a new session's initial state and events are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedKeys {
    /// They are written, as by any creation and any append.
    #[default]
    Written,
    /// They are not written: values from an imported session may be stale. The events still contain them.
    Left,
}

/// When a session expires. From then on it behaves as if it were deleted;
/// [`prune`](crate::session::SessionService::prune) frees its storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expiry {
    /// At this time, in seconds since 1970.
    At(f64),
    /// This long after the expiry is set, by the store's clock.
    After(Duration),
}

impl Expiry {
    /// Returns the expiry time, in whole microseconds since 1970.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid time.
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
    /// Sets the id.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Refuses creation with `AlreadyExists` if any user of the app has a session with this id.
    ///
    /// If several such creations of one id run at the same time, from any process, exactly one succeeds. A creation
    /// without this option, and a fork, check only the ids of their own user: to keep ids unique in an app, create all
    /// its sessions with this option.
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

    /// Sets the initial state: `json!({...})` of prefixed keys.
    #[must_use]
    pub fn with_state(mut self, state: impl Into<Value>) -> Self {
        self.state = state.into();
        self
    }

    /// Sets the initial events.
    #[must_use]
    pub fn with_events(mut self, events: Vec<Event>) -> Self {
        self.events = events;
        self
    }

    /// Leaves the keys of the user and the app unchanged.
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

    /// Adds a check that runs in the commit, after those already set.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// Sets the creation time, in seconds since 1970, kept to the microsecond.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self
    }

    /// Sets a title of at most 2,048 bytes; an empty one means no title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds a label. There are at most 64, with names of at most 256 bytes and values of at most 512.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Lets the session expire this long after its creation.
    #[must_use]
    pub fn with_time_to_live(mut self, span: Duration) -> Self {
        self.expiry = Some(Expiry::After(span));
        self
    }

    /// Lets the session expire at a time, in seconds since 1970.
    #[must_use]
    pub fn with_expire_time(mut self, seconds: f64) -> Self {
        self.expiry = Some(Expiry::At(seconds));
        self
    }
}

/// The state with which the fold of a session's events starts. It contains only the session's own keys, without prefix.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InitialState {
    /// The number of the last event that is part of this state: 0 for the state at creation; higher if events up to
    /// that number were pruned.
    pub seq: u64,
    /// The keys and their values.
    pub state: Map<String, Value>,
}

impl InitialState {
    /// Creates the state after the event with this number. For store implementations, including your own.
    #[must_use]
    pub fn new(seq: u64, state: Map<String, Value>) -> Self {
        Self { seq, state }
    }
}

/// Options for forking a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ForkConfig {
    /// The number of the last event to copy, 0 for none; if absent, all events are copied.
    pub at: Option<u64>,
    /// The id of the new session; if empty or absent, the service generates one.
    pub session_id: Option<String>,
}

impl ForkConfig {
    /// Copies the events up to this number.
    #[must_use]
    pub fn at(seq: u64) -> Self {
        Self { at: Some(seq), session_id: None }
    }

    /// Sets the id of the new session.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}
