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
pub(crate) enum EventQuery {
    None,
    All,
    Last(usize),
    /// From this time on, in seconds, inclusive; the last so many of them.
    Since(f64, Option<usize>),
    After(u64, usize),
    Before(u64, usize),
}

impl EventQuery {
    pub(crate) fn new(config: &GetSessionConfig) -> Result<Self> {
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

/// Which keys of the state are read: all, or these names of each scope.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StateQuery {
    All,
    Names { session: BTreeSet<String>, user: BTreeSet<String>, app: BTreeSet<String> },
}

impl StateQuery {
    pub(crate) fn new(selection: &StateSelection) -> Result<Self> {
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
    pub(crate) fn names(&self, scope: Scope) -> Option<&BTreeSet<String>> {
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
pub(crate) struct ListQuery {
    pub(crate) user_id: Option<String>,
    pub(crate) limit: usize,
    pub(crate) after: Option<ListPosition>,
}

/// A place in a list: the order is by update time, then user, then id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition {
    pub(crate) micros: i64,
    pub(crate) user_id: String,
    pub(crate) session_id: String,
}

impl ListQuery {
    pub(crate) fn new(config: &ListSessionsConfig) -> Result<Self> {
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
    pub(crate) fn to_token(&self) -> String {
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
