//! Transactions, which take their steps one after the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Address, Answer, Append, ClientId, Operation};
use crate::database::{
    Change, ChangeKind, Commit, Database, Holder, Position, Row, SessionRow, Store, StoredEvent, Tables, UNBORN,
};
use crate::step::Step;
use crate::{Protocol, Rule, State};

/// A transaction of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    pub(crate) client: ClientId,
    pub(crate) attempt: u8,
    /// Whether the client has lost the connection.
    pub(crate) is_orphan: bool,
    pub(crate) operation: Operation,
    /// The events that still have to be written, by their places in the batch.
    pending: BTreeSet<usize>,
    /// The answers to the other events.
    answers: BTreeMap<usize, Answer>,
    /// The step that comes next.
    at: usize,
    /// How many commits the last statement sees.
    snapshot: u8,
    /// The sessions that the transaction has locked.
    locked: BTreeMap<Address, SessionRow>,
    position: Position,
    commit: Commit,
    /// The sessions whose rows are removed.
    removed: Vec<Address>,
    has_found_own: bool,
}

/// The result of a step.
enum Outcome {
    Next,
    Blocked,
    /// Everything is undone, and the transaction begins again.
    Again,
    /// The transaction ends without a commit.
    Answer(Answer),
}

impl Transaction {
    pub(crate) fn new(client: ClientId, attempt: u8, operation: Operation) -> Self {
        let pending = match &operation {
            Operation::Append(appends) => (0..appends.len()).collect(),
            _ => BTreeSet::new(),
        };
        Self {
            client,
            attempt,
            is_orphan: false,
            operation,
            pending,
            answers: BTreeMap::new(),
            at: 0,
            snapshot: 0,
            locked: BTreeMap::new(),
            position: Position::default(),
            commit: Commit { transaction: (client, attempt), ..Commit::default() },
            removed: Vec::new(),
            has_found_own: false,
        }
    }

    /// Begins the transaction again with the events that have no answer yet, after everything was rolled back.
    fn restart(&mut self) {
        let mut again = Self::new(self.client, self.attempt, self.operation.clone());
        again.pending = std::mem::take(&mut self.pending);
        again.answers = std::mem::take(&mut self.answers);
        (again.is_orphan, again.has_found_own) = (self.is_orphan, self.has_found_own);
        *self = again;
    }

    pub(crate) fn holder(&self) -> Holder {
        Holder::Transaction(self.client, self.attempt)
    }

    /// Returns the events that still have to be written, with their places in the batch.
    pub(crate) fn appends(&self) -> Vec<(usize, Append)> {
        match &self.operation {
            Operation::Append(appends) => self.pending.iter().map(|place| (*place, appends[*place])).collect(),
            _ => Vec::new(),
        }
    }

    fn has_locked(&self, session: Address) -> bool {
        self.locked.contains_key(&session)
    }
}

impl Protocol {
    /// Returns the holder of the lock for which a transaction waits.
    pub(crate) fn waits_for(&self, database: &Database, transaction: &Transaction) -> Option<Holder> {
        match self.steps(transaction).get(transaction.at) {
            Some(Step::Lock(row)) if self.is_there(database, transaction, *row) => {
                database.locks.get(row).copied().filter(|holder| *holder != transaction.holder())
            }
            _ => None,
        }
    }

    /// Takes the next step of a transaction. Returns `false` if it has to wait.
    pub(crate) fn step(&self, state: &mut State, client: ClientId, attempt: u8) -> bool {
        let place = state.transactions.iter().position(|one| (one.client, one.attempt) == (client, attempt));
        let Some(place) = place else { return false };
        let mut transaction = state.transactions.remove(place);
        let outcome = self.advance(&mut state.database, &mut transaction);
        match outcome {
            Outcome::Blocked => return false,
            Outcome::Next => transaction.at += 1,
            Outcome::Again => {
                state.database.release(transaction.holder());
                transaction.restart();
            }
            Outcome::Answer(answer) => {
                state.end(client, attempt);
                self.finish(state, &transaction, &[answer]);
                return true;
            }
        }
        let is_batch = matches!(transaction.operation, Operation::Append(_));
        let is_over = transaction.at == self.steps(&transaction).len() || is_batch && transaction.pending.is_empty();
        if is_over {
            state.end(client, attempt);
            let answers = match &transaction.operation {
                Operation::Append(_) => transaction.answers.values().copied().collect(),
                Operation::Create(..) => vec![Answer::Created],
                Operation::Delete(_) | Operation::Erase(_) => vec![Answer::Removed],
            };
            self.finish(state, &transaction, &answers);
        } else {
            state.transactions.insert(place, transaction);
        }
        true
    }

    fn finish(&self, state: &mut State, transaction: &Transaction, answers: &[Answer]) {
        if !transaction.is_orphan {
            state.clients[transaction.client].has_found_own |= transaction.has_found_own;
            state.answer(transaction.client, answers);
        }
    }

    /// Returns whether there is a row to wait for.
    fn is_there(&self, database: &Database, transaction: &Transaction, row: Row) -> bool {
        let is_creation = matches!(transaction.operation, Operation::Create(..));
        match (self.store, row) {
            // A creation does not wait for a session that is there: its id is taken.
            (_, Row::Session(session)) if is_creation => !database.now().sessions.contains_key(&session),
            // A statement of PostgreSQL finds a row in its snapshot. The row may have been removed since, even if
            // another row has its name now.
            (Store::Postgres, Row::Session(session)) => {
                let seen = database.at(transaction.snapshot).sessions.get(&session).map(|row| row.life);
                seen.is_some() && database.now().sessions.get(&session).map(|row| row.life) == seen
            }
            (Store::Postgres, Row::User(user)) if matches!(transaction.operation, Operation::Append(_)) => {
                database.at(transaction.snapshot).users.contains_key(&user) && database.now().users.contains_key(&user)
            }
            _ => true,
        }
    }

    fn advance(&self, database: &mut Database, transaction: &mut Transaction) -> Outcome {
        match self.steps(transaction).get(transaction.at) {
            None => Outcome::Blocked,
            Some(Step::Snapshot) => {
                transaction.snapshot = database.commits();
                Outcome::Next
            }
            Some(Step::Lock(row)) => self.lock(database, transaction, *row),
            Some(Step::LockNewSessions) => self.lock_new_sessions(database, transaction),
            Some(Step::LookAgain) => {
                let Operation::Erase(user) = transaction.operation else { return Outcome::Next };
                let now = database.now();
                let mut sessions = now.sessions.keys().filter(|session| session.user() == user);
                if sessions.all(|session| transaction.has_locked(*session)) { Outcome::Next } else { Outcome::Again }
            }
            Some(Step::Position) => {
                transaction.position.sequence = database.next_position();
                Outcome::Next
            }
            Some(Step::Write) => self.write(database, transaction),
            Some(Step::RemoveSessions) => {
                // On MySQL, the sessions are removed by the ids that the last look has found; without a second look, by
                // the ids of the locked sessions.
                let sessions = match self.store {
                    Store::Postgres => database.now().sessions.keys().copied().collect(),
                    Store::MySql => transaction.locked.keys().copied().collect::<Vec<_>>(),
                };
                let Operation::Erase(user) = transaction.operation else { return Outcome::Next };
                let sessions = sessions.into_iter().filter(|session| session.user() == user);
                transaction.removed = sessions.collect();
                Outcome::Next
            }
            Some(Step::RemoveEvents) => {
                transaction.snapshot = database.commits();
                Outcome::Next
            }
            Some(Step::Record) => {
                self.record_erasure(database, transaction);
                Outcome::Next
            }
            Some(Step::Commit) => {
                transaction.commit.begin_life(database.commits());
                database.log.push(std::mem::take(&mut transaction.commit));
                transaction.pending.clear();
                Outcome::Next
            }
        }
    }

    fn lock(&self, database: &mut Database, transaction: &mut Transaction, row: Row) -> Outcome {
        if let (Operation::Create(..), Row::Session(session)) = (&transaction.operation, row)
            && let Some(row) = database.now().sessions.get(&session)
        {
            let is_own = database.log[usize::from(row.life)].transaction.0 == transaction.client;
            let finds_token = is_own && self.keeps(Rule::TokenOfCreation) && row.life > 0;
            transaction.has_found_own |= finds_token;
            return Outcome::Answer(if finds_token { Answer::Created } else { Answer::Taken });
        }
        if !self.is_there(database, transaction, row) {
            return Outcome::Next;
        }
        if !database.lock(row, transaction.holder()) {
            return Outcome::Blocked;
        }
        let Row::Session(session) = row else { return Outcome::Next };
        if let Operation::Create(..) = transaction.operation {
            return Outcome::Next;
        }
        let found = database.now().sessions.get(&session).copied();
        match found {
            Some(row) => drop(transaction.locked.insert(session, row)),
            // There is no row, so its lock is released.
            None => drop(database.locks.remove(&row)),
        }
        Outcome::Next
    }

    /// Locks the sessions of the user that were created meanwhile, or begins again if one of these sessions is locked.
    fn lock_new_sessions(&self, database: &mut Database, transaction: &mut Transaction) -> Outcome {
        let Operation::Erase(user) = transaction.operation else { return Outcome::Next };
        for (session, row) in database.now().sessions {
            if session.user() != user {
                continue;
            }
            if !database.lock(Row::Session(session), transaction.holder()) {
                return Outcome::Again;
            }
            transaction.locked.insert(session, row);
        }
        Outcome::Next
    }

    fn record_erasure(&self, database: &mut Database, transaction: &mut Transaction) {
        let Operation::Erase(user) = transaction.operation else { return };
        if self.keeps(Rule::PositionAfterLocks) {
            transaction.position.sequence = database.next_position();
        }
        let sessions = std::mem::take(&mut transaction.removed);
        // The log of an erased user begins again.
        let position = Position { user: 0, app: database.now().app, ..transaction.position };
        let kind = ChangeKind::Erased { user, sessions, seen: transaction.snapshot };
        transaction.commit.changes = vec![Change { kind, position }];
        self.number_early(database, transaction);
    }

    /// Writes the changes. They become visible with the commit.
    fn write(&self, database: &mut Database, transaction: &mut Transaction) -> Outcome {
        let now = database.now();
        if self.keeps(Rule::PositionAfterLocks) {
            transaction.position.sequence = database.next_position();
        }
        let sequence = transaction.position;
        let position = |user: u8| {
            let (user, app) = (now.users.get(&user).copied().unwrap_or_default(), now.app);
            Position { user, app, ..sequence }
        };
        match transaction.operation.clone() {
            Operation::Append(_) => return self.write_events(database, transaction, &now),
            Operation::Create(session, event) => {
                let life = UNBORN;
                let position = position(session.user());
                let mut kinds = vec![ChangeKind::Created { session }];
                let stored =
                    |event| ChangeKind::Stored { session, life, event, number: 1, user_keys: false, app_keys: false };
                kinds.extend(event.map(stored));
                transaction.commit.last_numbers = vec![(session, u8::from(event.is_some()))];
                transaction.commit.changes = kinds.into_iter().map(|kind| Change { kind, position }).collect();
            }
            Operation::Delete(session) => {
                if !transaction.has_locked(session) {
                    return Outcome::Answer(Answer::Removed);
                }
                let seen = match self.keeps(Rule::RemovalSeesWhatItWaitedFor) {
                    true => database.commits(),
                    false => transaction.snapshot,
                };
                let kind = ChangeKind::Deleted { session, seen };
                transaction.commit.changes = vec![Change { kind, position: position(session.user()) }];
            }
            Operation::Erase(_) => {}
        }
        self.number_early(database, transaction);
        Outcome::Next
    }

    fn write_events(&self, database: &mut Database, transaction: &mut Transaction, now: &Tables) -> Outcome {
        let appends = transaction.appends();
        let missing = appends.iter().filter(|(_, append)| !transaction.has_locked(append.session));
        let missing: Vec<_> = missing.map(|(place, _)| (*place, Answer::NoSession)).collect();
        let number_of = |tables: &Tables, append: &Append| {
            let is_it = |stored: &&StoredEvent| (stored.session, stored.event) == (append.session, append.event);
            tables.events.iter().find(is_it).map(|stored| stored.number)
        };
        // The look-up by id finds the events that the snapshot shows (PostgreSQL), or that the unique index rejects
        // (MySQL).
        let seen = match self.store {
            Store::Postgres => &database.at(transaction.snapshot),
            Store::MySql => now,
        };
        let known = appends.iter().filter(|(_, append)| transaction.has_locked(append.session));
        let known: Vec<_> = known
            .filter_map(|(place, append)| Some((*place, Answer::Stored(Some(number_of(seen, append)?)))))
            .filter(|_| self.store == Store::Postgres || self.keeps(Rule::UniqueIds))
            .collect();
        transaction.has_found_own |= !known.is_empty();
        let is_partial = !missing.is_empty() || !known.is_empty();
        let settled: BTreeMap<_, _> = missing.into_iter().chain(known).collect();
        // MySQL's procedure writes nothing if an event is known or a session is missing. The client sends the rest
        // again.
        if self.store == Store::MySql && is_partial && self.keeps(Rule::DuplicateUndoesBatch) {
            transaction.pending.retain(|place| !settled.contains_key(place));
            transaction.answers.extend(settled);
            return Outcome::Again;
        }
        // PostgreSQL answers for the known events in the same statement. Its commit still needs the locks.
        let rest = appends.iter().filter(|(place, _)| !settled.contains_key(place)).copied().collect::<Vec<_>>();
        let is_rejected = |append: &Append| self.keeps(Rule::UniqueIds) && number_of(now, append).is_some();
        let rejected = rest.iter().any(|(_, append)| is_rejected(append));
        if rejected && self.keeps(Rule::DuplicateUndoesBatch) {
            return Outcome::Again;
        }
        let counted = match (self.store, self.keeps(Rule::DuplicateUndoesBatch)) {
            (Store::MySql, false) => appends,
            _ => rest.clone(),
        };
        let at_snapshot = database.at(transaction.snapshot);
        let old_row = |session: &Address| at_snapshot.sessions.get(session).map_or(0, |row| row.last);
        for (session, row) in &transaction.locked {
            let new = counted.iter().filter(|(_, append)| append.session == *session).count();
            let last = if self.keeps(Rule::NumberFromLockedRow) { row.last } else { old_row(session) };
            transaction.commit.last_numbers.push((*session, last + u8::try_from(new).unwrap_or(u8::MAX)));
        }
        let mut nth: BTreeMap<Address, u8> = BTreeMap::new();
        let mut logs = Logs { users: now.users.clone(), app: now.app };
        for (place, append) in &counted {
            let Append { session, event, user_keys, app_keys } = *append;
            let Some(row) = transaction.locked.get(&session) else { continue };
            let nth = nth.entry(session).or_insert(0);
            *nth += 1;
            let (number, life) = if self.keeps(Rule::NumberFromLockedRow) {
                (row.last + *nth, row.life)
            } else {
                (old_row(&session) + *nth, row.life)
            };
            if settled.contains_key(place) || is_rejected(append) {
                transaction.answers.insert(*place, Answer::Stored(number_of(now, append)));
                continue;
            }
            let position = logs.next(append, transaction.position);
            let kind = ChangeKind::Stored { session, life, event, number, user_keys, app_keys };
            transaction.commit.changes.push(Change { kind, position });
            transaction.answers.insert(*place, Answer::Stored(Some(number)));
        }
        transaction.answers.extend(settled);
        transaction.commit.last_numbers.retain(|(session, _)| rest.iter().any(|(_, a)| a.session == *session));
        self.number_early(database, transaction);
        Outcome::Next
    }

    /// Gives numbers in the feed before the commit, if the rule on this is broken.
    fn number_early(&self, database: &mut Database, transaction: &mut Transaction) {
        if self.store == Store::MySql && !self.keeps(Rule::FeedFollowsCommits) {
            for change in &mut transaction.commit.changes {
                change.position.early = database.next_position();
            }
        }
    }
}

/// The positions of the logs after each event of a batch.
struct Logs {
    users: BTreeMap<u8, u8>,
    app: u8,
}

impl Logs {
    fn next(&mut self, append: &Append, position: Position) -> Position {
        let user = self.users.entry(append.session.user()).or_default();
        *user += u8::from(append.user_keys);
        self.app += u8::from(append.app_keys);
        Position { user: *user, app: self.app, ..position }
    }
}
