//! The database: what was committed, in order, and who has locked which row.

use std::collections::BTreeMap;

use crate::client::{Address, ClientId};

/// The kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Store {
    Postgres,
    MySql,
}

/// A row that can be locked. `Ord` is the order in which rows are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Row {
    Session(Address),
    User(u8),
    App,
    /// The row that is locked to number the feed.
    Feed,
}

/// The transaction or the reader that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Transaction(ClientId, u8),
    Reader(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Database {
    pub(crate) log: Vec<Commit>,
    pub(crate) locks: BTreeMap<Row, Holder>,
    /// The last position that PostgreSQL's sequence has given.
    pub(crate) sequence: u8,
    /// The numbers of entries in the feed on MySQL.
    pub(crate) numbers: BTreeMap<Entry, u8>,
}

/// A change's place in the log: the number of its commit, and its number in the commit.
pub(crate) type Entry = (u8, u8);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Commit {
    /// Represents the transaction's id, which does not depend on the order of commits.
    pub(crate) transaction: (ClientId, u8),
    pub(crate) changes: Vec<Change>,
    /// The last numbers of the sessions that were written.
    pub(crate) last_numbers: Vec<(Address, u8)>,
}

/// A change, which is an entry of the feed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) position: Position,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    /// The position from PostgreSQL's sequence.
    pub(crate) sequence: u8,
    /// The positions in the user's log and in the app's log, on MySQL.
    pub(crate) user: u8,
    pub(crate) app: u8,
    /// The number that the change would have if numbers in the feed were given before the commit.
    pub(crate) early: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChangeKind {
    Created {
        session: Address,
    },
    Stored {
        session: Address,
        life: u8,
        event: u8,
        number: u8,
        user_keys: bool,
        app_keys: bool,
    },
    /// Removes a session, and those of its events that are in the first `seen` commits.
    Deleted {
        session: Address,
        seen: u8,
    },
    /// Removes a user, these sessions, and those of the user's events that are in the first `seen` commits.
    Erased {
        user: u8,
        sessions: Vec<Address>,
        seen: u8,
    },
}

/// The life of a session that is being created.
pub(crate) const UNBORN: u8 = u8::MAX;

impl Commit {
    /// Sets the life of the session that this commit creates to the number of the commit.
    pub(crate) fn begin_life(&mut self, number: u8) {
        for change in &mut self.changes {
            if let ChangeKind::Stored { life, .. } = &mut change.kind
                && *life == UNBORN
            {
                *life = number;
            }
        }
    }
}

/// What the tables hold after some commits.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) sessions: BTreeMap<Address, SessionRow>,
    /// Each user's position in the log.
    pub(crate) users: BTreeMap<u8, u8>,
    pub(crate) app: u8,
    pub(crate) events: Vec<StoredEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionRow {
    /// The commit that created the session; it distinguishes sessions with the same address.
    pub(crate) life: u8,
    pub(crate) last: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredEvent {
    pub(crate) entry: Entry,
    pub(crate) session: Address,
    pub(crate) life: u8,
    pub(crate) event: u8,
    pub(crate) number: u8,
}

impl Database {
    pub(crate) fn with_sessions(sessions: &[Address]) -> Self {
        let created = |session: &Address| Change {
            kind: ChangeKind::Created { session: *session },
            position: Position::default(),
        };
        let commit = Commit { changes: sessions.iter().map(created).collect(), ..Commit::default() };
        let numbers = (0..).zip(sessions).map(|(nth, _)| ((0, nth), 0)).collect();
        Self { log: vec![commit], locks: BTreeMap::new(), sequence: 0, numbers }
    }

    pub(crate) fn next_position(&mut self) -> u8 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn commits(&self) -> u8 {
        u8::try_from(self.log.len()).unwrap_or(u8::MAX)
    }

    pub(crate) fn now(&self) -> Tables {
        self.at(self.commits())
    }

    /// Returns the tables after the first commits.
    pub(crate) fn at(&self, commits: u8) -> Tables {
        let mut tables = Tables::default();
        for (number, commit) in (0..commits).zip(&self.log) {
            tables.apply(number, commit);
        }
        tables
    }

    pub(crate) fn change(&self, entry: Entry) -> &Change {
        &self.log[usize::from(entry.0)].changes[usize::from(entry.1)]
    }

    /// Returns the changes of some commits, in their order.
    pub(crate) fn entries(&self, from: u8, to: u8) -> impl Iterator<Item = Entry> {
        (from..to).flat_map(|commit| {
            let changes = self.log[usize::from(commit)].changes.len();
            (0..u8::try_from(changes).unwrap_or(u8::MAX)).map(move |change| (commit, change))
        })
    }

    /// Locks a row, unless another holder has locked it.
    pub(crate) fn lock(&mut self, row: Row, holder: Holder) -> bool {
        *self.locks.entry(row).or_insert(holder) == holder
    }

    pub(crate) fn release(&mut self, holder: Holder) {
        self.locks.retain(|_, held| *held != holder);
    }
}

impl Tables {
    fn apply(&mut self, number: u8, commit: &Commit) {
        for (change, nth) in commit.changes.iter().zip(0..) {
            match &change.kind {
                ChangeKind::Created { session } => {
                    self.sessions.insert(*session, SessionRow { life: number, last: 0 });
                    self.users.entry(session.user()).or_default();
                }
                ChangeKind::Stored { session, life, event, number: of_event, user_keys, app_keys } => {
                    let (session, life, event) = (*session, *life, *event);
                    self.events.push(StoredEvent { entry: (number, nth), session, life, event, number: *of_event });
                    if *user_keys {
                        self.users.insert(session.user(), change.position.user);
                    }
                    if *app_keys {
                        self.app = change.position.app;
                    }
                }
                ChangeKind::Deleted { session, seen } => {
                    self.sessions.remove(session);
                    self.events.retain(|event| event.session != *session || event.entry.0 >= *seen);
                }
                ChangeKind::Erased { user, sessions, seen } => {
                    self.sessions.retain(|session, _| !sessions.contains(session));
                    self.events.retain(|event| event.session.user() != *user || event.entry.0 >= *seen);
                    self.users.remove(user);
                }
            }
        }
        for (session, last) in &commit.last_numbers {
            self.sessions.entry(*session).and_modify(|row| row.last = *last);
        }
    }

    /// Returns whether a reader can still see a change: events are removed with their session.
    pub(crate) fn shows(&self, entry: Entry, change: &Change) -> bool {
        match &change.kind {
            ChangeKind::Created { session } => self.sessions.get(session).is_some_and(|row| row.life == entry.0),
            ChangeKind::Stored { .. } => self.events.iter().any(|event| event.entry == entry),
            ChangeKind::Deleted { .. } | ChangeKind::Erased { .. } => true,
        }
    }
}

impl Change {
    /// Returns whether two changes belong to the same session, user or app, so that their order is promised.
    pub(crate) fn is_ordered_with(&self, other: &Self) -> bool {
        let (one, other) = (&self.kind, &other.kind);
        let is_same_session = one.session().is_some() && one.session() == other.session();
        let is_same_user = one.user() == other.user() && one.is_of_user_log() && other.is_of_user_log();
        let is_erased = match (one, other) {
            (ChangeKind::Erased { user, .. }, other) | (other, ChangeKind::Erased { user, .. }) => {
                *user == other.user()
            }
            _ => false,
        };
        is_same_session || is_same_user || is_erased || (one.is_of_app_log() && other.is_of_app_log())
    }
}

impl ChangeKind {
    fn session(&self) -> Option<Address> {
        match self {
            Self::Created { session } | Self::Stored { session, .. } | Self::Deleted { session, .. } => Some(*session),
            Self::Erased { .. } => None,
        }
    }

    pub(crate) fn user(&self) -> u8 {
        match self {
            Self::Erased { user, .. } => *user,
            Self::Created { session } | Self::Stored { session, .. } | Self::Deleted { session, .. } => session.user(),
        }
    }

    pub(crate) fn is_of_user_log(&self) -> bool {
        matches!(self, Self::Stored { user_keys: true, .. })
    }

    pub(crate) fn is_of_app_log(&self) -> bool {
        matches!(self, Self::Stored { app_keys: true, .. })
    }
}
