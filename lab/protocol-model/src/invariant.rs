//! The invariants, which have to hold in every state, with their names.

use std::collections::BTreeSet;

use stateright::Property;

use crate::client::{Address, Answer, OTHER_ID};
use crate::database::{Change, ChangeKind, Database, Holder, Row, Store, StoredEvent};
use crate::{Protocol, State};

/// The events of a session have the numbers from 1 to the last number in the session's row.
pub const GAPLESS: &str = "the numbers of a session's events have no gap";
/// An event is removed with its session.
pub const NO_ORPHANS: &str = "no event is left without its session";
/// The log of a session, user or app has positions that rise from commit to commit.
pub const RISING: &str = "positions rise in the order of commits";
/// However often an append is sent, it is stored once.
pub const ONCE: &str = "an id is stored at most once";
/// An acknowledged event is stored with its number, except if its session was removed.
pub const ACKNOWLEDGED: &str = "no acknowledged append is missing";
/// A creation is not refused because of its own earlier attempt.
pub const CREATED: &str = "a creation that succeeded is not refused";
/// A reader that has read to the end has read everything that exists.
pub const FEED_COMPLETE: &str = "the feed is complete";
/// A reader reads no change twice, and reads the changes of a session, user or app in the order of their commits.
pub const FEED_IN_ORDER: &str = "the feed is in order";
/// Transactions do not wait for each other in a circle.
pub const NO_DEADLOCK: &str = "no deadlock";

/// Every invariant.
pub const ALL: [&str; 9] =
    [GAPLESS, NO_ORPHANS, RISING, ONCE, ACKNOWLEDGED, CREATED, FEED_COMPLETE, FEED_IN_ORDER, NO_DEADLOCK];

/// A state that some order of the steps reaches. Without this check, a model in which nothing happens would keep the
/// invariants.
pub const ALL_DONE: &str = "all clients are done";

/// A client that tries again finds the work of its first attempt. This needs a lost answer.
pub const OWN_WORK_FOUND: &str = "a retry finds its own work";

pub(crate) fn properties() -> Vec<Property<Protocol>> {
    vec![
        Property::always(GAPLESS, |_, state: &State| is_gapless(&state.database)),
        Property::always(NO_ORPHANS, |_, state: &State| has_no_orphans(&state.database)),
        Property::always(RISING, |protocol: &Protocol, state: &State| rises(protocol.store, &state.database)),
        Property::always(ONCE, |_, state: &State| is_stored_once(&state.database)),
        Property::always(ACKNOWLEDGED, |_, state: &State| has_acknowledged(state)),
        Property::always(CREATED, |_, state: &State| has_created(state)),
        Property::always(FEED_COMPLETE, is_feed_complete),
        Property::always(FEED_IN_ORDER, |_, state: &State| is_feed_in_order(state)),
        Property::always(NO_DEADLOCK, has_no_circle),
        Property::sometimes(ALL_DONE, |_, state: &State| state.is_done()),
        Property::sometimes(OWN_WORK_FOUND, |_, state: &State| state.clients.iter().any(|client| client.has_found_own)),
    ]
}

impl State {
    fn is_done(&self) -> bool {
        self.transactions.is_empty() && self.clients.iter().all(|client| client.operation().is_none())
    }
}

fn is_gapless(database: &Database) -> bool {
    let tables = database.now();
    tables.sessions.iter().all(|(session, row)| {
        let of_session = tables.events.iter().filter(|event| event.session == *session && event.life == row.life);
        let mut numbers: Vec<_> = of_session.map(|event| event.number).collect();
        numbers.sort_unstable();
        numbers.into_iter().eq(1..=row.last)
    })
}

fn has_no_orphans(database: &Database) -> bool {
    let tables = database.now();
    let is_alive = |event: &StoredEvent| tables.sessions.get(&event.session).is_some_and(|row| row.life == event.life);
    tables.events.iter().all(is_alive)
}

fn rises(store: Store, database: &Database) -> bool {
    let entries: Vec<_> = database.entries(1, database.commits()).collect();
    entries.iter().enumerate().all(|(nth, entry)| {
        let change = database.change(*entry);
        let later = entries[nth + 1..].iter().filter(|later| later.0 > entry.0).map(|later| database.change(*later));
        // On MySQL, the log of a user begins again after the user was erased.
        let is_end = |later: &&Change| {
            store == Store::MySql && matches!(later.kind, ChangeKind::Erased { user, .. } if user == change.kind.user())
        };
        later.take_while(|later| !is_end(later)).all(|later| is_before(store, change, later))
    })
}

/// Returns whether the positions of two changes are in the order of their commits, if the changes are in the same log.
fn is_before(store: Store, one: &Change, later: &Change) -> bool {
    match store {
        Store::Postgres => !one.is_ordered_with(later) || one.position.sequence < later.position.sequence,
        Store::MySql => {
            let is_same_user = one.kind.user() == later.kind.user();
            let in_user = is_same_user && one.kind.is_of_user_log() && later.kind.is_of_user_log();
            let in_app = one.kind.is_of_app_log() && later.kind.is_of_app_log();
            (!in_user || one.position.user < later.position.user) && (!in_app || one.position.app < later.position.app)
        }
    }
}

fn is_stored_once(database: &Database) -> bool {
    let mut seen = BTreeSet::new();
    database.now().events.iter().all(|event| seen.insert((event.session, event.life, event.event % OTHER_ID)))
}

fn has_acknowledged(state: &State) -> bool {
    let database = &state.database;
    let tables = database.now();
    let acknowledged = state.clients.iter().flat_map(|client| &client.acknowledged);
    acknowledged.into_iter().all(|acknowledged| {
        let sent = acknowledged.append;
        let is_it = |change: &Change| match change.kind {
            ChangeKind::Stored { session, event, number, .. } => {
                session == sent.session
                    && event % OTHER_ID == sent.event % OTHER_ID
                    && acknowledged.number.is_none_or(|told| told == number)
            }
            _ => false,
        };
        let entries: Vec<_> = database.entries(0, database.commits()).collect();
        let Some(entry) = entries.iter().find(|entry| is_it(database.change(**entry))) else { return false };
        tables.shows(*entry, database.change(*entry)) || is_removed(database, entry.0, sent.session)
    })
}

/// Returns whether a session was removed after a commit.
fn is_removed(database: &Database, after: u8, session: Address) -> bool {
    let later = database.log.iter().skip(usize::from(after) + 1).flat_map(|commit| &commit.changes);
    later.into_iter().any(|change| match &change.kind {
        ChangeKind::Deleted { session: removed, .. } => *removed == session,
        ChangeKind::Erased { sessions, .. } => sessions.contains(&session),
        _ => false,
    })
}

fn has_created(state: &State) -> bool {
    let refused = (0..state.clients.len()).filter(|client| state.clients[*client].last == Some(Answer::Taken));
    refused.into_iter().all(|client| {
        let own = state.database.log.iter().skip(1).filter(|commit| commit.transaction.0 == client);
        !own.flat_map(|commit| &commit.changes).any(|change| matches!(change.kind, ChangeKind::Created { .. }))
    })
}

fn is_feed_complete(protocol: &Protocol, state: &State) -> bool {
    let database = &state.database;
    let tables = database.now();
    state.readers.iter().enumerate().all(|(number, reader)| {
        !protocol.is_at_end(state, number)
            || database.entries(1, database.commits()).all(|entry| {
                let is_numbering = database.locks.contains_key(&Row::Feed);
                is_numbering || reader.read.contains(&entry) || !tables.shows(entry, database.change(entry))
            })
    })
}

fn is_feed_in_order(state: &State) -> bool {
    let database = &state.database;
    state.readers.iter().all(|reader| {
        reader.read.iter().enumerate().all(|(nth, entry)| {
            let change = database.change(*entry);
            reader.read[nth + 1..]
                .iter()
                .all(|later| entry != later && (entry < later || !change.is_ordered_with(database.change(*later))))
        })
    })
}

fn has_no_circle(protocol: &Protocol, state: &State) -> bool {
    state.transactions.iter().all(|first| {
        let mut waiting = first;
        for _ in &state.transactions {
            let Some(Holder::Transaction(client, attempt)) = protocol.waits_for(&state.database, waiting) else {
                return true;
            };
            let holder = state.transactions.iter().find(|one| (one.client, one.attempt) == (client, attempt));
            let Some(holder) = holder else { return true };
            waiting = holder;
        }
        false
    })
}
