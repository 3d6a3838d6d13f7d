//! Cursors of feeds in which every commit has a position: which database and feed they are of, and how far it was read.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{FeedCommit, FeedCursor, FeedEntry, FeedPage, FeedStart, StateOwner, feed_name};

/// How long the removals of sessions and users are kept at least.
pub const REMOVALS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many removals are let go by one commit at most: others want to write as well.
pub const LET_GO_AT_ONCE: usize = 1000;

/// A feed of one owner in one database.
#[derive(Debug)]
pub struct Feed {
    /// Tells it from feeds of other databases and of other owners.
    name: String,
}

/// How far a feed was read: everything before a position, and what of the commit at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedPlace {
    /// The position of the commit read last.
    pub position: u64,
    /// Its entries up to this rank were read. Not how many: some may be pruned before the rest is read.
    pub taken: usize,
    /// Where the feed ended when it was begun from the beginning: what had been removed until there was not read at all, so
    /// that those removals are not missed.
    pub since: u64,
}

impl Feed {
    /// The feed of an owner in the database with this id.
    pub fn new(database: &str, owner: &StateOwner) -> Self {
        Self { name: feed_name([Some(database), Some(owner.app_name()), owner.user_id()].into_iter().flatten()) }
    }

    /// The cursor with something of the store's own in it, which has no space.
    pub fn cursor(&self, place: &str) -> FeedCursor {
        FeedCursor::new(format!("{} {place}", self.name))
    }

    /// What a store has put into a cursor of this feed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed.
    pub fn place<'a>(&self, cursor: &'a FeedCursor) -> Result<&'a str> {
        let foreign = || {
            let message = "the cursor is of another feed or database; go on with one that this feed has given, or begin \
                           anew, or now";
            Error::invalid(message)
        };
        let (name, place) = cursor.as_str().split_once(' ').ok_or_else(foreign)?;
        if name == self.name { Ok(place) } else { Err(foreign()) }
    }

    /// From where a feed is read that ends at a position.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed, or ahead of the end.
    pub fn start(&self, start: &FeedStart, end: u64) -> Result<FeedPlace> {
        self.start_since(start, end, 0)
    }

    /// The same of a feed that has let removals go up to a position.
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

    /// A page of all that stands above a place: commits with their positions, in order, and those at the place itself
    /// with all their entries. It has `limit` entries at most.
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

/// Where an entry stands among those of one commit, in their order.
fn rank(commit: &FeedCommit) -> usize {
    match commit {
        FeedCommit::State { owner: StateOwner::User { .. }, .. } => 1,
        FeedCommit::State { owner: StateOwner::App { .. }, .. } => 2,
        FeedCommit::Created { .. } => 3,
        // The app's keys of an event that was erased with its user stand there still, and were read with it.
        FeedCommit::Event { .. } | FeedCommit::Removed(_) => 4,
    }
}

/// The error for a cursor that this database has not given yet.
pub fn ahead() -> Error {
    Error::invalid("the cursor is ahead of the feed: it is of another database, or of a newer copy; begin anew, or now")
}

/// The error for a cursor that stands before removals that the feed does not have any more.
pub fn too_old() -> Error {
    let message = "sessions or users were removed after the cursor's place, so long ago that the feed has let the entries \
                   go; begin again, from what the store shows";
    Error::new(ErrorKind::FailedPrecondition, message)
}

impl FeedPlace {
    /// After all entries at a position.
    pub fn after(position: u64) -> Self {
        Self { position, taken: usize::MAX, since: 0 }
    }

    /// Refuses a place before a removal that was let go, up to a position.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition`.
    pub fn check(&self, let_go: u64) -> Result<()> {
        if let_go > self.position.max(self.since) { Err(too_old()) } else { Ok(()) }
    }

    /// Reads what [`Display`](std::fmt::Display) has written.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for anything else.
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
        // Behind that it says nothing any more.
        if self.since > self.position { write!(f, "~{}", self.since) } else { Ok(()) }
    }
}
