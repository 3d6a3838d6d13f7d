//! The table of open connections and their phases: which connection gets a place, and which one makes room for it.
//!
//! A connection without a request has to make room for others that need its place. A connection whose whole request has
//! arrived keeps its place until the request is answered.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::limits::Network;

/// How long a connection may wait before its first request or between two requests, or take for the headers or the body
/// of a request. After that it makes room for others.
const PATIENCE: Duration = Duration::from_secs(1);

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The connection is new: the headers of its first request have not arrived yet.
    New,
    /// All requests of the connection are answered.
    Idle,
    /// The body of a request has not fully arrived.
    Receiving,
    /// A request is being answered.
    Answering,
}

/// What the listener asks of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// The connection may continue.
    GoOn,
    /// The connection should end after the answer in progress, or at once if there is no such answer.
    End,
    /// The connection should end now.
    Cut,
}

/// Connections by number. `L` is the type of logins.
#[derive(Debug)]
pub(super) struct Places<L> {
    most: usize,
    /// The maximum number of connections without a login from one network.
    most_strangers: usize,
    is_closed: bool,
    next: u64,
    open: HashMap<u64, CountedConnection<L>>,
    /// The connections that are new, idle or receiving: a list for each of these phases, in the order in which the
    /// connections entered it.
    quiet: [BTreeMap<u64, u64>; 3],
    /// How many connections are open and were not asked to end.
    taken: usize,
    /// The number of connections without a login from each network.
    strangers: HashMap<Network, usize>,
    /// How many requests of a login are in progress.
    under_way: HashMap<L, usize>,
}

#[derive(Debug)]
struct CountedConnection<L> {
    phase: Phase,
    /// The number by which connections are ordered in their phase.
    order: u64,
    /// The time at which this connection entered its phase.
    since: Instant,
    /// The network in which the connection counts, until somebody logs in on it.
    stranger: Option<Network>,
    /// The login of the request in progress.
    login: Option<L>,
    wish: watch::Sender<Wish>,
}

impl<L: Clone + Eq + Hash> Places<L> {
    pub(super) fn new(most: usize, most_strangers: usize) -> Self {
        Self {
            most,
            most_strangers,
            is_closed: false,
            next: 0,
            open: HashMap::new(),
            quiet: Default::default(),
            taken: 0,
            strangers: HashMap::new(),
            under_way: HashMap::new(),
        }
    }

    /// Takes a place for a connection, if one is free or another connection can make room. If `network` is given, the
    /// connection counts there until somebody logs in on it.
    pub(super) fn enter(&mut self, network: Option<Network>, now: Instant) -> Option<(u64, watch::Receiver<Wish>)> {
        if self.is_closed {
            return None;
        }
        if let Some(network) = network
            && self.strangers.get(&network).is_some_and(|count| *count >= self.most_strangers)
        {
            let quietest = self.quietest_of(network)?;
            self.end(quietest, Wish::End);
        }
        if self.taken >= self.most && !self.make_room(now) {
            return None;
        }
        let (id, (wish, wishes)) = (self.tick(), watch::channel(Wish::GoOn));
        let connection =
            CountedConnection { phase: Phase::New, order: id, since: now, stranger: network, login: None, wish };
        self.open.insert(id, connection);
        self.quiet[Phase::New as usize].insert(id, id);
        self.taken += 1;
        if let Some(network) = network {
            *self.strangers.entry(network).or_default() += 1;
        }
        Some((id, wishes))
    }

    /// Ends the connection whose end does the least harm. Returns false if no connection can be ended.
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        let slow = |(id, wish): (u64, Wish)| {
            let since = self.open.get(&id).map_or(now, |connection| connection.since);
            (now.saturating_duration_since(since) >= PATIENCE).then_some((id, wish))
        };
        let oldest = |phase: Phase, wish| self.quiet[phase as usize].first_key_value().map(|(_, id)| (*id, wish));
        // A connection with a recent request will soon have another one, so connections without a request end first.
        let least = oldest(Phase::New, Wish::End)
            .and_then(slow)
            .or_else(|| oldest(Phase::Idle, Wish::End).and_then(slow))
            .or_else(|| oldest(Phase::New, Wish::End))
            .or_else(|| oldest(Phase::Idle, Wish::End))
            .or_else(|| oldest(Phase::Receiving, Wish::Cut).and_then(slow));
        match least {
            Some((id, wish)) => {
                self.end(id, wish);
                true
            }
            None => false,
        }
    }

    /// Returns the phase of a connection.
    pub(super) fn phase(&self, id: u64) -> Option<Phase> {
        self.open.get(&id).map(|connection| connection.phase)
    }

    /// Moves a connection to another phase.
    pub(super) fn change(&mut self, id: u64, phase: Phase, now: Instant) {
        let order = self.tick();
        let Some(connection) = self.open.get_mut(&id) else { return };
        let (before, was) = (connection.phase, connection.order);
        (connection.phase, connection.order, connection.since) = (phase, order, now);
        let login = if matches!(phase, Phase::New | Phase::Idle) { connection.login.take() } else { None };
        // A connection that was asked to end is no longer in a list.
        let is_listed = *connection.wish.borrow() == Wish::GoOn;
        if let Some(list) = self.quiet.get_mut(before as usize) {
            list.remove(&was);
        }
        if let Some(list) = self.quiet.get_mut(phase as usize).filter(|_| is_listed) {
            list.insert(order, id);
        }
        if let Some(login) = login {
            one_less(&mut self.under_way, &login);
        }
    }

    /// Records the login of the request in progress on a connection. Returns false if less than an eighth of the places
    /// is free and the login has more than its share, which is half of all places.
    pub(super) fn log_in(&mut self, id: u64, login: &L) -> bool {
        let at_work = self.taken - self.quiet[Phase::New as usize].len() - self.quiet[Phase::Idle as usize].len();
        let is_short = at_work > self.most - self.most / 8;
        let of_login = self.under_way.get(login).copied().unwrap_or_default();
        let Some(connection) = self.open.get_mut(&id) else { return true };
        if let Some(network) = connection.stranger.take() {
            one_less(&mut self.strangers, &network);
        }
        if is_short && of_login >= self.most / 2 {
            return false;
        }
        if let Some(before) = connection.login.replace(login.clone()) {
            one_less(&mut self.under_way, &before);
        }
        *self.under_way.entry(login.clone()).or_default() += 1;
        true
    }

    /// Asks all connections to end, and accepts no more.
    pub(super) fn close(&mut self, wish: Wish) {
        self.is_closed = true;
        let all: Vec<_> = self.open.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id, wish));
    }

    /// Removes a connection that is closed.
    pub(super) fn leave(&mut self, id: u64) {
        self.end(id, Wish::Cut);
        if let Some(login) = self.open.remove(&id).and_then(|connection| connection.login) {
            one_less(&mut self.under_way, &login);
        }
    }

    /// Returns how many connections are open, including those that were asked to end.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Asks a connection to end. Its place is free for another connection from now on.
    fn end(&mut self, id: u64, wish: Wish) {
        let Some(connection) = self.open.get_mut(&id) else { return };
        let before = *connection.wish.borrow();
        if before < wish {
            connection.wish.send_replace(wish);
        }
        if before > Wish::GoOn {
            return;
        }
        self.taken -= 1;
        if let Some(list) = self.quiet.get_mut(connection.phase as usize) {
            list.remove(&connection.order);
        }
        if let Some(network) = connection.stranger.take() {
            one_less(&mut self.strangers, &network);
        }
    }

    /// Of a network's connections without a login, returns the one whose end does the least harm.
    fn quietest_of(&self, network: Network) -> Option<u64> {
        let is_of = |id: &&u64| self.open.get(id).is_some_and(|connection| connection.stranger == Some(network));
        self.quiet.iter().find_map(|list| list.values().find(is_of)).copied()
    }

    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
