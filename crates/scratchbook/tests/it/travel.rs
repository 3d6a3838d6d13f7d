//! Compares stores with a model that remembers everything: random appends, forks, rewinds, prunings, deletions and
//! expiries. After each, compares the state at every event, the verification, and the feed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scratchbook::session::{ChangeQuery, Expiry, FeedCommit, FeedStart, ForkConfig, Prune, StateOwner};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, SessionKey, SessionServiceExt, Store,
};
use serde_json::{Map, Value, json};

use crate::generate::{Changes, ValueTexts, cases, changes, delta};

#[derive(Clone, Debug)]
enum TravelCall {
    Create(usize),
    Append(usize, Changes),
    Put(usize, Changes),
    Fork { from: usize, at: usize, to: usize },
    Rewind(usize, usize),
    PruneEvents(usize, usize, usize),
    PruneLog(bool),
    Delete(usize),
    Expire(usize),
}

fn call() -> impl Strategy<Value = TravelCall> {
    let place = || 0..3_usize;
    prop_oneof![
        3 => place().prop_map(TravelCall::Create),
        12 => (place(), changes()).prop_map(|(place, changes)| TravelCall::Append(place, changes)),
        2 => (place(), changes()).prop_map(|(place, changes)| TravelCall::Put(place, changes)),
        3 => (place(), 0..99_usize, place()).prop_map(|(from, at, to)| TravelCall::Fork { from, at, to }),
        3 => (place(), 0..99_usize).prop_map(|(place, to)| TravelCall::Rewind(place, to)),
        2 => (place(), 0..99_usize, 1..4_usize)
            .prop_map(|(place, to, limit)| TravelCall::PruneEvents(place, to, limit)),
        1 => any::<bool>().prop_map(TravelCall::PruneLog),
        1 => place().prop_map(TravelCall::Delete),
        1 => place().prop_map(TravelCall::Expire),
    ]
}

fn key(place: usize) -> SessionKey {
    SessionKey::new("travel", "alice", &format!("s{place}")).unwrap()
}

#[derive(Clone, Default)]
struct TravelSession {
    own: ValueTexts,
    /// The number of the last pruned event, and the states at this event and at each later one.
    base: usize,
    shown: Vec<ValueTexts>,
    /// The invocation of each event after `base`.
    invocations: Vec<String>,
}

impl TravelSession {
    fn last(&self) -> usize {
        self.base + self.invocations.len()
    }

    fn own_at(&self, seq: usize) -> ValueTexts {
        let own = self.shown[seq - self.base].iter().filter(|(key, _)| scope(key).is_empty());
        own.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The entries that the feed is expected to have.
type ExpectedEntries = Vec<(String, u64)>;

#[derive(Default)]
struct TravelModel {
    shared: ValueTexts,
    sessions: BTreeMap<SessionKey, TravelSession>,
    /// Whether past states may be refused because a log was pruned.
    pruned: bool,
    told: ExpectedEntries,
}

fn scope(key: &str) -> &str {
    ["user:", "app:", "temp:"].into_iter().find(|prefix| key.starts_with(prefix)).unwrap_or_default()
}

fn set(naive: &mut ValueTexts, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => naive.insert(key.to_owned(), value.to_string()),
        None => naive.remove(key),
    };
}

impl TravelModel {
    fn merged(&self, own: &ValueTexts) -> ValueTexts {
        own.iter().chain(&self.shared).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn change<'a>(&mut self, own: &mut ValueTexts, changes: impl IntoIterator<Item = (&'a str, Option<&'a Value>)>) {
        for (key, value) in changes {
            match scope(key) {
                "temp:" => {}
                "" => set(own, key, value),
                _ => set(&mut self.shared, key, value),
            }
        }
    }

    /// Records that an event was committed to a session.
    fn commit(&mut self, key: &SessionKey, own: ValueTexts, invocation: String) {
        let shown = self.merged(&own);
        let kept = self.sessions.get_mut(key).unwrap();
        kept.own = own;
        kept.shown.push(shown);
        kept.invocations.push(invocation);
        self.told.push((key.session_id().to_owned(), kept.last() as u64));
    }

    async fn call(&mut self, store: &Store, call: TravelCall, count: usize) {
        let sessions = &store.sessions;
        match call {
            TravelCall::Create(place) => {
                let key = key(place);
                let state = json!({"given": count, "user:given": count});
                let config = CreateSessionConfig::default().with_session_id(key.session_id()).with_state(state);
                let created = sessions.create_session("travel", "alice", config).await;
                if self.sessions.contains_key(&key) {
                    return assert_eq!(created.unwrap_err().kind(), ErrorKind::AlreadyExists);
                }
                created.unwrap();
                let own = ValueTexts::from([("given".to_owned(), count.to_string())]);
                set(&mut self.shared, "user:given", Some(&json!(count)));
                let shown = vec![self.merged(&own)];
                self.sessions.insert(key.clone(), TravelSession { own, shown, ..TravelSession::default() });
                self.told.push(("(state)".to_owned(), 0));
                self.told.push((key.session_id().to_owned(), 0));
            }
            TravelCall::Append(place, changes) => {
                let (key, delta, invocation) = (key(place), delta(&changes), format!("i{}", count / 2));
                let event = Event::new("agent").with_invocation_id(&invocation).with_state_delta(delta.clone());
                let committed = sessions.append(&key, event, AppendOptions::default()).await;
                let Some(kept) = self.sessions.get(&key) else {
                    return assert_eq!(committed.unwrap_err().kind(), ErrorKind::NotFound);
                };
                let mut own = kept.own.clone();
                self.change(&mut own, delta.iter().map(|(key, change)| (key, change.value())));
                self.commit(&key, own, invocation);
                assert_eq!(committed.unwrap().event.seq, Some(self.sessions[&key].last() as u64));
            }
            TravelCall::Put(place, changes) => {
                let owner = [key(0).user(), key(0).app()][place % 2].clone();
                let prefix = ["user:", "app:"][place % 2];
                let delta = delta(&changes);
                sessions.put_state(&owner, delta.clone(), "model".into()).await.unwrap();
                for (name, change) in delta.iter() {
                    set(&mut self.shared, &format!("{prefix}{name}"), change.value());
                }
                if !delta.is_empty() {
                    self.told.push(("(state)".to_owned(), 0));
                }
            }
            TravelCall::Fork { from, at, to } => {
                let (key, to) = (key(from), key(to));
                let last = self.sessions.get(&key).map_or(0, TravelSession::last);
                let at = at % (last + 2);
                let config = ForkConfig::at(at as u64).with_session_id(to.session_id());
                let forked = sessions.fork_session(&key, config).await;
                let Some(kept) = self.sessions.get(&key) else {
                    return assert_eq!(forked.unwrap_err().kind(), ErrorKind::NotFound);
                };
                let refused = match at {
                    _ if at > last => Some(ErrorKind::NotFound),
                    _ if at < kept.base => Some(ErrorKind::FailedPrecondition),
                    _ if self.sessions.contains_key(&to) => Some(ErrorKind::AlreadyExists),
                    _ => None,
                };
                if let Some(kind) = refused {
                    return assert_eq!(forked.unwrap_err().kind(), kind);
                }
                let events = at - kept.base;
                let copy = TravelSession {
                    own: kept.own_at(at),
                    base: kept.base,
                    shown: kept.shown[..=events].to_vec(),
                    invocations: kept.invocations[..events].to_vec(),
                };
                let fork = forked.unwrap();
                assert_eq!((fork.seq(), texts(fork.state().to_map())), (at as u64, self.merged(&copy.own)));
                self.sessions.insert(to.clone(), copy);
                self.told.push((to.session_id().to_owned(), 0));
            }
            TravelCall::Rewind(place, to) => {
                let key = key(place);
                let invocation = format!("i{}", to % (count / 2 + 1));
                let rewound = store.rewind(&key, &invocation).await;
                let kept = self.sessions.get(&key);
                let first = kept.and_then(|kept| kept.invocations.iter().position(|i| *i == invocation));
                let (Some(kept), Some(first)) = (kept, first) else {
                    return assert_eq!(rewound.unwrap_err().kind(), ErrorKind::NotFound);
                };
                // It is unknown whether the first remaining event is the first of its invocation.
                if kept.base > 0 && first == 0 {
                    return assert_eq!(rewound.unwrap_err().kind(), ErrorKind::FailedPrecondition);
                }
                let own = kept.own_at(kept.base + first);
                self.commit(&key, own, rewound.unwrap().invocation_id.clone());
            }
            TravelCall::PruneEvents(place, to, limit) => {
                let key = key(place);
                let before = to % (self.sessions.get(&key).map_or(0, TravelSession::last) + 3);
                let pruned = sessions.prune(Prune::events(&key, before as u64), limit).await.unwrap();
                let Some(kept) = self.sessions.get_mut(&key) else {
                    return assert_eq!(pruned, 0);
                };
                let expected = before.saturating_sub(1).min(kept.last()).saturating_sub(kept.base).min(limit);
                assert_eq!(pruned, expected as u64);
                kept.base += expected;
                kept.shown.drain(..expected);
                kept.invocations.drain(..expected);
            }
            TravelCall::PruneLog(user) => {
                let owner = if user { key(0).user() } else { key(0).app() };
                let log = sessions.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
                if let Some(half) = log.get(log.len() / 2) {
                    sessions.prune(Prune::state_log(&owner, half.position), 1000).await.unwrap();
                    self.pruned = true;
                }
            }
            TravelCall::Delete(place) => {
                sessions.delete_session(&key(place)).await.unwrap();
                self.sessions.remove(&key(place));
            }
            TravelCall::Expire(place) => {
                let expired = sessions.set_expiry(&key(place), Some(Expiry::At(1.0))).await;
                match self.sessions.remove(&key(place)) {
                    Some(_) => expired.unwrap(),
                    None => assert_eq!(expired.unwrap_err().kind(), ErrorKind::NotFound),
                }
            }
        }
    }

    async fn compare(&self, store: &Store) {
        for place in 0..3 {
            let key = key(place);
            let read = store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap();
            let verified = store.sessions.verify_session(&key).await.unwrap();
            let Some(kept) = self.sessions.get(&key) else {
                assert!(read.is_none() && verified.is_none(), "{key}");
                continue;
            };
            let read = read.unwrap();
            assert_eq!((read.seq(), read.events().len()), (kept.last() as u64, kept.invocations.len()), "{key}");
            assert_eq!(texts(read.state().to_map()), self.merged(&kept.own), "{key}");
            assert_eq!(verified.unwrap().events, kept.invocations.len() as u64);
            for (n, shown) in kept.shown.iter().enumerate() {
                let seq = kept.base + n;
                match store.sessions.get_state_at(&key, seq as u64).await {
                    Ok(state) => assert_eq!(&texts(state.to_map()), shown, "{key} at {seq}"),
                    Err(error) if self.pruned => assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}"),
                    Err(error) => panic!("{key} at {seq}: {error}"),
                }
            }
        }
        for owner in [key(0).user(), key(0).app()] {
            store.sessions.verify_state(&owner).await.unwrap();
        }
    }
}

/// Returns the new entries of the feed after a place.
async fn heard(store: &Store, start: &mut FeedStart) -> ExpectedEntries {
    let mut told = Vec::new();
    loop {
        let page = store.sessions.list_feed(&StateOwner::app("travel").unwrap(), start, 2).await.unwrap();
        let is_end = page.entries.is_empty();
        for entry in page.entries {
            told.push(match entry.commit {
                // The conformance suite tests these entries by keeping an exact copy.
                FeedCommit::Removed(_) => continue,
                FeedCommit::Event { session, event } => (session.session_id().to_owned(), event.seq.unwrap()),
                FeedCommit::Created { session, .. } => (session.session_id().to_owned(), 0),
                _ => ("(state)".to_owned(), 0),
            });
        }
        *start = FeedStart::After(page.cursor);
        if is_end {
            return told;
        }
    }
}

fn texts(map: Map<String, Value>) -> ValueTexts {
    map.into_iter().map(|(key, value)| (key, value.to_string())).collect()
}

async fn play(store: Store, calls: Vec<TravelCall>) {
    let (mut model, mut start) = (TravelModel::default(), FeedStart::Beginning);
    for (count, call) in calls.into_iter().enumerate() {
        model.call(&store, call, count).await;
        model.compare(&store).await;
        assert_eq!(heard(&store, &mut start).await, std::mem::take(&mut model.told), "what the feed tells");
    }
    store.sessions.close().await.unwrap();
}

macro_rules! travel_tests {
    ($name:ident, $open:path) => {
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(cases(12))]

                #[test]
                fn a_store_remembers_what_its_model_does(calls in prop::collection::vec(call(), 1..30)) {
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

for_each_store!(travel_tests);
