//! Watches: they read a feed to its end and then wait for new entries.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use super::ext::no_session;
use super::feed::feed_name;
use super::notices::{Followed, NoticeTime};
use super::tail::TailReader;
use super::{
    CommitNotices, FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, GetSessionConfig, SessionKey,
    SessionService, StateOwner,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;

/// How many entries are read at a time.
const PAGE: usize = 200;

/// What a watch follows.
#[derive(Clone, Debug)]
pub struct Watched {
    what: Followed,
    prefix: String,
}

impl Watched {
    /// Follows all sessions and keys of an app and of its users.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid app name.
    pub fn app(app_name: &str) -> Result<Self> {
        Ok(StateOwner::app(app_name)?.into())
    }

    /// Follows all sessions and keys of a user. Changes to the app's keys by other users are only in the app's feed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid app name or user id.
    pub fn user(app_name: &str, user_id: &str) -> Result<Self> {
        Ok(StateOwner::user(app_name, user_id)?.into())
    }

    /// Follows the events of one session. Changes to the user's and the app's keys by other sessions are in the feeds
    /// of the user and the app.
    #[must_use]
    pub fn session(key: SessionKey) -> Self {
        Self { what: Followed::Session(key), prefix: String::new() }
    }

    /// Follows only changes of keys with this prefix, including the scope: `user:cart`, `app:`, or `step` for a
    /// session's own keys.
    #[must_use]
    pub fn with_key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    pub(super) fn followed(&self) -> &Followed {
        &self.what
    }

    fn keep(&self, entries: &mut Vec<FeedEntry>) {
        let prefix = &self.prefix;
        entries.retain(|entry| prefix.is_empty() || entry.keys().iter().any(|key| key.starts_with(prefix)));
    }
}

impl From<StateOwner> for Watched {
    fn from(owner: StateOwner) -> Self {
        Self { what: Followed::Owner(owner), prefix: String::new() }
    }
}

/// Follows a feed. Start it with [`SessionServiceExt::watch`](super::SessionServiceExt::watch), or with
/// [`Watch::start`] and an `Arc` of the service if the watch has to outlive a borrow of the service.
#[derive(Debug)]
pub struct Watch<S> {
    service: S,
    what: Watched,
    notices: CommitNotices,
    shared: TailReader,
    /// Entries that have been read but not returned, and the position after them.
    ready: VecDeque<FeedEntry>,
    read: FeedCursor,
    /// The position after the last returned entry.
    cursor: FeedCursor,
}

/// The cursor of a watch that started at the beginning and has returned nothing yet, so that it has no position in the
/// feed.
const BEGINNING: &str = "beginning";

/// How often a watch tries to reach the shared position before it reads alone for a while.
const TRIES: usize = 3;

/// The result of looking for more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookProgress {
    /// There are, or may be, more entries.
    More,
    /// There were no more entries.
    End,
}

impl<T: SessionService + ?Sized, S: Deref<Target = T> + Send + Sync> Watch<S> {
    /// Starts to follow a feed. [`Watches`](super::Watches) starts several watches of one service that share their
    /// reads.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another feed or database; `NotFound` if the session does not exist.
    pub async fn start(service: S, what: Watched, start: FeedStart) -> Result<Self> {
        Self::start_on(service, what, start, TailReader::new(Arc::default())).await
    }

    pub(super) async fn start_on(service: S, what: Watched, start: FeedStart, shared: TailReader) -> Result<Self> {
        let notices = service.commits()?.of(what.what.clone());
        let start = match start {
            FeedStart::After(cursor) if cursor.as_str() == BEGINNING => FeedStart::Beginning,
            start => start,
        };
        let page = page(&*service, &what.what, &start, PAGE).await?.page;
        let cursor = match start {
            FeedStart::After(cursor) => cursor,
            FeedStart::Beginning => FeedCursor::new(BEGINNING),
            FeedStart::Now => page.cursor.clone(),
        };
        let ready = VecDeque::new();
        let mut watch = Self { service, what, notices, shared, ready, read: page.cursor.clone(), cursor };
        watch.take(page);
        Ok(watch)
    }

    /// Waits for the next entry. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the store was closed, or if unread events were pruned from the session; `NotFound` if
    /// the session was deleted; `Unavailable` if the store cannot be reached at the moment: a later call continues.
    pub async fn next(&mut self) -> Result<FeedEntry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                self.cursor = entry.cursor.clone();
                return Ok(entry);
            }
            self.cursor = self.read.clone();
            // Boxed to keep a waiting watch small: many watches may wait for a long time.
            if Box::pin(self.look()).await? == LookProgress::End {
                self.ready.shrink_to_fit();
                self.notices.next().await?;
            }
        }
    }

    /// Looks for more entries, in the shared pages or in the store.
    async fn look(&mut self) -> Result<LookProgress> {
        let notice = self.notices.forget_until();
        if self.shared.is_joined() || self.shared.join_at(&self.read) {
            if self.take_shared() {
                return Ok(LookProgress::More);
            }
            if self.shared.is_joined() {
                return self.look_for_all(&notice).await;
            }
        }
        let page = self.page_after(&self.read).await?.page;
        let progress = if page.entries.is_empty() { LookProgress::End } else { LookProgress::More };
        self.take(page);
        if progress == LookProgress::More {
            return Ok(progress);
        }
        self.join_shared(notice).await
    }

    /// Reads on for all watches at the same position, unless one of them is reading already.
    async fn look_for_all(&mut self, notice: &NoticeTime) -> Result<LookProgress> {
        let tail = Arc::clone(&self.shared.tail);
        let _reading = tail.reading.lock().await;
        if self.take_shared() || !self.shared.is_joined() {
            return Ok(LookProgress::More);
        }
        if let Some(end) = tail.end_at(notice) {
            self.read = end;
            return Ok(LookProgress::End);
        }
        let now = self.notices.last_notice();
        let from = tail.end().unwrap_or_else(|| self.read.clone());
        let PageRead { page, is_last } = self.page_after(&from).await?;
        if page.entries.is_empty() {
            tail.set_end(page.cursor.clone(), now);
            self.read = page.cursor;
            return Ok(LookProgress::End);
        }
        tail.push(page.entries, page.cursor, is_last.then_some(now));
        self.take_shared();
        Ok(LookProgress::More)
    }

    /// Joins the shared reads, after this watch has read to the end. It reads once more from its own position and from
    /// the shared one. If neither read finds more, both positions are the end, even if their cursors differ.
    async fn join_shared(&mut self, notice: NoticeTime) -> Result<LookProgress> {
        let tail = Arc::clone(&self.shared.tail);
        let _reading = tail.reading.lock().await;
        if self.shared.join_at(&self.read) {
            return Ok(LookProgress::More);
        }
        for _ in 0..TRIES {
            let Some(end) = tail.end() else {
                tail.set_end(self.read.clone(), notice);
                self.shared.join();
                return Ok(LookProgress::End);
            };
            let own = self.page_after(&self.read).await?.page;
            let is_end = own.entries.is_empty();
            self.take(own);
            if !is_end {
                return Ok(LookProgress::More);
            }
            let now = self.notices.last_notice();
            let PageRead { page, is_last } = match self.page_after(&end).await {
                // Events after the shared position were pruned, or it belongs to a session that was deleted. This watch
                // has just read from its own position, so it goes on alone.
                Err(error) if matches!(error.kind(), ErrorKind::FailedPrecondition | ErrorKind::InvalidArgument) => {
                    return Ok(LookProgress::End);
                }
                page => page?,
            };
            if page.entries.is_empty() {
                tail.set_end(page.cursor.clone(), now);
                self.read = page.cursor;
                self.shared.join();
                return Ok(LookProgress::End);
            }
            tail.push(page.entries, page.cursor, is_last.then_some(now));
        }
        Ok(LookProgress::More)
    }

    async fn page_after(&self, place: &FeedCursor) -> Result<PageRead> {
        page(&*self.service, &self.what.what, &FeedStart::After(place.clone()), PAGE).await
    }

    /// Takes a shared page, if there is one.
    fn take_shared(&mut self) -> bool {
        let Some((entries, end)) = self.shared.take() else {
            return false;
        };
        self.take(FeedPage::new(entries.to_vec(), end));
        true
    }

    /// Returns the cursor from which another watch can resume: after the last returned entry and the entries skipped
    /// because they did not match. It is the beginning if this watch started there and has returned nothing yet.
    #[must_use]
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    fn take(&mut self, mut page: FeedPage) {
        self.read = page.cursor;
        self.what.keep(&mut page.entries);
        self.ready.extend(page.entries);
    }
}

/// Returns a page of the entries that a [`Watch`] would return, without waiting for more.
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
    let mut page = page(service, &what.what, start, limit).await?.page;
    what.keep(&mut page.entries);
    Ok(page)
}

/// A page, and whether it is known to be the last one.
struct PageRead {
    page: FeedPage,
    is_last: bool,
}

async fn page<T: SessionService + ?Sized>(
    service: &T,
    what: &Followed,
    start: &FeedStart,
    limit: usize,
) -> Result<PageRead> {
    let page = match what {
        Followed::Owner(owner) => service.list_feed(owner, start, limit).await?,
        Followed::Session(key) => match start {
            FeedStart::Beginning => return events_after(service, key, None, limit).await,
            FeedStart::Now => now(service, key).await?,
            FeedStart::After(cursor) => {
                return events_after(service, key, Some(SessionPosition::read(key, cursor)?), limit).await;
            }
        },
    };
    Ok(PageRead { page, is_last: false })
}

/// A position among a session's events. Events are numbered without gaps, so that the store's feed is not needed.
#[derive(Debug)]
struct SessionPosition<'a> {
    seq: u64,
    /// The id of that event; it distinguishes this session of this database from another one with the same address.
    event_id: &'a str,
}

impl<'a> SessionPosition<'a> {
    fn read(key: &SessionKey, cursor: &'a FeedCursor) -> Result<Self> {
        let place = cursor.place(&name_of(key))?;
        let read = |(seq, event_id): (&str, _)| Some(Self { seq: seq.parse().ok()?, event_id });
        place.split_once(' ').and_then(read).ok_or_else(|| {
            Error::invalid(format!("the cursor of {key} was changed; give it as a feed has returned it"))
        })
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
        last => SessionPosition::cursor(key, last.as_ref()),
    };
    Ok(FeedPage::new(Vec::new(), cursor))
}

async fn events_after<T: SessionService + ?Sized>(
    service: &T,
    key: &SessionKey,
    place: Option<SessionPosition<'_>>,
    limit: usize,
) -> Result<PageRead> {
    // Reads from the last read event on, inclusive: that event shows whether this is still the same session.
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
    let found: Vec<_> = found.take(limit).collect();
    let last = found.last().and_then(|event| event.seq);
    let entries: Vec<_> = found
        .into_iter()
        .map(|event| {
            let cursor = SessionPosition::cursor(key, Some(&event));
            session.secret_keys().hide(FeedEntry::new(cursor, FeedCommit::Event { session: key.clone(), event }))
        })
        .collect();
    let is_last = last.is_some_and(|last| last >= session.seq());
    let cursor = match (entries.last(), &place) {
        (Some(last), _) => last.cursor.clone(),
        (None, Some(place)) => FeedCursor::new(format!("{} {} {}", name_of(key), place.seq, place.event_id)),
        // The cursor has the session's number as of this read, so that later commits come after it.
        (None, None) => FeedCursor::new(format!("{} {} ", name_of(key), session.seq())),
    };
    Ok(PageRead { page: FeedPage::new(entries, cursor), is_last })
}
