//! Verification that the reported state is the fold of the event log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::history::PAGE;
use super::{
    ChangeQuery, FoldRoom, GetSessionConfig, InitialState, PAGE_BYTES, Session, SessionKey, SessionService,
    StateChange, StateOwner,
};
use crate::environment::Deadline;
use crate::error::{Error, ErrorKind, KeyWriter, Result};
use crate::event::Event;
use crate::json::bytes_of;
use crate::state::{OwnKeys, Scope, StateMap, apply_own, own_keys};

/// How often a read is repeated because of concurrent writes.
const TRIES: u32 = 10;

/// Stores may keep states at events whose number is a multiple of this.
const EVERY: u64 = 256;

/// The result of a successful verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many events, or changes in a log, were folded.
    pub events: u64,
    /// The number of keys in the result of the fold, all equal to the reported keys.
    pub keys: u64,
}

pub(super) async fn session<S: SessionService + ?Sized>(service: &S, key: &SessionKey) -> Result<Option<Verified>> {
    let mut found_wrong = false;
    for _ in 1..TRIES {
        match try_session(service, key).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            // A session created again meanwhile may look corrupted. Real corruption is found again on the next attempt.
            Err(error) if error.kind() == ErrorKind::DataCorrupted && !found_wrong => found_wrong = true,
            done => return done,
        }
    }
    try_session(service, key).await
}

/// Verifies a session once. Fails with `Conflict` if the session changes too fast, or was pruned or deleted meanwhile.
async fn try_session<S: SessionService + ?Sized>(service: &S, key: &SessionKey) -> Result<Option<Verified>> {
    let Some((session, blame)) = with_writers(service, key).await? else {
        return Ok(None);
    };
    let initial = service.get_initial_state(key).await?.ok_or_else(|| moved(key))?;
    let begin = initial.seq;
    let folded = fold(service, &session, initial).await?;
    compare(key, &own_values(session.state()), &folded, "its events give")?;
    for (name, (seq, _)) in &folded {
        let writer = blame.get(name).map(|writer| writer.seq);
        // Only the store knows the writers before the prune point.
        if writer != Some(*seq) && (*seq > begin || writer.is_none_or(|writer| writer > begin)) {
            let found = writer.map_or("nothing".to_owned(), |writer| format!("event {writer}"));
            return Err(differs(key, name, &format!("was written by event {seq}, and is said to be by {found}")));
        }
    }
    Ok(Some(Verified { events: session.seq() - begin, keys: folded.len() as u64 }))
}

/// Returns the session's state and the writers of its keys, both as of its last event.
async fn with_writers<S: SessionService + ?Sized>(
    service: &S,
    key: &SessionKey,
) -> Result<Option<(Session, BTreeMap<String, KeyWriter>)>> {
    for _ in 0..TRIES {
        let Some(session) = service.get_session(key, &GetSessionConfig::state_only()).await? else {
            return Ok(None);
        };
        let blame = match service.blame(key).await {
            // The session was deleted meanwhile: the next attempt finds nothing, or another session.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        let nothing = GetSessionConfig::state_only().without_state();
        let after = service.get_session(key, &nothing).await?;
        if after.is_some_and(|after| after.seq() == session.seq()) {
            return Ok(Some((session, blame)));
        }
    }
    Err(moved(key))
}

/// Folds the events up to the last one seen, and compares with the states that the store reports on the way.
async fn fold<S: SessionService + ?Sized>(service: &S, session: &Session, initial: InitialState) -> Result<OwnKeys> {
    let key = session.key();
    let InitialState { mut seq, state } = initial;
    let mut folded = own_keys(seq, state);
    let mut room = FoldRoom::default();
    while seq < session.seq() {
        // Some stores never wait, and then no time limit from outside takes effect.
        Deadline::current().check()?;
        let config =
            GetSessionConfig::default().without_state().with_events_after(seq, PAGE).with_page_bytes(PAGE_BYTES);
        let page = service.get_session(key, &config).await?.ok_or_else(|| moved(key))?;
        for event in page.events().iter().take_while(|event| event.seq <= Some(session.seq())) {
            if event.seq != Some(seq + 1) {
                return gap(service, key, seq + 1).await;
            }
            seq += 1;
            apply_own(&mut folded, seq, &event.actions.state_delta);
            room.take(bytes_of(&event.actions.state_delta), || {
                folded.iter().map(|(name, (_, value))| name.len() as u64 + bytes_of(value)).sum()
            })?;
            if seq.is_multiple_of(EVERY)
                && let Some(shown) = shown_at(service, key, seq).await?
            {
                compare(key, &own_values(&shown), &folded, &format!("the events up to {seq} give"))?;
            }
        }
        if page.events().is_empty() {
            return gap(service, key, seq + 1).await;
        }
    }
    Ok(folded)
}

/// Returns the state that the store reports at an event. `None` if the logs of that time were pruned, which is no
/// damage: only the state of the user and the app is missing.
async fn shown_at<S: SessionService + ?Sized>(service: &S, key: &SessionKey, seq: u64) -> Result<Option<StateMap>> {
    let error = match service.get_state_at(key, seq).await {
        Ok(shown) => return Ok(Some(shown)),
        Err(error) => error,
    };
    let was_pruned = match error.kind() {
        ErrorKind::FailedPrecondition => true,
        ErrorKind::NotFound => false,
        _ => return Err(error),
    };
    match service.get_initial_state(key).await? {
        Some(initial) if was_pruned && initial.seq <= seq => Ok(None),
        _ => Err(moved(key)),
    }
}

/// Returns the error for a missing event, which was pruned meanwhile or is lost.
async fn gap<S: SessionService + ?Sized>(service: &S, key: &SessionKey, seq: u64) -> Result<OwnKeys> {
    let begin = service.get_initial_state(key).await?.map(|initial| initial.seq);
    if begin.is_none_or(|begin| begin >= seq) {
        return Err(moved(key));
    }
    Err(Error::corrupted(format!("the event {seq} of {key} is missing")))
}

fn own_values(state: &StateMap) -> BTreeMap<String, Value> {
    state.iter().filter(|(key, _)| Scope::split(key).0 == Scope::Session).map(|(k, v)| (k, v.clone())).collect()
}

fn compare(key: &SessionKey, shown: &BTreeMap<String, Value>, folded: &OwnKeys, what: &str) -> Result<()> {
    for (name, (seq, value)) in folded {
        match shown.get(name) {
            Some(found) if found == value => {}
            Some(_) => return Err(differs(key, name, &format!("is not what {what}: the value of event {seq}"))),
            None => return Err(differs(key, name, &format!("is not there, and {what} it: event {seq} wrote it"))),
        }
    }
    match shown.keys().find(|name| !folded.contains_key(*name)) {
        Some(name) => Err(differs(key, name, &format!("is there, and is nothing that {what}"))),
        None => Ok(()),
    }
}

fn differs(of: impl std::fmt::Display, name: &str, what: &str) -> Error {
    Error::corrupted(format!("the key '{name}' of {of} {what}"))
}

fn moved(key: &SessionKey) -> Error {
    Error::new(ErrorKind::Conflict, format!("the session {key} was changed all the time; verify it when it is quieter"))
}

pub(super) async fn state<S: SessionService + ?Sized>(service: &S, owner: &StateOwner) -> Result<Verified> {
    match try_state(service, owner).await {
        // A log that was pruned during the read may look corrupted. Real corruption is found again on the next attempt.
        Err(error) if error.kind() == ErrorKind::DataCorrupted => try_state(service, owner).await,
        done => done,
    }
}

async fn try_state<S: SessionService + ?Sized>(service: &S, owner: &StateOwner) -> Result<Verified> {
    let mut log = FoldedLog::default();
    log.read(service, owner).await?;
    for _ in 0..TRIES {
        let shown = service.get_state(owner).await?;
        let Err(error) = log.compare(owner, &shown) else {
            return Ok(Verified { events: log.events, keys: log.values.len() as u64 });
        };
        let before = log.events;
        log.read(service, owner).await?;
        // Writes after the read of the log may be in the state only; without such writes, a difference is corruption.
        if log.events == before {
            return Err(error);
        }
    }
    let message = format!("the state of {} was changed all the time; verify it when it is quieter", named(owner));
    Err(Error::new(ErrorKind::Conflict, message))
}

/// The fold of a log, up to what has been read.
#[derive(Debug, Default)]
struct FoldedLog {
    values: Map<String, Value>,
    versions: HashMap<String, u64>,
    position: u64,
    events: u64,
    room: FoldRoom,
}

impl FoldedLog {
    async fn read<S: SessionService + ?Sized>(&mut self, service: &S, owner: &StateOwner) -> Result<()> {
        loop {
            let page = service.list_state_changes(owner, &ChangeQuery::After(self.position), PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            for change in page {
                self.take(owner, &change)?;
                check_event(service, owner, &change).await?;
            }
        }
    }

    fn take(&mut self, owner: &StateOwner, change: &StateChange) -> Result<()> {
        // The first kept change may have any version, because earlier ones may have been pruned.
        let last = self.versions.insert(change.name.clone(), change.version);
        if last.is_some_and(|last| last + 1 != change.version) {
            let missing = last.unwrap_or_default() + 1;
            return Err(differs(named(owner), &change.name, &format!("lacks version {missing} in its log")));
        }
        match &change.value {
            Some(value) => drop(self.values.insert(change.name.clone(), value.clone())),
            None => drop(self.values.shift_remove(&change.name)),
        }
        self.position = self.position.max(change.position);
        self.events += 1;
        let values = &self.values;
        self.room.take(bytes_of(&change.value), || {
            values.iter().map(|(name, value)| name.len() as u64 + bytes_of(value)).sum()
        })
    }

    fn compare(&self, owner: &StateOwner, shown: &Map<String, Value>) -> Result<()> {
        let version = |name: &str| self.versions.get(name).copied().unwrap_or_default();
        for (name, value) in &self.values {
            let what = match shown.get(name) {
                Some(found) if found == value => continue,
                Some(_) => format!("is not the value of version {} in its log", version(name)),
                None => format!("is not there, and version {} in its log wrote it", version(name)),
            };
            return Err(differs(named(owner), name, &what));
        }
        match shown.keys().find(|name| !self.values.contains_key(*name)) {
            Some(name) => Err(differs(named(owner), name, "is there, and its log does not have it")),
            None => Ok(()),
        }
    }
}

/// Checks that a change is in the event that made it, if the event still exists.
async fn check_event<S: SessionService + ?Sized>(service: &S, owner: &StateOwner, change: &StateChange) -> Result<()> {
    let Some((key, seq)) = change.origin.as_ref().filter(|(_, seq)| *seq > 0) else {
        return Ok(());
    };
    let config = GetSessionConfig::default().without_state().with_events_after(seq - 1, 1);
    let session = service.get_session(key, &config).await?;
    let event = session.and_then(|session| session.events().get(0).cloned());
    // A session created again may have an event with the same number and id.
    let is_its = |event: &Arc<Event>| event.seq == Some(*seq) && event.id == change.event_id;
    let Some(event) = event.filter(|event| is_its(event) && event.timestamp == Some(change.time)) else {
        return Ok(());
    };
    let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
    let written = event.actions.state_delta.get(&scope.key(&change.name));
    if written.is_some_and(|written| written.value() == change.value.as_ref()) {
        return Ok(());
    }
    let what = format!("has version {} in its log, which is not what event {seq} of {key} wrote", change.version);
    Err(differs(named(owner), &change.name, &what))
}

fn named(owner: &StateOwner) -> String {
    match owner.user_id() {
        Some(user_id) => format!("user {}/{user_id}", owner.app_name()),
        None => format!("app {}", owner.app_name()),
    }
}
