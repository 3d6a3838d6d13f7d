//! What a read reads: options turned into a plan, the same for every store.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, Result};
use crate::session::{EventCursor, GetSessionConfig, ListSessionsConfig, StateSelection, check_id};
use crate::state::{Scope, check_key};

/// How many sessions a page may have.
const MAX_PAGE_SIZE: usize = 1000;

/// Which events of a session are read.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventQuery {
    /// No event.
    None,
    /// Every event.
    All,
    /// The last so many.
    Last(usize),
    /// From this time on, in seconds, inclusive; the last so many of them.
    Since(f64, Option<usize>),
    /// The first so many with a number above this one.
    After(u64, usize),
    /// The last so many with a number below this one.
    Before(u64, usize),
}

impl EventQuery {
    /// What a configuration asks for.
    ///
    /// # Errors
    ///
    /// As [`GetSessionConfig::check`].
    pub fn new(config: &GetSessionConfig) -> Result<Self> {
        config.check()?;
        Ok(match (config.cursor, config.num_recent_events, config.after_timestamp) {
            (Some(EventCursor::After { seq, limit }), ..) => Self::After(seq, limit),
            (Some(EventCursor::Before { seq, limit }), ..) => Self::Before(seq, limit),
            (None, Some(0), _) => Self::None,
            (None, count, Some(seconds)) => Self::Since(seconds, count),
            (None, Some(count), None) => Self::Last(count),
            (None, None, None) => Self::All,
        })
    }
}

/// For the last `count` events from a time on: how many matches are many, and how far back to look for the last of
/// them by number. Both grow with what is returned alone. `None` where all are wanted.
pub(crate) fn since_bounds(count: usize) -> Option<(usize, usize)> {
    Some((count.checked_mul(4)?, count.checked_mul(64)?))
}

/// Which keys of the state are read: all, or these names of each scope.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StateQuery {
    /// Every key.
    All,
    /// These names, without prefix.
    Names {
        /// The session's.
        session: BTreeSet<String>,
        /// The user's.
        user: BTreeSet<String>,
        /// The app's.
        app: BTreeSet<String>,
    },
}

impl StateQuery {
    /// What a selection asks for.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn new(selection: &StateSelection) -> Result<Self> {
        let StateSelection::Keys(keys) = selection else {
            return Ok(Self::All);
        };
        let [mut session, mut user, mut app] = [const { BTreeSet::new() }; 3];
        for key in keys {
            check_key(key)?;
            let (scope, name) = Scope::split(key);
            let names = match scope {
                Scope::Session => &mut session,
                Scope::User => &mut user,
                Scope::App => &mut app,
                Scope::Temp => continue,
            };
            names.insert(name.to_owned());
        }
        Ok(Self::Names { session, user, app })
    }

    /// The names wanted of one scope; `None` for all.
    #[must_use]
    pub fn names(&self, scope: Scope) -> Option<&BTreeSet<String>> {
        match (self, scope) {
            (Self::All, _) | (_, Scope::Temp) => None,
            (Self::Names { session, .. }, Scope::Session) => Some(session),
            (Self::Names { user, .. }, Scope::User) => Some(user),
            (Self::Names { app, .. }, Scope::App) => Some(app),
        }
    }
}

/// Which page of a list is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListQuery {
    /// Of this user alone.
    pub user_id: Option<String>,
    /// How many sessions at most.
    pub limit: usize,
    /// The place of the last session of the page before.
    pub after: Option<ListPosition>,
}

/// A place in a list: the order is by update time, then user, then id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// The session's update time, in microseconds since 1970.
    pub micros: i64,
    /// Its user.
    pub user_id: String,
    /// Its id.
    pub session_id: String,
}

impl ListQuery {
    /// What a configuration asks for.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad page size, user id or token.
    pub fn new(config: &ListSessionsConfig) -> Result<Self> {
        let limit = config.page_size;
        if limit == 0 || limit > MAX_PAGE_SIZE {
            return Err(Error::invalid(format!("a page size of {limit}; it is 1 to {MAX_PAGE_SIZE}")));
        }
        if let Some(user_id) = &config.user_id {
            check_id("user id", user_id)?;
        }
        let after = config.page_token.as_deref().map(ListPosition::from_token).transpose()?;
        Ok(Self { user_id: config.user_id.clone(), limit, after })
    }
}

impl ListPosition {
    /// The token that asks for what comes after this place.
    #[must_use]
    pub fn to_token(&self) -> String {
        let text = serde_json::json!([self.micros, self.user_id, self.session_id]).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }

    fn from_token(token: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        let parsed = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let (micros, user_id, session_id) =
            parsed.ok_or_else(|| Error::invalid("the page token is none that a list has given; start without one"))?;
        Ok(Self { micros, user_id, session_id })
    }
}
