//! The feeds of an app and of its users. The caller holds the app's lock.

use super::app::{AppData, owned};
use super::owned::Logged;
use super::to_map;
use crate::error::Result;
use crate::json::bytes_of;
use crate::plan::feed::{Feed, FeedPlace};
use crate::plan::room::Room;
use crate::session::{FeedCommit, FeedPage, FeedStart, PAGE_BYTES, Removal, SessionKey, StateChange, StateOwner};

/// A commit at a position.
#[derive(Debug)]
pub(super) enum FeedItem {
    /// An event with its number.
    Event(SessionKey, u64),
    /// The creation of a session, perhaps with keys of its user and its app.
    Created(SessionKey),
    /// A change to keys of a user or an app.
    State(StateOwner),
    /// A removal.
    Removed(Removal),
}

impl FeedItem {
    pub(super) fn user_id(&self) -> Option<&str> {
        match self {
            Self::Event(key, _) | Self::Created(key) => Some(key.user_id()),
            Self::State(owner) => owner.user_id(),
            Self::Removed(removal) => removal.user.user_id(),
        }
    }
}

impl AppData {
    pub(super) fn feed_page(
        &self,
        feed: &Feed,
        owner: &StateOwner,
        start: &FeedStart,
        limit: usize,
        last: u64,
    ) -> Result<FeedPage> {
        let after = feed.start_since(start, last, self.let_go)?;
        let limit = limit.clamp(1, 1000);
        let commits = |(position, item): (&u64, &FeedItem)| {
            let position = *position;
            self.commits_of(position, item, owner).into_iter().map(move |commit| (position, commit))
        };
        let mut page = match owner.user_id() {
            None => feed.page(after, self.feed.range(after.position..).flat_map(commits), limit),
            // Commits of other users are skipped.
            Some(user_id) => {
                let own = self.users.get(user_id).into_iter().flat_map(|user| user.feed.range(after.position..));
                let items = own.filter_map(|position| self.feed.get_key_value(position));
                feed.page(after, items.flat_map(commits), limit)
            }
        };
        let mut room = Room::new(PAGE_BYTES);
        let count = page.entries.iter().take_while(|entry| room.takes(bytes(&entry.commit))).count();
        if count < page.entries.len() {
            page.entries.truncate(count);
            page.cursor = page.entries.last().map_or(page.cursor, |last| last.cursor.clone());
        }
        if page.entries.is_empty() {
            // The next read then does not have to skip the same commits of other users again.
            page.cursor = feed.cursor(&FeedPlace::after(last).to_string());
        }
        Ok(page)
    }

    /// Returns the entries of a commit that an owner's feed shows.
    fn commits_of(&self, position: u64, item: &FeedItem, of: &StateOwner) -> Vec<FeedCommit> {
        let is_of = |user_id: Option<&str>| of.user_id().is_none() || of.user_id() == user_id;
        match item {
            FeedItem::Event(key, seq) if is_of(Some(key.user_id())) => {
                let event = self.session(key).and_then(|(_, stored)| stored.event(*seq));
                let event = event.map(|event| FeedCommit::Event { session: key.clone(), event: event.clone() });
                event.into_iter().collect()
            }
            FeedItem::State(owner) if is_of(owner.user_id()) => {
                self.changes_at(position, owner.clone()).into_iter().collect()
            }
            FeedItem::Removed(removal) if is_of(removal.user.user_id()) => vec![FeedCommit::Removed(removal.clone())],
            FeedItem::Created(key) => {
                let mut commits = Vec::new();
                if is_of(Some(key.user_id())) {
                    commits.extend(self.changes_at(position, key.user()));
                }
                if of.user_id().is_none() {
                    commits.extend(self.changes_at(position, key.app()));
                }
                if is_of(Some(key.user_id())) {
                    commits.extend(self.created_at(position, key));
                }
                commits
            }
            _ => Vec::new(),
        }
    }

    /// Removes a session's events from the feeds. Events that a fork has copied have the positions of the original
    /// events. The original events stay in the feeds when the fork is removed.
    pub(super) fn leave_feed(&mut self, key: &SessionKey, positions: impl IntoIterator<Item = u64>) {
        for position in positions {
            if matches!(self.feed.get(&position), Some(FeedItem::Event(of, _)) if of == key) {
                self.drop_from_feed(key.user_id(), position);
            }
        }
    }

    /// Adds a commit to the feeds that show it.
    pub(super) fn enter_feed(&mut self, position: u64, item: FeedItem) {
        if let Some(user_id) = item.user_id() {
            self.user(user_id).feed.insert(position);
        }
        self.feed.insert(position, item);
    }

    pub(super) fn drop_from_feed(&mut self, user_id: &str, position: u64) {
        self.feed.remove(&position);
        if let Some(user) = self.users.get_mut(user_id) {
            user.feed.remove(&position);
        }
    }

    pub(super) fn changes_at(&self, position: u64, owner: StateOwner) -> Option<FeedCommit> {
        let log = &owned(self, &owner)?.log;
        let from = log.partition_point(|change| change.position < position);
        let changes: Vec<_> =
            log[from..].iter().take_while(|change| change.position == position).map(Logged::change).collect();
        (!changes.is_empty()).then_some(FeedCommit::State { owner, changes })
    }

    fn created_at(&self, position: u64, key: &SessionKey) -> Option<FeedCommit> {
        let (_, stored) = self.session(key)?;
        let has_state = stored.forked_at.is_some() || !stored.initial.is_empty();
        let is_this = stored.created == position && has_state;
        let (session, forked_at) = (key.clone(), stored.forked_at);
        is_this.then(|| FeedCommit::Created { session, state: to_map(&stored.initial), forked_at })
    }
}

const REMOVAL_BYTES: u64 = 200;

/// Returns about how many bytes a commit takes as JSON text.
fn bytes(commit: &FeedCommit) -> u64 {
    match commit {
        FeedCommit::Event { event, .. } => bytes_of(event.as_ref()),
        FeedCommit::Created { state, .. } => bytes_of(state),
        FeedCommit::State { changes, .. } => changes.iter().map(StateChange::bytes).sum(),
        FeedCommit::Removed(_) => REMOVAL_BYTES,
    }
}
