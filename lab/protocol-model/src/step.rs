//! The steps that a transaction takes, and the order of its locks.

use std::collections::BTreeSet;

use crate::client::{Address, Operation};
use crate::database::{Row, Store};
use crate::transaction::Transaction;
use crate::{Protocol, Rule};

/// A statement, a lock, or a part of a statement. Steps of other transactions can come between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A statement begins, on PostgreSQL.
    Snapshot,
    Lock(Row),
    /// Locks the sessions that were created since the first look, without waiting for their locks (PostgreSQL).
    LockNewSessions,
    /// Begins the transaction again if there is a session that is not locked (MySQL).
    LookAgain,
    Position,
    Write,
    RemoveSessions,
    RemoveEvents,
    /// Writes the record of the removal.
    Record,
    Commit,
}

impl Protocol {
    /// Returns the steps of a transaction, as the stores take them.
    pub(crate) fn steps(&self, transaction: &Transaction) -> Vec<Step> {
        let mut steps = Vec::with_capacity(10);
        if self.store == Store::Postgres || !self.keeps(Rule::NumberFromLockedRow) {
            steps.push(Step::Snapshot);
        }
        if !self.keeps(Rule::PositionAfterLocks) {
            steps.push(Step::Position);
        }
        steps.extend(self.locks(transaction).into_iter().map(Step::Lock));
        if let Operation::Erase(user) = transaction.operation {
            steps.extend(self.steps_of_erasure(user));
        } else {
            steps.push(Step::Write);
        }
        steps.push(Step::Commit);
        steps
    }

    fn steps_of_erasure(&self, user: u8) -> Vec<Step> {
        let mut steps = match (self.store, self.keeps(Rule::ErasureDoesNotWait)) {
            (Store::Postgres, true) => vec![Step::LockNewSessions],
            (Store::MySql, true) => vec![Step::LookAgain],
            (_, false) => {
                let locks = Address::of_user(user).map(|session| Step::Lock(Row::Session(session)));
                std::iter::once(Step::Snapshot).chain(locks).collect()
            }
        };
        if !self.keeps(Rule::ErasureLooksAgain) {
            steps.clear();
        }
        steps.extend(match self.store {
            Store::Postgres => [Step::RemoveSessions, Step::RemoveEvents],
            Store::MySql => [Step::RemoveEvents, Step::RemoveSessions],
        });
        steps.push(Step::Record);
        steps
    }

    /// Returns the rows that a transaction locks first, in the order of all writers.
    fn locks(&self, transaction: &Transaction) -> Vec<Row> {
        let (mut sessions, mut users, mut apps) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        match &transaction.operation {
            Operation::Append(_) => {
                for (_, append) in transaction.appends() {
                    sessions.push(append.session);
                    if append.user_keys && self.keeps(Rule::LockUser) {
                        users.insert(append.session.user());
                    }
                    if append.app_keys && self.keeps(Rule::LockApp) {
                        apps.insert(Row::App);
                    }
                }
                if self.keeps(Rule::SortedSessions) {
                    sessions.sort();
                }
                let mut seen = BTreeSet::new();
                sessions.retain(|session| seen.insert(*session));
            }
            Operation::Create(session, _) => {
                sessions.push(*session);
                if self.keeps(Rule::CreationLocksUser) {
                    users.insert(session.user());
                }
            }
            Operation::Delete(session) => {
                sessions.push(*session);
                users.insert(session.user());
            }
            Operation::Erase(user) => {
                sessions.extend(Address::of_user(*user));
                if self.keeps(Rule::ErasureLocksUser) {
                    users.insert(*user);
                }
            }
        }
        let sessions = sessions.into_iter().map(Row::Session);
        let users = users.into_iter().map(Row::User);
        let is_append = matches!(transaction.operation, Operation::Append(_));
        // A creation inserts the row of its session when it has locked the user.
        if matches!(transaction.operation, Operation::Create(..)) {
            return users.chain(sessions).collect();
        }
        // One writer with another order is enough for a deadlock.
        if is_append && transaction.client == 0 && !self.keeps(Rule::UsersBeforeApps) {
            sessions.chain(apps).chain(users).collect()
        } else if !is_append && !self.keeps(Rule::SessionsBeforeUsers) {
            users.chain(sessions).chain(apps).collect()
        } else {
            sessions.chain(users).chain(apps).collect()
        }
    }
}
