//! Cursors of feeds in which every commit has a position: they identify the database, the feed and the position.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, StateOwner, feed_name};

/// The minimum time for which removals of sessions and users are kept.
pub const REMOVALS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The maximum number of removals that one commit drops, so that other writes do not wait for long.
pub const LET_GO_AT_ONCE: usize = 1000;

/// The feed of one owner in one database.
#[derive(Debug)]
pub struct Feed {
    /// Distinguishes this feed from feeds of other databases and of other owners.
    name: String,
}

/// A position in a feed: all commits before it were read, and some entries of the commit at this position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedPlace {
    /// The position of the last commit read.
    pub position: u64,
    /// The entries of that commit up to this rank were read. This is not a count, because entries may be pruned before
    /// the rest is read.
    pub taken: usize,
    /// The end of the feed when reading started from the beginning. Removals up to this position concern data that was
    /// never read; later removals must not be missed.
    pub since: u64,
}

impl Feed {
    /// Creates the feed of an owner in the database with this id.
    pub fn new(database: &str, owner: &StateOwner) -> Self {
        Self { name: feed_name([Some(database), Some(owner.app_name()), owner.user_id()].into_iter().flatten()) }
    }

    /// Creates a cursor from a position encoded by the store, which must not contain a space.
    pub fn cursor(&self, place: &str) -> FeedCursor {
        FeedCursor::new(format!("{} {place}", self.name))
    }

    /// Returns the position encoded in a cursor of this feed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed.
    pub fn place<'a>(&self, cursor: &'a FeedCursor) -> Result<&'a str> {
        cursor.place(&self.name)
    }

    /// Returns the position at which to start reading a feed that currently ends at `end`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed, or ahead of the end.
    pub fn start(&self, start: &FeedStart, end: u64) -> Result<FeedPlace> {
        self.start_since(start, end, 0)
    }

    /// Returns what [`start`](Self::start) returns, for a feed that has dropped removals up to a position.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); `FailedPrecondition` for a cursor that may have missed a removal.
    pub fn start_since(&self, start: &FeedStart, end: u64, let_go: u64) -> Result<FeedPlace> {
        let place = match start {
            FeedStart::Beginning => FeedPlace { since: end, ..FeedPlace::default() },
            FeedStart::Now => FeedPlace::after(end),
            FeedStart::After(cursor) => FeedPlace::parse(self.place(cursor)?)?,
        };
        if place.position > end {
            return Err(ahead());
        }
        place.check(let_go)?;
        Ok(place)
    }

    /// Builds a page of at most `limit` entries. Pass the commits from the position of `after` on, in order and with
    /// their positions, and include all entries at that position; this function leaves out those that were read
    /// already.
    pub fn page(
        &self,
        after: FeedPlace,
        commits: impl IntoIterator<Item = (u64, FeedCommit)>,
        limit: usize,
    ) -> FeedPage {
        let mut entries = Vec::new();
        for (position, commit) in commits {
            let place = FeedPlace { position, taken: rank(&commit), since: after.since };
            if position == after.position && place.taken <= after.taken {
                continue;
            }
            if entries.len() == limit {
                break;
            }
            entries.push(FeedEntry::new(self.cursor(&place.to_string()), commit));
        }
        let cursor = entries.last().map_or_else(|| self.cursor(&after.to_string()), |entry| entry.cursor.clone());
        FeedPage::new(entries, cursor)
    }
}

/// Returns the rank of an entry among the entries of its commit.
fn rank(commit: &FeedCommit) -> usize {
    match commit {
        FeedCommit::State { owner: StateOwner::User { .. }, .. } => 1,
        FeedCommit::State { owner: StateOwner::App { .. }, .. } => 2,
        FeedCommit::Created { .. } => 3,
        // If an event was erased with its user, the app's keys that it wrote stay as an entry of their own. A reader
        // has read these keys with the event, so the event has the highest rank.
        FeedCommit::Event { .. } | FeedCommit::Removed(_) => 4,
    }
}

/// Returns the error for a cursor ahead of this database.
pub fn ahead() -> Error {
    Error::invalid("the cursor is ahead of the feed: it is of another database, or of a newer copy; begin anew, or now")
}

/// Returns the error for a cursor that is older than removals that were dropped.
pub fn too_old() -> Error {
    let message = "sessions or users were removed after the cursor's place, so long ago that the feed has let the entries \
                   go; begin again, from what the store shows";
    Error::new(ErrorKind::FailedPrecondition, message)
}

impl FeedPlace {
    /// Returns the position after all entries of a commit.
    pub fn after(position: u64) -> Self {
        Self { position, taken: usize::MAX, since: 0 }
    }

    /// Refuses a position that is older than removals that were dropped.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition`.
    pub fn check(&self, let_go: u64) -> Result<()> {
        if let_go > self.position.max(self.since) { Err(too_old()) } else { Ok(()) }
    }

    /// Parses the output of [`Display`](std::fmt::Display).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let (position, taken) = text.split_once('.')?;
            let (taken, since) = taken.split_once('~').unwrap_or((taken, "0"));
            let taken = if taken == "all" { usize::MAX } else { taken.parse().ok()? };
            Some(Self { position: position.parse().ok()?, taken, since: since.parse().ok()? })
        };
        read().ok_or_else(|| Error::invalid(format!("'{text}' is no place in a feed; keep cursors as they are given")))
    }
}

impl std::fmt::Display for FeedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.taken {
            usize::MAX => write!(f, "{}.all", self.position)?,
            taken => write!(f, "{}.{taken}", self.position)?,
        }
        // Once the position has reached `since`, the field has no effect.
        if self.since > self.position { write!(f, "~{}", self.since) } else { Ok(()) }
    }
}
