//! Compares stores with a model of nested maps: makes random calls, and reads everything after each call.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scratchbook::session::{ChangeQuery, ConflictMode, ListSessionsConfig, Outcome, StateOwner};
use scratchbook::state::Change;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, Session, SessionKey, SessionServiceExt,
    StateDelta, Store,
};
use serde_json::{Map, Value, json};

use crate::generate::{Changes, Deeds, ValueTexts, cases, changes, deeds, delta, delta_of, done, value};

#[derive(Default)]
struct StoreModel {
    /// By app.
    apps: BTreeMap<String, ValueTexts>,
    /// By app and user.
    users: BTreeMap<(String, String), ValueTexts>,
    sessions: BTreeMap<SessionKey, ModelSession>,
    /// The number of commits, and the last commit that wrote each key, by owner and key.
    clock: u64,
    written: BTreeMap<(String, String), u64>,
    /// Copies of sessions, each with the commit after which it was read and the keys that it has written since.
    copies: BTreeMap<SessionKey, SessionCopy>,
}

struct SessionCopy {
    session: Session,
    life: u64,
    read: u64,
    own: BTreeMap<String, u64>,
}

#[derive(Default)]
struct ModelSession {
    state: ValueTexts,
    /// The id and the changes of each event, without `temp:` keys.
    events: Vec<(String, StateDelta)>,
    /// The changes of each event as they were sent, with operations in them.
    sent: Vec<StateDelta>,
    time: f64,
    /// The commit that created the session.
    life: u64,
}

/// The app, the user and the session. There are few of each, so that calls often concern the same session.
type SessionIndex = (usize, usize, usize);

#[derive(Clone, Debug)]
enum StoreCall {
    Create(SessionIndex, Vec<(String, Value)>),
    Append(SessionIndex, Changes, u32),
    Operate(SessionIndex, Deeds),
    PutOperations(SessionIndex, Deeds),
    /// Reads a copy, on which later appends are made.
    Read(SessionIndex),
    Late(SessionIndex, Deeds, ConflictMode),
    Retry(SessionIndex),
    PutUser(SessionIndex, Changes),
    PutApp(SessionIndex, Changes),
    Delete(SessionIndex),
    DeleteUser(SessionIndex),
}

fn call() -> impl Strategy<Value = StoreCall> {
    let place = || (0..2_usize, 0..2_usize, 0..2_usize);
    let state = prop::collection::vec((crate::generate::key(), value()), 0..4);
    prop_oneof![
        4 => (place(), state).prop_map(|(place, state)| StoreCall::Create(place, state)),
        8 => (place(), changes(), 0..1000_u32)
            .prop_map(|(place, changes, time)| StoreCall::Append(place, changes, time)),
        6 => (place(), deeds()).prop_map(|(place, deeds)| StoreCall::Operate(place, deeds)),
        2 => (place(), deeds()).prop_map(|(place, deeds)| StoreCall::PutOperations(place, deeds)),
        2 => place().prop_map(StoreCall::Read),
        4 => (place(), deeds(), prop::sample::select(vec![
            ConflictMode::ByKey, ConflictMode::ByKey, ConflictMode::BySession, ConflictMode::Merge,
        ])).prop_map(|(place, deeds, mode)| StoreCall::Late(place, deeds, mode)),
        1 => place().prop_map(StoreCall::Retry),
        2 => (place(), changes()).prop_map(|(place, changes)| StoreCall::PutUser(place, changes)),
        1 => (place(), changes()).prop_map(|(place, changes)| StoreCall::PutApp(place, changes)),
        1 => place().prop_map(StoreCall::Delete),
        1 => place().prop_map(StoreCall::DeleteUser),
    ]
}

fn key((app, user, session): SessionIndex) -> SessionKey {
    SessionKey::new(["shop", "Shop"][app], ["alice", ""][user], ["s", "S"][session]).unwrap()
}

fn set(naive: &mut ValueTexts, name: &str, value: Option<&Value>) {
    match value {
        Some(value) => naive.insert(name.to_owned(), value.to_string()),
        None => naive.remove(name),
    };
}

/// Returns the owner of a key, and the key.
fn of(key: &SessionKey, name: &str) -> (String, String) {
    let owner = match name.split_once(':') {
        Some(("app", _)) => key.app_name().to_owned(),
        Some(("user", _)) => format!("{}\n{}", key.app_name(), key.user_id()),
        _ => key.to_string(),
    };
    (owner, name.to_owned())
}

impl StoreModel {
    /// The value of a key as a session sees it.
    fn get(&self, key: &SessionKey, name: &str) -> Option<Value> {
        self.merged(key).get(name).map(|text| serde_json::from_str(text).unwrap())
    }

    fn app(&mut self, key: &SessionKey) -> &mut ValueTexts {
        self.apps.entry(key.app_name().to_owned()).or_default()
    }

    fn user(&mut self, key: &SessionKey) -> &mut ValueTexts {
        self.users.entry((key.app_name().to_owned(), key.user_id().to_owned())).or_default()
    }

    fn change(&mut self, key: &SessionKey, name: &str, value: Option<&Value>) {
        self.written.insert(of(key, name), self.clock);
        if let Some(name) = name.strip_prefix("user:") {
            set(self.user(key), name, value);
        } else if let Some(name) = name.strip_prefix("app:") {
            set(self.app(key), name, value);
        } else if !name.starts_with("temp:") {
            set(&mut self.sessions.get_mut(key).unwrap().state, name, value);
        }
    }

    /// Makes a call on the store and on the model.
    async fn call(&mut self, store: &Store, call: StoreCall, count: usize) {
        let sessions = &store.sessions;
        self.clock += 1;
        match call {
            StoreCall::Create(place, state) => {
                let key = key(place);
                let map: Map<String, Value> = state.into_iter().collect();
                let config = CreateSessionConfig::default().with_session_id(key.session_id()).with_state(map.clone());
                let created = sessions.create_session(key.app_name(), key.user_id(), config).await;
                if self.sessions.contains_key(&key) {
                    assert_eq!(created.unwrap_err().kind(), ErrorKind::AlreadyExists);
                    return;
                }
                let time = created.unwrap().last_update_time();
                self.sessions.insert(key.clone(), ModelSession { time, life: self.clock, ..ModelSession::default() });
                map.iter().for_each(|(name, value)| self.change(&key, name, Some(value)));
            }
            StoreCall::Append(place, changes, time) => {
                let (key, id, time) = (key(place), format!("e{count}"), f64::from(time) / 8.0);
                let delta = delta(&changes);
                let event = Event::new("agent").with_id(&id).with_timestamp(time).with_state_delta(delta.clone());
                let committed = sessions.append(&key, event, AppendOptions::default()).await;
                let Some(kept) = self.sessions.get_mut(&key) else {
                    assert_eq!(committed.unwrap_err().kind(), ErrorKind::NotFound);
                    return;
                };
                let mut stored = StateDelta::new();
                for (name, change) in delta.iter().filter(|(name, _)| !name.starts_with("temp:")) {
                    stored.insert(name.to_owned(), change.clone()).unwrap();
                }
                kept.events.push((id, stored));
                kept.sent.push(delta.clone());
                kept.time = time;
                assert_eq!(committed.unwrap().event.seq, Some(kept.events.len() as u64));
                for (name, change) in delta.iter() {
                    self.change(&key, name, change.value());
                }
            }
            StoreCall::Operate(place, deeds) => self.operate(store, key(place), deeds, count, None).await,
            StoreCall::Late(place, deeds, mode) => self.operate(store, key(place), deeds, count, Some(mode)).await,
            StoreCall::Read(place) => {
                let key = key(place);
                if let Some(session) = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap() {
                    let (life, own) = (self.sessions[&key].life, BTreeMap::new());
                    self.copies.insert(key, SessionCopy { session, life, read: self.clock, own });
                }
            }
            StoreCall::PutOperations(place, deeds) => {
                let (key, Ok(delta)) = (key(place), delta_of(&deeds)) else { return };
                let owner = StateOwner::user(key.app_name(), key.user_id()).unwrap();
                let put = sessions.put_state(&owner, delta, "model".into()).await;
                let user = self.user(&key).clone();
                match done(&deeds, |name| user.get(name).map(|text| serde_json::from_str(text).unwrap())) {
                    Err(kind) => assert_eq!(put.unwrap_err().kind(), kind),
                    Ok(keys) => {
                        put.unwrap();
                        for (name, _, value) in keys.into_iter().filter(|(_, written, _)| *written) {
                            self.change(&key, &format!("user:{name}"), value.as_ref());
                        }
                    }
                }
            }
            StoreCall::Retry(place) => {
                let key = key(place);
                let Some(kept) = self.sessions.get(&key).filter(|kept| !kept.events.is_empty()) else {
                    return;
                };
                let place = count % kept.events.len();
                let read = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
                let stored = read.events().get(place).unwrap();
                let (id, time) = (&kept.events[place].0, stored.timestamp.unwrap());
                let event = Event::new("agent").with_id(id).with_timestamp(time);
                let event = event.with_state_delta(kept.sent[place].clone());
                let committed = sessions.append(&key, event, AppendOptions::default()).await.unwrap();
                assert_eq!((committed.outcome, &committed.event), (Outcome::Replayed, stored));
            }
            StoreCall::PutUser(place, changes) => {
                let (key, delta) = (key(place), delta(&changes));
                let owner = StateOwner::user(key.app_name(), key.user_id()).unwrap();
                sessions.put_state(&owner, delta.clone(), "model".into()).await.unwrap();
                for (name, change) in delta.iter() {
                    self.change(&key, &format!("user:{name}"), change.value());
                }
            }
            StoreCall::PutApp(place, changes) => {
                let (key, delta) = (key(place), delta(&changes));
                let owner = StateOwner::app(key.app_name()).unwrap();
                sessions.put_state(&owner, delta.clone(), "model".into()).await.unwrap();
                for (name, change) in delta.iter() {
                    self.change(&key, &format!("app:{name}"), change.value());
                }
            }
            StoreCall::Delete(place) => {
                sessions.delete_session(&key(place)).await.unwrap();
                self.sessions.remove(&key(place));
            }
            StoreCall::DeleteUser(place) => {
                let key = key(place);
                sessions.delete_user(key.app_name(), key.user_id()).await.unwrap();
                self.users.remove(&(key.app_name().to_owned(), key.user_id().to_owned()));
                self.sessions.retain(|k, _| (k.app_name(), k.user_id()) != (key.app_name(), key.user_id()));
            }
        }
    }

    /// Appends an event with operations; with a `mode`, to a copy that may be outdated.
    async fn operate(
        &mut self,
        store: &Store,
        key: SessionKey,
        deeds: Deeds,
        count: usize,
        mode: Option<ConflictMode>,
    ) {
        let Ok(delta) = delta_of(&deeds) else { return };
        let stored: Deeds = deeds.into_iter().filter(|(name, _)| !name.starts_with("temp:")).collect();
        // A copy applies operations on `temp:` keys itself, and may refuse them.
        let sent = if mode.is_some() { delta_of(&stored).unwrap() } else { delta.clone() };
        let (id, time) = (format!("e{count}"), count as f64);
        let event = Event::new("agent").with_id(&id).with_timestamp(time).with_state_delta(sent);
        let touched: Vec<_> = delta.iter().map(|(name, _)| name).filter(|name| !name.starts_with("temp:")).collect();
        let (answer, late) = match mode {
            None => {
                let committed = store.sessions.append(&key, event, AppendOptions::default()).await;
                (committed.map(|committed| committed.event), false)
            }
            Some(mode) => {
                let life = self.sessions.get(&key).map(|kept| kept.life);
                // Copies of sessions that were deleted, or created again, are tested elsewhere.
                if self.copies.get(&key).is_none_or(|copy| Some(copy.life) != life) {
                    return;
                }
                let copy = self.copies.get_mut(&key).unwrap();
                let late = match mode {
                    ConflictMode::ByKey => touched.iter().any(|name| {
                        let seen = copy.own.get(*name).copied().unwrap_or_default().max(copy.read);
                        self.written.get(&of(&key, name)).is_some_and(|written| *written > seen)
                    }),
                    ConflictMode::BySession => copy.session.seq() != self.sessions[&key].events.len() as u64,
                    _ => false,
                };
                (store.sessions.append_event_with(&mut copy.session, event, mode).await, late)
            }
        };
        if !self.sessions.contains_key(&key) {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::NotFound);
            return;
        }
        let keys = match done(&stored, |name| self.get(&key, name)) {
            _ if late => return assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict),
            Err(kind) => return assert_eq!(answer.unwrap_err().kind(), kind),
            Ok(keys) => keys,
        };
        let mut resolved = StateDelta::new();
        for (name, _, value) in keys.into_iter().filter(|(_, written, _)| *written) {
            self.change(&key, &name, value.as_ref());
            let change = value.map_or(Change::Remove, Change::Set);
            if let (Some(_), Some(copy)) = (mode, self.copies.get_mut(&key)) {
                copy.own.insert(name.clone(), self.clock);
                assert_eq!(copy.session.state().get(&name), change.value(), "the copy's '{name}'");
            }
            resolved.insert(name, change).unwrap();
        }
        let answer = answer.unwrap();
        assert_eq!(json!(answer.actions.state_delta).to_string(), json!(resolved).to_string());
        let kept = self.sessions.get_mut(&key).unwrap();
        kept.events.push((id, resolved));
        kept.sent.push(delta);
        kept.time = time;
        assert_eq!(answer.seq, Some(kept.events.len() as u64));
    }

    /// Returns the expected merged state of a session.
    fn merged(&self, key: &SessionKey) -> ValueTexts {
        let app = self.apps.get(key.app_name()).into_iter().flatten();
        let user = self.users.get(&(key.app_name().to_owned(), key.user_id().to_owned())).into_iter().flatten();
        let own = self.sessions[key].state.clone();
        let shared = app.map(|(name, v)| (format!("app:{name}"), v.clone()));
        own.into_iter().chain(user.map(|(name, v)| (format!("user:{name}"), v.clone()))).chain(shared).collect()
    }

    /// Checks that the store has the same contents as the model.
    async fn compare(&self, store: &Store) {
        for (app, user, session) in
            [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)]
        {
            let key = key((app, user, session));
            let read = store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap();
            assert_eq!(read.is_some(), self.sessions.contains_key(&key), "whether {key} is there");
            let Some(read) = read else { continue };
            let kept = &self.sessions[&key];
            assert_eq!(texts(read.state().to_map()), self.merged(&key), "the state of {key}");
            let events =
                read.events().iter().map(|e| (e.id.clone(), e.actions.state_delta.clone())).collect::<Vec<_>>();
            assert_eq!(json!(events), json!(kept.events), "the events of {key}");
            assert_eq!((read.seq(), read.last_update_time()), (kept.events.len() as u64, kept.time), "{key}");
        }
        for app in ["shop", "Shop"] {
            self.compare_shared(store, StateOwner::app(app).unwrap(), self.apps.get(app)).await;
            for user in ["alice", ""] {
                let naive = self.users.get(&(app.to_owned(), user.to_owned()));
                self.compare_shared(store, StateOwner::user(app, user).unwrap(), naive).await;
            }
            self.compare_list(store, app).await;
        }
    }

    async fn compare_shared(&self, store: &Store, owner: StateOwner, naive: Option<&ValueTexts>) {
        let naive = naive.cloned().unwrap_or_default();
        let state = store.sessions.get_state(&owner).await.unwrap();
        assert_eq!(texts(state), naive, "the state of {owner:?}");
        let log = store.sessions.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
        let mut folded = ValueTexts::new();
        log.iter().for_each(|change| set(&mut folded, &change.name, change.value.as_ref()));
        assert_eq!(folded, naive, "the fold of the log of {owner:?}");
    }

    async fn compare_list(&self, store: &Store, app: &str) {
        let page = store.sessions.list_sessions(app, &ListSessionsConfig::default()).await.unwrap();
        let times: Vec<_> = page.sessions.iter().map(|session| session.last_update_time()).collect();
        assert!(times.is_sorted(), "the oldest update first: {times:?}");
        let mut listed: Vec<_> = page.sessions.iter().map(|s| (s.key().clone(), texts(s.state().to_map()))).collect();
        listed.sort();
        let expected = self.sessions.keys().filter(|key| key.app_name() == app);
        assert_eq!(
            listed,
            expected.map(|key| (key.clone(), self.merged(key))).collect::<Vec<_>>(),
            "the list of {app}"
        );
    }
}

fn texts(map: Map<String, Value>) -> ValueTexts {
    map.into_iter().map(|(key, value)| (key, value.to_string())).collect()
}

/// Plays the calls on a fresh store and on a model of it.
async fn play(store: Store, calls: Vec<StoreCall>) {
    let mut model = StoreModel::default();
    for (count, call) in calls.into_iter().enumerate() {
        model.call(&store, call, count).await;
        model.compare(&store).await;
    }
    store.sessions.close().await.unwrap();
}

macro_rules! model_tests {
    ($name:ident, $open:path) => {
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(cases(16))]

                #[test]
                fn a_store_is_what_its_model_is(calls in prop::collection::vec(call(), 1..30)) {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        let (store, _guard) = $open().await;
                        play(store, calls).await;
                    });
                }
            }
        }
    };
}

for_each_store!(model_tests);

#[test]
fn changes_in_json_tell_a_removal_from_null() {
    let removal = json!(delta(&vec![("a".to_owned(), None)]));
    assert_ne!(removal, json!(delta(&vec![("a".to_owned(), Some(Value::Null))])));
    assert_eq!(Change::Remove.value(), None);
}
