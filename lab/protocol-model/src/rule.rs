//! The rules that the stores rely on. Each rule can be broken, to show that the model needs it.

/// A decision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The number of an event follows the number in the session's locked row, not the number that an older snapshot
    /// shows.
    NumberFromLockedRow,
    /// An event with an id that is stored already is rejected by the unique index, although the snapshot is too old to
    /// show that id.
    UniqueIds,
    /// If the unique index rejects an event, the whole batch is undone. Otherwise the rest would be written with the
    /// numbers that were counted for the whole batch.
    DuplicateUndoesBatch,
    /// A retry sends the same event id.
    SameIdOnRetry,
    /// An append without an answer is retried. The client does not assume that it was committed.
    RetryAfterLostAnswer,
    /// A creation that finds its own token in the row has succeeded in an earlier attempt.
    TokenOfCreation,
    /// A position is taken after all locks.
    PositionAfterLocks,
    /// A write of a user's keys locks the user's row.
    LockUser,
    /// A write of an app's keys locks the app's row.
    LockApp,
    /// A batch locks its sessions in the order of their addresses.
    SortedSessions,
    /// Sessions are locked before users.
    SessionsBeforeUsers,
    /// Users are locked before apps.
    UsersBeforeApps,
    /// A creation locks the user's row before it writes events.
    CreationLocksUser,
    /// The statements that remove a session run after the statement that locks it, so that they see the commits that
    /// the lock waited for.
    RemovalSeesWhatItWaitedFor,
    /// An erasure of a user locks the user's row.
    ErasureLocksUser,
    /// An erasure of a user looks for sessions again while it holds the lock of the user's row.
    ErasureLooksAgain,
    /// An erasure of a user does not wait for locks of sessions that it finds in this second look, since these locks
    /// would be out of order.
    ErasureDoesNotWait,
    /// On PostgreSQL, the cursor of a feed is a snapshot, not the last position. On MySQL, a commit gets its number in
    /// the feed after the commit, not before it.
    FeedFollowsCommits,
    /// The next cursor is the snapshot of the read itself, not a later one (PostgreSQL).
    CursorOfTheSameSnapshot,
    /// The entries between two cursors are in the order of positions, not in the order of transaction ids.
    FeedByPosition,
    /// One reader at a time gives numbers in the feed (MySQL).
    OneNumbersAtATime,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 21] = [
        Self::NumberFromLockedRow,
        Self::UniqueIds,
        Self::DuplicateUndoesBatch,
        Self::SameIdOnRetry,
        Self::RetryAfterLostAnswer,
        Self::TokenOfCreation,
        Self::PositionAfterLocks,
        Self::LockUser,
        Self::LockApp,
        Self::SortedSessions,
        Self::SessionsBeforeUsers,
        Self::UsersBeforeApps,
        Self::CreationLocksUser,
        Self::RemovalSeesWhatItWaitedFor,
        Self::ErasureLocksUser,
        Self::ErasureLooksAgain,
        Self::ErasureDoesNotWait,
        Self::FeedFollowsCommits,
        Self::CursorOfTheSameSnapshot,
        Self::FeedByPosition,
        Self::OneNumbersAtATime,
    ];
}
