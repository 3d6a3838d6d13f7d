//! Clients. Each client does its operations one after the other, and tries again if it gets no answer.

use crate::database::Holder;
use crate::transaction::Transaction;
use crate::{Protocol, Rule, State};

pub(crate) type ClientId = usize;

/// The address of a session. Sessions 0 and 1 belong to one user, 2 and 3 to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u8);

impl Address {
    pub(crate) fn user(self) -> u8 {
        self.0 / 2
    }

    pub(crate) fn of_user(user: u8) -> [Self; 2] {
        [Self(2 * user), Self(2 * user + 1)]
    }
}

/// An event to append, and whether it writes keys of the user and of the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Append {
    pub session: Address,
    pub event: u8,
    pub user_keys: bool,
    pub app_keys: bool,
}

/// What a client does in one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Appends a batch.
    Append(Vec<Append>),
    /// Creates a session, with an event if there is one.
    Create(Address, Option<u8>),
    /// Deletes a session.
    Delete(Address),
    /// Erases a user with all sessions.
    Erase(u8),
}

/// The answer to an event of a batch, or to another operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// The event is stored and has this number; `None` if the client only assumes that it is stored.
    Stored(Option<u8>),
    NoSession,
    Created,
    Taken,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    operations: Vec<Operation>,
    /// The index of the current operation.
    at: usize,
    attempt: u8,
    pub(crate) acknowledged: Vec<Acknowledged>,
    pub(crate) last: Option<Answer>,
    /// Whether the server has answered with an event that an earlier attempt had stored.
    pub(crate) has_found_own: bool,
}

/// An append that was answered as stored, and the number of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Acknowledged {
    pub(crate) append: Append,
    pub(crate) number: Option<u8>,
}

/// This is added to an event's id if a retry does not send the same id.
pub(crate) const OTHER_ID: u8 = 100;

impl Client {
    pub(crate) fn new(operations: Vec<Operation>) -> Self {
        Self { operations, at: 0, attempt: 0, acknowledged: Vec::new(), last: None, has_found_own: false }
    }

    pub(crate) fn operation(&self) -> Option<&Operation> {
        self.operations.get(self.at)
    }
}

impl State {
    /// Begins an attempt at the current operation of a client, if there is an operation left.
    pub(crate) fn begin_next(&mut self, client: ClientId) {
        let from = &self.clients[client];
        if let Some(operation) = from.operation() {
            self.transactions.push(Transaction::new(client, from.attempt, operation.clone()));
            self.transactions.sort_by_key(|transaction| (transaction.client, transaction.attempt));
        }
    }

    /// Ends a transaction: its locks are released.
    pub(crate) fn end(&mut self, client: ClientId, attempt: u8) {
        self.transactions.retain(|one| (one.client, one.attempt) != (client, attempt));
        self.database.release(Holder::Transaction(client, attempt));
    }

    /// Loses the connection of a client. The server continues the transaction.
    pub(crate) fn lose_answer(&mut self, client: ClientId, protocol: &Protocol) {
        self.losses -= 1;
        for one in self.transactions.iter_mut().filter(|one| one.client == client) {
            one.is_orphan = true;
        }
        let from = &mut self.clients[client];
        from.attempt += 1;
        let Some(Operation::Append(appends)) = from.operations.get_mut(from.at) else {
            return self.begin_next(client);
        };
        if !protocol.keeps(Rule::SameIdOnRetry) {
            appends.iter_mut().for_each(|append| append.event += OTHER_ID);
        }
        if protocol.keeps(Rule::RetryAfterLostAnswer) {
            return self.begin_next(client);
        }
        let answers = vec![Answer::Stored(None); appends.len()];
        self.answer(client, &answers);
    }

    /// Answers the operation of a client, which then begins its next one.
    pub(crate) fn answer(&mut self, client: ClientId, answers: &[Answer]) {
        let from = &mut self.clients[client];
        if let Some(Operation::Append(appends)) = from.operations.get(from.at) {
            for (append, answer) in appends.iter().zip(answers) {
                if let Answer::Stored(number) = answer {
                    from.acknowledged.push(Acknowledged { append: *append, number: *number });
                }
            }
        }
        from.last = answers.last().copied();
        from.at += 1;
        from.attempt += 1;
        self.begin_next(client);
    }
}
