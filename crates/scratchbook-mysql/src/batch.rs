//! The arguments of the procedure `scratchbook_write_1`: everything that one commit writes, as arrays in JSON.
//!
//! The numbers of events, versions and positions are known only under the locks. So the arguments contain each number's
//! distance from the last number of this commit. The procedure subtracts the distance from the row's final number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::Hash;

use serde::Serialize;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange, TextMetadata};
use scratchbook_core::session::{SessionKey, StateOwner, seconds_of_micros};
use scratchbook_core::state::Scope;
use scratchbook_database::NewAppend;

/// The arguments of the procedure, in its order.
pub(super) type ProcedureArguments = [Option<String>; 8];

/// Where the answer of the procedure contains an event's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventNumberPlaces {
    /// The place of the event's number in its session.
    pub(super) session: NumberPlace,
    /// The places of the event's positions in the logs of the user and the app, if the event writes to these logs.
    pub(super) user: Option<NumberPlace>,
    pub(super) app: Option<NumberPlace>,
}

/// The place of a number in the answer, which contains only the last number of each session, user and app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberPlace {
    /// The index of the session, user or app in the answer.
    pub(super) row: usize,
    /// How far the number is before the last number.
    pub(super) back: i64,
}

/// A commit that is being assembled.
#[derive(Debug, Default)]
struct Batch<'a> {
    /// For each session: the number of new events, the time of its last update, and the size of the events in bytes.
    sessions: BTreeMap<&'a SessionKey, (i64, i64, i64)>,
    /// For each owner, how many commits change its keys.
    users: BTreeMap<(&'a str, &'a str), i64>,
    apps: BTreeMap<&'a str, i64>,
    /// The last write to each key of a session.
    own: BTreeMap<(&'a SessionKey, &'a str), (Option<&'a str>, i64)>,
    events: Vec<BatchEvent<'a>>,
    changes: Vec<ChangeEntry<'a>>,
    /// For each key of an owner, how often it is written.
    writes: HashMap<OwnedKey<'a>, i64>,
}

/// The app, the user if the key belongs to a user, and the key's name.
type OwnedKey<'a> = (&'a str, Option<&'a str>, &'a str);

/// An event, and the counts at the time when it was added.
#[derive(Debug)]
struct BatchEvent<'a> {
    key: &'a SessionKey,
    event: &'a NewEvent,
    nth: i64,
    user_nth: i64,
    app_nth: i64,
}

/// A change to a key of a user or an app, and the counts at the time when it was added.
#[derive(Debug)]
struct ChangeEntry<'a> {
    app: &'a str,
    /// The user who owns the key, or whose session wrote it.
    user: Option<&'a str>,
    change: &'a TextChange,
    /// The number of the commit in the owner's log.
    nth: i64,
    /// The number of the write to this key.
    write: i64,
    origin: Origin<'a>,
}

/// The origin of a change.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    /// The session and the number of its event, or 0 for its creation.
    session: Option<(&'a SessionKey, i64)>,
    event_id: &'a str,
    author: &'a str,
    time: f64,
}

/// Returns the arguments that append events, and the places of each event's numbers in the answer.
pub(super) fn appends(appends: &[&NewAppend]) -> Result<(ProcedureArguments, Vec<EventNumberPlaces>)> {
    let mut batch = Batch::default();
    for append in appends {
        batch.event(&append.key, &append.event);
    }
    let sessions = places(batch.sessions.keys().copied());
    let users = places(batch.users.keys().copied());
    let apps = places(batch.apps.keys().copied());
    let place = |entry: &BatchEvent<'_>| {
        let (app, user, _) = address(entry.key);
        let writes = |scope| entry.event.changes.iter().any(|change| change.scope == scope);
        EventNumberPlaces {
            session: NumberPlace { row: of(&sessions, &entry.key), back: batch.back(entry.key, entry.nth) },
            user: writes(Scope::User).then(|| NumberPlace {
                row: of(&users, &(app, user)),
                back: batch.user_back(app, user, entry.user_nth),
            }),
            app: writes(Scope::App)
                .then(|| NumberPlace { row: of(&apps, &app), back: batch.app_back(app, entry.app_nth) }),
        }
    };
    let places = batch.events.iter().map(place).collect();
    Ok((batch.arguments()?, places))
}

/// Returns the index of each key in the answer.
fn places<K: Copy + Eq + Hash>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    keys.enumerate().map(|(place, key)| (key, place)).collect()
}

fn of<K: Eq + Hash>(places: &HashMap<K, usize>, key: &K) -> usize {
    places.get(key).copied().unwrap_or_default()
}

/// Returns the arguments that create a session with its initial state and events.
pub(super) fn creation(new: &NewSession, token: &str) -> Result<ProcedureArguments> {
    let mut batch = Batch::default();
    let key = &new.key;
    // The user's row is locked even if none of the user's keys change, so that a removal of the user waits for the
    // creation. The app's row is not locked, so that creations do not wait for each other.
    batch.users.insert((key.app_name(), key.user_id()), 0);
    let time = seconds_of_micros(new.created);
    let origin = Origin { session: Some((key, 0)), event_id: "", author: "user", time };
    let initial = new.initial.as_deref().map_or(0, bytes_of);
    batch.sessions.insert(key, (0, new.created, initial));
    for change in &new.own {
        batch.own.insert((key, &change.name), (change.value.as_deref(), 0));
    }
    batch.changes(key.app_name(), Some(key.user_id()), &new.shared, origin);
    let (user_nth, app_nth) = batch.counts(key);
    let mut seen = HashSet::new();
    // Events with the same id have the same content: the second is a retry.
    for event in new.events.iter().filter(|event| seen.insert(event.prepared.event.id.as_str())) {
        batch.event(key, event);
    }
    let (events, updated, bytes) = batch.sessions.get(key).copied().unwrap_or_default();
    let (app, user, session) = address(key);
    let user_back = batch.user_back(app, user, user_nth);
    let app_back = batch.app_back(app, app_nth);
    let TextMetadata { title, labels } = &new.metadata;
    let made = (
        app,
        user,
        session,
        events,
        new.created,
        updated,
        token,
        new.expires,
        user_back,
        app_back,
        bytes,
        title,
        labels,
        &new.initial,
    );
    let mut arguments = batch.arguments()?;
    arguments[1] = None;
    arguments[0] = json(&[made])?;
    Ok(arguments)
}

/// Returns the arguments that change keys of a user or an app outside of a session.
pub(super) fn state(owner: &StateOwner, changes: &[TextChange], author: &str, time: f64) -> Result<ProcedureArguments> {
    let mut batch = Batch::default();
    let origin = Origin { session: None, event_id: "", author, time };
    // The owner's row is locked even if nothing changes, because the call returns a position.
    match owner.user_id() {
        Some(user) => batch.users.insert((owner.app_name(), user), i64::from(changes.is_empty())),
        None => batch.apps.insert(owner.app_name(), i64::from(changes.is_empty())),
    };
    batch.changes(owner.app_name(), owner.user_id(), changes, origin);
    batch.arguments()
}

impl<'a> Batch<'a> {
    fn event(&mut self, key: &'a SessionKey, new: &'a NewEvent) {
        let event = &new.prepared.event;
        let session = self.sessions.entry(key).or_default();
        *session = (session.0 + 1, new.prepared.micros, session.2 + bytes_of(&new.prepared.text));
        let nth = session.0;
        let time = event.timestamp.unwrap_or_default();
        let origin = Origin { session: Some((key, nth)), event_id: &event.id, author: &event.author, time };
        for change in new.changes.iter().filter(|change| change.scope == Scope::Session) {
            self.own.insert((key, &change.name), (change.value.as_deref(), nth));
        }
        self.changes(key.app_name(), Some(key.user_id()), &new.changes, origin);
        let (user_nth, app_nth) = self.counts(key);
        self.events.push(BatchEvent { key, event: new, nth, user_nth, app_nth });
    }

    /// Returns how many commits have changed the user's and the app's keys so far.
    fn counts(&self, key: &SessionKey) -> (i64, i64) {
        let user = self.users.get(&(key.app_name(), key.user_id())).copied().unwrap_or_default();
        (user, self.apps.get(key.app_name()).copied().unwrap_or_default())
    }

    /// Adds the changes to keys of the user and the app as one commit in the log of each.
    fn changes(&mut self, app: &'a str, user: Option<&'a str>, changes: &'a [TextChange], origin: Origin<'a>) {
        let mut user_nth = None;
        let mut app_nth = None;
        for change in changes {
            let nth = match (change.scope, user) {
                (Scope::User, Some(user)) => {
                    *user_nth.get_or_insert_with(|| next(self.users.entry((app, user)).or_default()))
                }
                (Scope::App, _) => *app_nth.get_or_insert_with(|| next(self.apps.entry(app).or_default())),
                _ => continue,
            };
            let mut entry = ChangeEntry { app, user, change, nth, write: 0, origin };
            entry.write = next(self.writes.entry(entry.owner()).or_default());
            self.changes.push(entry);
        }
    }

    fn arguments(&self) -> Result<ProcedureArguments> {
        let sessions = self.sessions.iter().map(|(key, (events, updated, bytes))| {
            let (app, user, id) = address(key);
            (app, user, id, *events, *updated, *bytes)
        });
        let users = self.users.iter().map(|((app, user), commits)| (*app, *user, *commits));
        let apps = self.apps.iter().map(|(app, commits)| (*app, *commits));
        let own = self.own.iter().map(|((key, name), (value, nth))| {
            let (app, user, session) = address(key);
            (app, user, session, *name, self.back(key, *nth), *value)
        });
        let of = |scope| self.changes.iter().filter(move |entry| entry.change.scope == scope);
        Ok([
            None,
            json(&sessions.collect::<Vec<_>>())?,
            json(&users.collect::<Vec<_>>())?,
            json(&apps.collect::<Vec<_>>())?,
            json(&self.events.iter().map(|entry| self.event_row(entry)).collect::<Vec<_>>())?,
            json(&own.collect::<Vec<_>>())?,
            json(&of(Scope::User).map(|entry| self.change_row(entry)).collect::<Vec<_>>())?,
            json(&of(Scope::App).map(|entry| self.change_row(entry)).collect::<Vec<_>>())?,
        ])
    }

    /// Returns how far an event is before its session's last number.
    fn back(&self, key: &SessionKey, nth: i64) -> i64 {
        self.sessions.get(key).map_or(0, |(events, ..)| events - nth)
    }

    fn user_back(&self, app: &str, user: &str, nth: i64) -> i64 {
        self.users.get(&(app, user)).map_or(0, |commits| commits - nth)
    }

    fn app_back(&self, app: &str, nth: i64) -> i64 {
        self.apps.get(app).map_or(0, |commits| commits - nth)
    }

    fn event_row(&self, entry: &BatchEvent<'a>) -> impl Serialize + use<'a> {
        let BatchEvent { key, event: new, nth, user_nth, app_nth } = *entry;
        let ((app, user, session), event) = (address(key), &new.prepared.event);
        (
            app,
            user,
            session,
            self.back(key, nth),
            event.id.as_str(),
            hex(&new.prepared.hash),
            event.invocation_id.as_str(),
            event.author.as_str(),
            exact(event.timestamp.unwrap_or_default()),
            self.user_back(app, user, user_nth),
            self.app_back(app, app_nth),
            new.prepared.text.as_str(),
        )
    }

    fn change_row(&self, entry: &ChangeEntry<'a>) -> impl Serialize + use<'a> {
        let ChangeEntry { app, user, change, nth, write, origin } = *entry;
        let back = match (change.scope, user) {
            (Scope::User, Some(user)) => self.user_back(app, user, nth),
            _ => self.app_back(app, nth),
        };
        let writes = self.writes.get(&entry.owner()).copied().unwrap_or(write);
        (
            app,
            user,
            change.name.as_str(),
            writes,
            writes - write,
            back,
            origin.session.map(|(key, _)| key.session_id()),
            origin.session.map(|(key, nth)| self.back(key, nth)),
            origin.event_id,
            origin.author,
            exact(origin.time),
            change.value.as_deref(),
        )
    }
}

impl<'a> ChangeEntry<'a> {
    fn owner(&self) -> OwnedKey<'a> {
        (self.app, self.user.filter(|_| self.change.scope == Scope::User), &self.change.name)
    }
}

fn address(key: &SessionKey) -> (&str, &str, &str) {
    (key.app_name(), key.user_id(), key.session_id())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a float as a text, because MySQL's JSON parser may be off by one in the last bit of a number. MySQL's
/// conversion from text is exact.
fn exact(number: f64) -> String {
    // This is the shortest text that parses to the same number, with an exponent if it would be long.
    format!("{number:?}")
}

/// Returns the size that a text adds to its session.
fn bytes_of(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn next(count: &mut i64) -> i64 {
    *count += 1;
    *count
}

pub(super) fn json(rows: &[impl Serialize]) -> Result<Option<String>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let text = serde_json::to_string(rows);
    text.map(Some).map_err(|e| Error::internal("what is to be written cannot be put into JSON").with_source(e))
}
