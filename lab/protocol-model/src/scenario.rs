//! Small scenarios in which the rules matter: a few clients, sessions and readers.

use crate::client::{Address, Append, Operation};

/// The clients and readers that run at the same time, and what they do.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Scenario {
    pub name: &'static str,
    /// The sessions that exist at the beginning.
    pub sessions: Vec<Address>,
    /// The operations of each client.
    pub clients: Vec<Vec<Operation>>,
    pub readers: usize,
    /// The maximum number of lost answers.
    pub losses: u8,
}

/// The keys that an event writes in addition to the keys of its session.
#[derive(Clone, Copy)]
enum Keys {
    Own,
    User,
    App,
    Both,
}

fn event(session: u8, event: u8, keys: Keys) -> Append {
    let (user_keys, app_keys) = match keys {
        Keys::Own => (false, false),
        Keys::User => (true, false),
        Keys::App => (false, true),
        Keys::Both => (true, true),
    };
    Append { session: Address(session), event, user_keys, app_keys }
}

fn append(events: &[Append]) -> Vec<Operation> {
    vec![Operation::Append(events.to_vec())]
}

fn sessions(numbers: &[u8]) -> Vec<Address> {
    numbers.iter().map(|number| Address(*number)).collect()
}

/// Returns the scenarios that are checked within seconds.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![shared_keys(), same_owners(), one_id(), batches(), erasure(), recreation(), readers()]
}

/// Returns the scenarios with more clients, readers and lost answers, whose check takes minutes.
#[must_use]
pub fn large() -> Vec<Scenario> {
    let mut erased_twice = erasure();
    erased_twice.losses = 1;
    let mut written_meanwhile = recreation();
    written_meanwhile.clients.push(append(&[event(0, 2, Keys::Own)]));
    let mut lossy_batches = batches();
    (lossy_batches.losses, lossy_batches.readers) = (1, 1);
    let mut three_readers = readers();
    three_readers.clients.push(append(&[event(1, 3, Keys::Both)]));
    (three_readers.readers, three_readers.losses) = (3, 1);
    vec![erased_twice, written_meanwhile, lossy_batches, three_readers]
}

/// Three sessions of two users write keys of a user and of the app, and a reader follows.
#[must_use]
pub fn shared_keys() -> Scenario {
    let clients =
        vec![append(&[event(0, 1, Keys::User)]), append(&[event(1, 2, Keys::Both)]), append(&[event(2, 3, Keys::App)])];
    Scenario { name: "shared keys", sessions: sessions(&[0, 1, 2]), clients, readers: 1, losses: 1 }
}

/// Two sessions write keys of the same user and app.
#[must_use]
pub fn same_owners() -> Scenario {
    let clients = vec![append(&[event(0, 1, Keys::Both)]), append(&[event(1, 2, Keys::Both)])];
    Scenario { name: "same owners", sessions: sessions(&[0, 1]), clients, readers: 1, losses: 1 }
}

/// Two clients append an event with the same id, one of them in a batch, and answers are lost.
#[must_use]
pub fn one_id() -> Scenario {
    let clients = vec![
        append(&[event(0, 1, Keys::Own)]),
        append(&[event(0, 1, Keys::Own), event(0, 2, Keys::User)]),
        append(&[event(0, 3, Keys::User)]),
    ];
    Scenario { name: "one id", sessions: sessions(&[0]), clients, readers: 1, losses: 1 }
}

/// Batches with the same sessions, users and app in different orders.
#[must_use]
pub fn batches() -> Scenario {
    let clients = vec![
        append(&[event(0, 1, Keys::Both), event(1, 2, Keys::Own)]),
        append(&[event(1, 3, Keys::Own), event(0, 4, Keys::Both)]),
        append(&[event(2, 5, Keys::Both), event(0, 6, Keys::User)]),
    ];
    Scenario { name: "batches", sessions: sessions(&[0, 1, 2]), clients, readers: 0, losses: 0 }
}

/// A user is erased while sessions of the user are created and written.
#[must_use]
pub fn erasure() -> Scenario {
    let mut creating = vec![Operation::Create(Address(0), Some(1))];
    creating.extend(append(&[event(0, 2, Keys::User)]));
    let clients = vec![vec![Operation::Erase(0)], creating, append(&[event(1, 3, Keys::User)])];
    Scenario { name: "erasure", sessions: sessions(&[1]), clients, readers: 1, losses: 0 }
}

/// A session is deleted and created again while others append to it, and an answer is lost.
#[must_use]
pub fn recreation() -> Scenario {
    let clients = vec![
        vec![Operation::Delete(Address(0)), Operation::Create(Address(0), None)],
        append(&[event(0, 1, Keys::User)]),
    ];
    Scenario { name: "recreation", sessions: sessions(&[0]), clients, readers: 1, losses: 1 }
}

/// Two readers follow the same feed.
#[must_use]
pub fn readers() -> Scenario {
    let clients = vec![append(&[event(0, 1, Keys::Own)]), append(&[event(2, 2, Keys::Own)])];
    Scenario { name: "readers", sessions: sessions(&[0, 2]), clients, readers: 2, losses: 0 }
}
