//! Reads: options turned into a query, the same for every store.

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

/// The maximum number of sessions in a page.
const MAX_PAGE_SIZE: usize = 1000;

/// The maximum number of sessions scanned for a page of a filtered list: as many as a page may have.
const MOST_SCANNED: usize = MAX_PAGE_SIZE;

/// Which events of a session to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventQuery {
    /// No events.
    None,
    /// Every event.
    All,
    /// This many of the last events.
    Last(usize),
    /// Events at or after this time, in seconds since 1970. If there is a count, only the last of these events, at most
    /// this many.
    Since(f64, Option<usize>),
    /// The first events whose number is greater than the first field. The second field is the maximum number of events.
    After(u64, usize),
    /// The last events whose number is less than the first field. The second field is the maximum number of events.
    Before(u64, usize),
}

impl EventQuery {
    /// Builds the query for a read's options.
    ///
    /// # Errors
    ///
    /// As [`GetSessionConfig::check`].
    pub fn new(config: &GetSessionConfig) -> Result<Self> {
        config.check()?;
        // If only bytes limit the read, the last events are returned.
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

    /// Selects the events of this query that fit into a page of this many bytes, in order: for [`After`](Self::After)
    /// the first ones, otherwise the last ones.
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

    /// Returns the maximum number of events.
    pub fn limit(self) -> usize {
        match self {
            Self::None => 0,
            Self::All => usize::MAX,
            Self::Since(_, count) => count.unwrap_or(usize::MAX),
            Self::Last(limit) | Self::After(_, limit) | Self::Before(_, limit) => limit,
        }
    }

    /// Returns the same query with a smaller maximum.
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

/// Returns bounds for reading the last `count` events at or after a time. If the number of matching events reaches the
/// first bound, a store searches by event number instead of by time, and goes back no further than the second bound.
/// Both bounds grow only with `count`. `None` if all events are requested.
pub fn since_bounds(count: usize) -> Option<(usize, usize)> {
    Some((count.checked_mul(4)?, count.checked_mul(64)?))
}

/// Which keys of the state to read: all, or these names of each scope.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StateQuery {
    /// Every key.
    All,
    /// These names, without prefix.
    Names {
        /// Keys of the session.
        session: BTreeSet<String>,
        /// Keys of the user.
        user: BTreeSet<String>,
        /// Keys of the app.
        app: BTreeSet<String>,
    },
}

impl StateQuery {
    /// Returns the query for a selection of keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid key.
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

    /// Returns the requested names of one scope; `None` for all.
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

/// Which page of a list to read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListQuery {
    /// Only sessions of this user.
    pub user_id: Option<String>,
    /// The filter of sessions.
    pub filter: SessionFilter,
    /// Which sessions come first.
    pub order: ListOrder,
    /// The maximum number of sessions.
    pub limit: usize,
    /// The maximum number of bytes in the page.
    pub bytes: u64,
    /// The position after which the page begins.
    pub after: Option<ListPosition>,
}

/// A position in a list, ordered by update time, then user, then id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// The session's update time, in microseconds since 1970.
    pub micros: i64,
    /// The session's user.
    pub user_id: String,
    /// The session's id.
    pub session_id: String,
}

impl ListQuery {
    /// Builds the query for a list's options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid page size, user id or token, and a title or labels that no session can have.
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

    /// Returns the same query with fewer sessions in a page.
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Returns how many sessions to read, in the list's order, so that [`pick`](Self::pick) can fill a page.
    #[must_use]
    pub fn scan_limit(&self) -> usize {
        if self.filter.is_empty() { self.limit + 1 } else { MOST_SCANNED + 1 }
    }

    /// Picks the sessions of a page from those after [`after`](Self::after), in the list's order, and returns the token
    /// of the next page.
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

    /// Cuts a picked page after the session that fills it, given the bytes of each session. Returns the token of the
    /// next page if the page was cut.
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

    /// Whether a position comes after the previous page.
    #[must_use]
    pub fn is_after(&self, place: &ListPosition) -> bool {
        self.after.as_ref().is_none_or(|after| match self.order {
            ListOrder::OldestFirst => place > after,
            ListOrder::NewestFirst => place < after,
        })
    }

    /// Sorts sessions into the list's order.
    pub fn sort<T>(&self, sessions: &mut [(ListPosition, T)]) {
        match self.order {
            ListOrder::OldestFirst => sessions.sort_by(|(a, _), (b, _)| a.cmp(b)),
            ListOrder::NewestFirst => sessions.sort_by(|(a, _), (b, _)| b.cmp(a)),
        }
    }

    /// Returns the position after which the page begins; for the first page, a position before all sessions.
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
    /// Returns the token of the page after this position.
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

    /// Returns the same position in the list of one user. A position of another user becomes the position before or
    /// after all of this user's sessions with the same update time.
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
