//! Following a feed, as far as it goes and on from there.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use super::ext::no_session;
use super::feed::feed_name;
use super::{
    CommitNotices, FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, GetSessionConfig, SessionKey,
    SessionService, StateOwner,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;

/// How many entries are read at a time.
const PAGE: usize = 200;

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Watched {
    what: What,
    prefix: String,
}

#[derive(Clone, Debug)]
enum What {
    Owner(StateOwner),
    Session(SessionKey),
}

impl Watched {
    /// All sessions and keys of an app, and of its users.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad app name.
    pub fn app(app_name: &str) -> Result<Self> {
        Ok(StateOwner::app(app_name)?.into())
    }

    /// All sessions and keys of a user. What others do to the app's keys is in the app's feed alone.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad app name or user id.
    pub fn user(app_name: &str, user_id: &str) -> Result<Self> {
        Ok(StateOwner::user(app_name, user_id)?.into())
    }

    /// The events of one session. What other sessions do to the user's and the app's keys is in their feeds.
    #[must_use]
    pub fn session(key: SessionKey) -> Self {
        Self { what: What::Session(key), prefix: String::new() }
    }

    /// Only what changes a key that begins so, scope and all: `user:cart`, `app:`, or `step` for a session's own.
    #[must_use]
    pub fn with_key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    fn keep(&self, entries: &mut Vec<FeedEntry>) {
        let prefix = &self.prefix;
        entries.retain(|entry| prefix.is_empty() || entry.keys().iter().any(|key| key.starts_with(prefix)));
    }
}

impl From<StateOwner> for Watched {
    fn from(owner: StateOwner) -> Self {
        Self { what: What::Owner(owner), prefix: String::new() }
    }
}

/// Follows a feed: [`SessionServiceExt::watch`](super::SessionServiceExt::watch), or, to go on for longer than a borrow
/// of the service lasts, [`Watch::start`] with an `Arc` of it.
#[derive(Debug)]
pub struct Watch<S> {
    service: S,
    what: Watched,
    notices: CommitNotices,
    start: FeedStart,
    /// What was read already, and how far.
    ready: VecDeque<FeedEntry>,
    read: FeedCursor,
    /// After the entry that was given last.
    cursor: FeedCursor,
}

/// The cursor of a watch that began at the beginning and has given nothing yet: there is no place in the feed to name.
const BEGINNING: &str = "beginning";

impl<T: SessionService + ?Sized, S: Deref<Target = T> + Send + Sync> Watch<S> {
    /// Begins to follow a feed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another feed or database; `NotFound` for a session that is not there.
    pub async fn start(service: S, what: Watched, start: FeedStart) -> Result<Self> {
        let notices = service.commits()?;
        let start = match start {
            FeedStart::After(cursor) if cursor.as_str() == BEGINNING => FeedStart::Beginning,
            start => start,
        };
        let page = page(&*service, &what.what, &start, PAGE).await?;
        let cursor = match start {
            FeedStart::After(cursor) => cursor,
            FeedStart::Beginning => FeedCursor::new(BEGINNING),
            FeedStart::Now => page.cursor.clone(),
        };
        let start = FeedStart::After(page.cursor.clone());
        let mut watch =
            Self { service, what, notices, start, ready: VecDeque::new(), read: page.cursor.clone(), cursor };
        watch.take(page);
        Ok(watch)
    }

    /// The next entry, as soon as there is one. Dropping the call loses nothing.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the store was closed, or events that were not read yet were pruned from the session;
    /// `NotFound` where the session was deleted; `Unavailable` where the store cannot be reached just now: calling
    /// again goes on.
    pub async fn next(&mut self) -> Result<FeedEntry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                self.cursor = entry.cursor.clone();
                return Ok(entry);
            }
            self.cursor = self.read.clone();
            self.notices.forget();
            let page = page(&*self.service, &self.what.what, &self.start, PAGE).await?;
            let is_end = page.entries.is_empty();
            self.take(page);
            if is_end {
                // It may be long until there is more, and there may be many who wait.
                self.ready.shrink_to_fit();
                self.notices.next().await?;
            }
        }
    }

    /// Where another watch goes on from: after the entry that was given last, and all that did not match; from the
    /// beginning where this one began there and has given nothing yet.
    #[must_use]
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    fn take(&mut self, mut page: FeedPage) {
        self.start = FeedStart::After(page.cursor.clone());
        self.read = page.cursor;
        self.what.keep(&mut page.entries);
        self.ready.extend(page.entries);
    }
}

/// A page of what a [`Watch`] would give, without waiting for more.
pub(super) async fn list<T: SessionService + ?Sized>(
    service: &T,
    what: &Watched,
    start: &FeedStart,
    limit: usize,
) -> Result<FeedPage> {
    let start = match start {
        FeedStart::After(cursor) if cursor.as_str() == BEGINNING => &FeedStart::Beginning,
        start => start,
    };
    let mut page = page(service, &what.what, start, limit).await?;
    what.keep(&mut page.entries);
    Ok(page)
}

async fn page<T: SessionService + ?Sized>(
    service: &T,
    what: &What,
    start: &FeedStart,
    limit: usize,
) -> Result<FeedPage> {
    match what {
        What::Owner(owner) => service.list_feed(owner, start, limit).await,
        What::Session(key) => match start {
            FeedStart::Beginning => events_after(service, key, None, limit).await,
            FeedStart::Now => now(service, key).await,
            FeedStart::After(cursor) => events_after(service, key, Some(Place::read(key, cursor)?), limit).await,
        },
    }
}

/// How far a session's events were read: its numbers are without gaps, so that no feed of the store's is needed.
#[derive(Debug)]
struct Place<'a> {
    seq: u64,
    /// The id of that event: tells this session, in this database, from another of its name.
    event_id: &'a str,
}

impl<'a> Place<'a> {
    fn read(key: &SessionKey, cursor: &'a FeedCursor) -> Result<Self> {
        let read = || {
            let (name, place) = cursor.as_str().split_once(' ')?;
            let (seq, event_id) = place.split_once(' ')?;
            if name == name_of(key) { Some(Self { seq: seq.parse().ok()?, event_id }) } else { None }
        };
        read().ok_or_else(|| Error::invalid(format!("the cursor is none of the feed of {key}; keep cursors as given")))
    }

    fn cursor(key: &SessionKey, event: Option<&Arc<Event>>) -> FeedCursor {
        let (seq, id) = event.map_or((0, ""), |event| (event.seq.unwrap_or_default(), event.id.as_str()));
        FeedCursor::new(format!("{} {seq} {id}", name_of(key)))
    }
}

fn name_of(key: &SessionKey) -> String {
    feed_name([key.app_name(), key.user_id(), key.session_id()])
}

fn events(config: GetSessionConfig) -> GetSessionConfig {
    config.without_state()
}

async fn now<T: SessionService + ?Sized>(service: &T, key: &SessionKey) -> Result<FeedPage> {
    let config = events(GetSessionConfig::default().with_num_recent_events(1));
    let session = service.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
    let last = session.events().last().cloned();
    let cursor = match last {
        None if session.seq() > 0 => FeedCursor::new(format!("{} {} ", name_of(key), session.seq())),
        last => Place::cursor(key, last.as_ref()),
    };
    Ok(FeedPage::new(Vec::new(), cursor))
}

async fn events_after<T: SessionService + ?Sized>(
    service: &T,
    key: &SessionKey,
    place: Option<Place<'_>>,
    limit: usize,
) -> Result<FeedPage> {
    // From the event that was read last, that one included: it tells whether this is still the same session.
    let from = place.as_ref().map_or(0, |place| place.seq);
    let config = events(GetSessionConfig::default().with_events_after(from.saturating_sub(1), limit + 1));
    let session = service.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
    let mut found = session.events().iter().cloned().peekable();
    if let Some(place) = &place {
        let is_same = match found.peek() {
            Some(first) if first.seq == Some(from) => place.event_id.is_empty() || first.id == place.event_id,
            _ => session.seq() >= from,
        };
        if !is_same {
            return Err(Error::invalid(format!(
                "the cursor is of another session: {key} was made anew, or is elsewhere"
            )));
        }
        found.next_if(|first| first.seq == Some(from));
        let next = found.peek().and_then(|next| next.seq).unwrap_or(session.seq() + 1);
        if next > from + 1 {
            let message =
                format!("the events of {key} from {} to {} were pruned before they were read", from + 1, next - 1);
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
    }
    let entries: Vec<_> = found
        .take(limit)
        .map(|event| {
            let cursor = Place::cursor(key, Some(&event));
            session.secret_keys().hide(FeedEntry::new(cursor, FeedCommit::Event { session: key.clone(), event }))
        })
        .collect();
    let cursor = match (entries.last(), &place) {
        (Some(last), _) => last.cursor.clone(),
        (None, Some(place)) => FeedCursor::new(format!("{} {} {}", name_of(key), place.seq, place.event_id)),
        // Of this one reading: what was committed since is still to come.
        (None, None) => FeedCursor::new(format!("{} {} ", name_of(key), session.seq())),
    };
    Ok(FeedPage::new(entries, cursor))
}
