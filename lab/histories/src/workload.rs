//! Decides which lists there are, and which of them a transaction reads or writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use scratchbook::{Error, SessionKey};

/// The app of all sessions.
pub const APP: &str = "histories";

/// How many elements a list gets before a new list replaces it. The limit is low because every append returns the whole
/// list.
const ELEMENTS: u64 = 40;

/// The sessions and their lists.
#[derive(Debug)]
pub struct Workload {
    sessions: Vec<SessionKey>,
    places: Vec<ListKey>,
    /// The number of elements given to lists so far. Each element is given only once, so a read that returns another
    /// list is noticed.
    elements: AtomicU64,
}

/// A place for one list in the state of a session, a user or the app. A full list is replaced by a new one.
#[derive(Debug)]
struct ListKey {
    prefix: &'static str,
    /// The user or the session; empty for the app.
    owner: String,
    name: char,
    /// The number of elements that all lists of this place have got so far.
    given: AtomicU64,
}

/// A list, as the state of a session contains it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct List {
    /// The key, with its prefix.
    pub key: String,
    /// The name in the history, which is unique among all lists.
    pub name: String,
}

impl Workload {
    /// Creates sessions of users, with their own lists and with lists that they share. `run` is part of the app's name,
    /// so that several runs on one database do not share data.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: `run` is too long, or has characters that an app's name cannot have.
    pub fn new(run: &str, users: usize, sessions_of_user: usize) -> Result<Self, Error> {
        let (mut sessions, mut places) = (Vec::new(), places("app:", "", 2));
        let app = format!("{APP}-{run}");
        for user in 0..users {
            let user = format!("u{user}");
            places.extend(self::places("user:", &user, 2));
            for session in 0..sessions_of_user {
                let session = format!("{user}s{session}");
                places.extend(self::places("", &session, 3));
                sessions.push(SessionKey::new(&app, &user, &session)?);
            }
        }
        Ok(Self { sessions, places, elements: AtomicU64::new(0) })
    }

    /// Returns the sessions.
    #[must_use]
    pub fn sessions(&self) -> &[SessionKey] {
        &self.sessions
    }

    /// Returns one to four lists that a session's state has, each with the next element for it.
    pub fn to_append(&self, session: &SessionKey, random: &mut fastrand::Rng) -> Vec<(List, u64)> {
        let chosen = self.choose(session, random);
        chosen.into_iter().map(|place| (place.take(), self.element())).collect()
    }

    /// Returns one to four lists that a session's state has.
    pub fn to_read(&self, session: &SessionKey, random: &mut fastrand::Rng) -> Vec<List> {
        self.choose(session, random).into_iter().map(|place| place.list(place.given.load(Relaxed))).collect()
    }

    /// Returns the next element of a list, or `None` if the list has no room.
    pub fn element_for(&self, list: &List) -> Option<u64> {
        let place = self.places.iter().find(|place| place.has(list))?;
        let given =
            place.given.fetch_update(Relaxed, Relaxed, |given| (place.list(given) == *list).then_some(given + 1));
        given.ok().map(|_| self.element())
    }

    fn element(&self) -> u64 {
        self.elements.fetch_add(1, Relaxed)
    }

    /// Returns all lists that a session's state has had.
    #[must_use]
    pub fn all_of(&self, session: &SessionKey) -> Vec<List> {
        let places = self.places.iter().filter(|place| place.is_of(session));
        places.flat_map(|place| (0..=place.given.load(Relaxed) / ELEMENTS).map(|n| place.list(n * ELEMENTS))).collect()
    }

    fn choose(&self, session: &SessionKey, random: &mut fastrand::Rng) -> Vec<&ListKey> {
        let places: Vec<_> = self.places.iter().filter(|place| place.is_of(session)).collect();
        let count = random.usize(1..=4);
        random.choose_multiple(places, count)
    }
}

fn places(prefix: &'static str, owner: &str, count: usize) -> Vec<ListKey> {
    let names = ('a'..='z').take(count);
    names.map(|name| ListKey { prefix, owner: owner.to_owned(), name, given: AtomicU64::new(0) }).collect()
}

impl ListKey {
    fn is_of(&self, session: &SessionKey) -> bool {
        match self.prefix {
            "app:" => true,
            "user:" => self.owner == session.user_id(),
            _ => self.owner == session.session_id(),
        }
    }

    fn has(&self, list: &List) -> bool {
        let key = list.key.strip_prefix(self.prefix).unwrap_or_default();
        key.starts_with(self.name) && list.name.strip_prefix(&self.owner).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the list that gets the next element, and counts the element.
    fn take(&self) -> List {
        self.list(self.given.fetch_add(1, Relaxed))
    }

    fn list(&self, given: u64) -> List {
        let key = format!("{}{}{}", self.prefix, self.name, given / ELEMENTS);
        List { name: format!("{}/{key}", self.owner), key }
    }
}
