//! What a read reads: options turned into a plan, the same for every store.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::filter::SessionFilter;
use super::room::Room;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::json::bytes_of;
use crate::session::{
    EventCursor, Events, GetSessionConfig, ListOrder, ListSessionsConfig, SessionMetadata, StateSelection, check_id,
};
use crate::state::{Scope, check_key};

/// How many sessions a page may have.
const MAX_PAGE_SIZE: usize = 1000;

/// How many sessions are looked at for a page where only some are wanted: as many as a page may have.
const MOST_SCANNED: usize = MAX_PAGE_SIZE;

/// Which events of a session are read.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        // Of what is bounded by its bytes alone, the last events are given.
        let count = config.num_recent_events.or(config.page_bytes.map(|_| usize::MAX));
        Ok(match (config.cursor, count, config.after_timestamp) {
            (Some(EventCursor::After { seq, limit }), ..) => Self::After(seq, limit),
            (Some(EventCursor::Before { seq, limit }), ..) => Self::Before(seq, limit),
            (None, Some(0), _) => Self::None,
            (None, count, Some(seconds)) => Self::Since(seconds, count),
            (None, Some(count), None) => Self::Last(count),
            (None, None, None) => Self::All,
        })
    }

    /// Of the events that this asks for, in their order, those that a page of this many bytes has room for: the first
    /// after a number, otherwise the last.
    #[must_use]
    pub fn fit(self, events: Events, page_bytes: Option<u64>) -> Events {
        let Some(bytes) = page_bytes else { return events };
        let (mut room, len) = (Room::new(bytes), events.len());
        let fits = |event: &&Arc<Event>| room.takes(bytes_of(&***event));
        let (from, to) = match self {
            Self::After(..) => (0, events.iter().take_while(fits).count()),
            _ => (len - events.iter().rev().take_while(fits).count(), len),
        };
        if (from, to) == (0, len) { events } else { events.slice(from, to) }
    }

    /// How many events at most.
    pub fn limit(self) -> usize {
        match self {
            Self::None => 0,
            Self::All => usize::MAX,
            Self::Since(_, count) => count.unwrap_or(usize::MAX),
            Self::Last(limit) | Self::After(_, limit) | Self::Before(_, limit) => limit,
        }
    }

    /// The same with fewer events.
    pub fn with_limit(self, limit: usize) -> Self {
        match self {
            Self::None => Self::None,
            Self::All | Self::Last(_) => Self::Last(limit),
            Self::Since(seconds, _) => Self::Since(seconds, Some(limit)),
            Self::After(seq, _) => Self::After(seq, limit),
            Self::Before(seq, _) => Self::Before(seq, limit),
        }
    }
}

/// For the last `count` events from a time on: how many matches are many, and how far back to look for the last of
/// them by number. Both grow with what is returned alone. `None` where all are wanted.
pub fn since_bounds(count: usize) -> Option<(usize, usize)> {
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
    /// Which sessions are wanted.
    pub filter: SessionFilter,
    /// Which of them come first.
    pub order: ListOrder,
    /// How many sessions at most.
    pub limit: usize,
    /// After how many bytes the page ends.
    pub bytes: u64,
    /// The place after which the page begins.
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
    /// `InvalidArgument` for a bad page size, user id or token, and a title or labels that no session could have.
    pub fn new(config: &ListSessionsConfig) -> Result<Self> {
        let limit = config.page_size;
        if limit == 0 || limit > MAX_PAGE_SIZE {
            return Err(Error::invalid(format!("a page size of {limit}; it is 1 to {MAX_PAGE_SIZE}")));
        }
        if let Some(user_id) = &config.user_id {
            check_id("user id", user_id)?;
        }
        let filter = SessionFilter::new(config)?;
        let after = config.page_token.as_deref().map(ListPosition::from_token).transpose()?;
        let after = after.map(|after| after.among(config.user_id.as_deref()));
        let (user_id, bytes) = (config.user_id.clone(), config.page_bytes);
        Ok(Self { user_id, filter, order: config.order, limit, bytes, after })
    }

    /// The same with fewer sessions in a page.
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// How many sessions have to be looked at, in the list's order, for [`pick`](Self::pick) to find a page.
    #[must_use]
    pub fn scan_limit(&self) -> usize {
        if self.filter.is_empty() { self.limit + 1 } else { MOST_SCANNED + 1 }
    }

    /// Picks the sessions of a page from those after [`after`](Self::after), in the list's order, and gives the token of
    /// the next page.
    pub fn pick<T>(
        &self,
        sessions: impl IntoIterator<Item = (ListPosition, T)>,
        metadata: impl Fn(&T) -> &SessionMetadata,
    ) -> (Vec<(ListPosition, T)>, Option<String>) {
        let (mut page, mut last) = (Vec::new(), None);
        for (number, (place, session)) in sessions.into_iter().enumerate() {
            let is_wanted = self.filter.matches(metadata(&session));
            if number == MOST_SCANNED || (is_wanted && page.len() == self.limit) {
                return (page, last.as_ref().map(ListPosition::to_token));
            }
            last = Some(place.clone());
            if is_wanted {
                page.push((place, session));
            }
        }
        (page, None)
    }

    /// Ends a page that was picked at the session that fills it, by the bytes of each of its sessions, and gives the token of the next
    /// page then.
    pub fn fit<T>(
        &self,
        mut page: Vec<(ListPosition, T)>,
        token: Option<String>,
        mut bytes: impl FnMut(&ListPosition, &T) -> u64,
    ) -> (Vec<(ListPosition, T)>, Option<String>) {
        let mut room = Room::new(self.bytes);
        let count = page.iter().take_while(|(place, session)| room.takes(bytes(place, session))).count();
        if count == page.len() {
            return (page, token);
        }
        page.truncate(count);
        let token = page.last().map(|(place, _)| place.to_token());
        (page, token)
    }

    /// Whether a place comes after the page before.
    #[must_use]
    pub fn is_after(&self, place: &ListPosition) -> bool {
        self.after.as_ref().is_none_or(|after| match self.order {
            ListOrder::OldestFirst => place > after,
            ListOrder::NewestFirst => place < after,
        })
    }

    /// Puts sessions into the list's order.
    pub fn sort<T>(&self, sessions: &mut [(ListPosition, T)]) {
        match self.order {
            ListOrder::OldestFirst => sessions.sort_by(|(a, _), (b, _)| a.cmp(b)),
            ListOrder::NewestFirst => sessions.sort_by(|(a, _), (b, _)| b.cmp(a)),
        }
    }

    /// The place after which the page begins, which every list has.
    pub fn start(&self) -> ListPosition {
        let micros = match self.order {
            ListOrder::OldestFirst => i64::MIN,
            ListOrder::NewestFirst => i64::MAX,
        };
        let user_id = self.user_id.clone().unwrap_or_default();
        self.after.clone().unwrap_or(ListPosition { micros, user_id, session_id: String::new() })
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

    /// The same place in the list of one user: another user's stands before or after all of this user's with its time.
    fn among(self, user_id: Option<&str>) -> Self {
        let Some(user_id) = user_id else { return self };
        let (micros, session_id) = match self.user_id.as_str().cmp(user_id) {
            Ordering::Less => (self.micros, String::new()),
            Ordering::Equal => (self.micros, self.session_id),
            Ordering::Greater => (self.micros.saturating_add(1), String::new()),
        };
        Self { micros, user_id: user_id.to_owned(), session_id }
    }
}
