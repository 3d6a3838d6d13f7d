//! A naive copy built from a feed, and a script of writes for it to follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::support::{TestApp, changing, delta};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    CreateSessionConfig, Expiry, FeedCommit, FeedStart, ForkConfig, GetSessionConfig, ListSessionsConfig, Prune,
    Removal, RemovalKind, SessionKey, SessionServiceExt, StateOwner,
};
use scratchbook_core::state::Scope;
use scratchbook_core::store::Store;

const USERS: [&str; 2] = ["alice", "bob"];
const PAST: Expiry = Expiry::At(1_600_000_000.0);

/// Random writes; the same seed gives the same writes.
pub(super) struct RandomWrites(u64);

impl RandomWrites {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a random number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % end
    }

    fn state(&mut self) -> Value {
        let mut state = Map::new();
        for key in ["a", "b", "user:u", "user:v", "app:p"] {
            if self.below(3) == 0 {
                state.insert(key.to_owned(), json!(self.below(1000)));
            }
        }
        state.into()
    }

    pub(super) async fn step(&mut self, test: &TestApp) {
        let user = USERS[self.below(USERS.len())];
        let key = test.key(user, ["one", "two", "three"][self.below(3)]);
        let sessions = test.sessions();
        let config = CreateSessionConfig::default().with_session_id(key.session_id());
        let done = match self.below(20) {
            0 => sessions.create_session(&test.app, user, config).await.map(drop),
            1..=3 => sessions.create_session(&test.app, user, config.with_state(self.state())).await.map(drop),
            4 => {
                let fork = ForkConfig::default().with_session_id(["one", "two", "three"][self.below(3)]);
                sessions.fork_session(&key, fork).await.map(drop)
            }
            5 => sessions.delete_session(&key).await,
            6 => match self.below(3) {
                0 => sessions.delete_user(&test.app, user).await,
                _ => Ok(()),
            },
            7 => sessions.prune(Prune::events(&key, self.below(6) as u64), 1 + self.below(3)).await.map(drop),
            8 => sessions.set_expiry(&key, Some(PAST)).await,
            9 => sessions.prune(Prune::Expired, 100).await.map(drop),
            10 => {
                let owner = if self.below(2) == 0 { test.app() } else { test.user(user) };
                let value = json!({"p": self.below(1000), "u": self.below(1000)});
                sessions.put_state(&owner, delta(value), "admin".into()).await.map(drop)
            }
            _ => {
                let mut event = changing(self.state());
                if self.below(4) == 0 {
                    let removed = ["a", "user:u", "app:p"][self.below(3)];
                    event.actions.state_delta.remove(removed).expect("a removal");
                }
                test.try_append(&key, event).await.map(drop)
            }
        };
        let expected = [ErrorKind::NotFound, ErrorKind::AlreadyExists];
        if let Err(error) = done {
            assert!(expected.contains(&error.kind()), "{error}");
        }
    }
}

/// A copied session: its initial state and its events.
#[derive(Debug, Default)]
struct Copied {
    initial: Map<String, Value>,
    last: u64,
    events: Vec<Arc<Event>>,
}

impl Copied {
    fn state(&self) -> Map<String, Value> {
        let mut state = self.initial.clone();
        for event in &self.events {
            apply(&mut state, event, Scope::Session);
        }
        state
    }
}

/// Applies the changes of an event to a scope.
fn apply(values: &mut Map<String, Value>, event: &Event, of: Scope) {
    for (key, change) in event.actions.state_delta.iter() {
        let (scope, name) = Scope::split(key);
        match change.value() {
            _ if scope != of => {}
            Some(value) => drop(values.insert(name.to_owned(), value.clone())),
            None => drop(values.remove(name)),
        }
    }
}

/// A copy of everything that an owner's feed shows.
#[derive(Debug)]
pub(super) struct FeedCopy {
    owner: StateOwner,
    start: FeedStart,
    sessions: BTreeMap<SessionKey, Copied>,
    shared: BTreeMap<StateOwner, Map<String, Value>>,
}

impl FeedCopy {
    pub(super) fn new(owner: StateOwner) -> Self {
        Self { owner, start: FeedStart::Beginning, sessions: BTreeMap::new(), shared: BTreeMap::new() }
    }

    /// Reads at most this many pages and applies their entries.
    pub(super) async fn follow(&mut self, test: &TestApp, limit: usize, pages: usize) {
        for _ in 0..pages {
            let page = test.sessions().list_feed(&self.owner, &self.start, limit).await.expect("list_feed");
            self.start = FeedStart::After(page.cursor);
            if page.entries.is_empty() {
                return;
            }
            for entry in page.entries {
                self.apply(test, entry.commit).await;
            }
        }
    }

    async fn apply(&mut self, test: &TestApp, commit: FeedCommit) {
        match commit {
            FeedCommit::Event { session, event } => {
                for (owner, scope) in [(session.user(), Scope::User), (session.app(), Scope::App)] {
                    apply(self.shared.entry(owner).or_default(), &event, scope);
                }
                let copied = self.sessions.entry(session).or_default();
                let seq = event.seq.expect("a number");
                if seq > copied.last {
                    copied.last = seq;
                    copied.events.push(event);
                }
            }
            FeedCommit::Created { session, state, forked_at: None } => {
                self.sessions.insert(session, Copied { initial: state, ..Copied::default() });
            }
            // The events of a fork are not in the feed.
            FeedCommit::Created { session, .. } => self.read(test, session).await,
            FeedCommit::State { owner, changes } => {
                let values = self.shared.entry(owner).or_default();
                for change in changes {
                    match change.value {
                        Some(value) => drop(values.insert(change.name, value)),
                        None => drop(values.remove(&change.name)),
                    }
                }
            }
            FeedCommit::Removed(removal) => self.remove(test, removal).await,
            other => panic!("a kind of commit that the suite does not know: {other:?}"),
        }
    }

    async fn remove(&mut self, test: &TestApp, removal: Removal) {
        match (removal.kind, removal.session) {
            (RemovalKind::Pruned, Some(session)) => self.read(test, session).await,
            (_, Some(session)) => drop(self.sessions.remove(&session)),
            (_, None) => self.sessions.retain(|key, _| key.user() != removal.user),
        }
        // Removed events may have written some of these keys.
        for owner in [StateOwner::app(removal.user.app_name()).expect("an app"), removal.user] {
            let values = test.sessions().get_state(&owner).await.expect("get_state");
            self.shared.insert(owner, values);
        }
    }

    /// Reads the current session.
    async fn read(&mut self, test: &TestApp, key: SessionKey) {
        loop {
            let initial = test.sessions().get_initial_state(&key).await.expect("get_initial_state");
            let read = test.sessions().get_session(&key, &GetSessionConfig::default()).await.expect("get_session");
            let (Some(initial), Some(session)) = (initial, read) else {
                self.sessions.remove(&key);
                return;
            };
            let events: Vec<_> = session.events().iter().cloned().collect();
            let first = events.first().and_then(|event| event.seq).unwrap_or(session.seq() + 1);
            if first == initial.seq + 1 {
                let copied = Copied { initial: initial.state, last: session.seq(), events };
                self.sessions.insert(key, copied);
                return;
            }
        }
    }

    pub(super) async fn assert_equal(&self, test: &TestApp, what: &str) {
        let config = match self.owner.user_id() {
            Some(user) => ListSessionsConfig::default().with_user_id(user),
            None => ListSessionsConfig::default(),
        };
        let listed = test.sessions().list_sessions(&test.app, &config).await.expect("list_sessions").sessions;
        let mut sessions = BTreeMap::new();
        for listed in listed {
            let session = test.get(listed.key()).await;
            let state = session.state().scope_as::<Map<String, Value>>(Scope::Session).expect("a scope");
            let events: Vec<_> = session.events().iter().map(|event| (event.seq, event.id.clone())).collect();
            sessions.insert(listed.key().clone(), (session.seq(), state, events));
        }
        let mut copied: BTreeMap<_, _> = self
            .sessions
            .iter()
            .map(|(key, copied)| {
                let events: Vec<_> = copied.events.iter().map(|event| (event.seq, event.id.clone())).collect();
                (key.clone(), (copied.last, copied.state(), events))
            })
            .collect();
        // A session created without state has no entry before its first event.
        let is_empty = |(seq, state, _): &(u64, Map<String, Value>, Vec<_>)| *seq == 0 && state.is_empty();
        sessions.retain(|_, session| !is_empty(session));
        copied.retain(|_, session| !is_empty(session));
        assert_eq!(copied, sessions, "the sessions of {:?}, {what}", self.owner);
        let owners = match self.owner.user_id() {
            Some(_) => vec![self.owner.clone()],
            None => vec![self.owner.clone(), test.user("alice"), test.user("bob")],
        };
        for owner in owners {
            let stored = test.sessions().get_state(&owner).await.expect("get_state");
            let copied = self.shared.get(&owner).cloned().unwrap_or_default();
            assert_eq!(copied, stored, "the keys of {owner:?} in the feed of {:?}, {what}", self.owner);
        }
    }
}

/// Three random writers use services of one database while others follow the feed: when all have finished, the copies
/// equal the store.
#[doc(hidden)]
pub async fn many_writers_are_followed(stores: &[Store]) {
    let app = TestApp::new(stores.first().expect("a store")).app;
    let grounds: Vec<_> = stores.iter().map(|store| TestApp { store: store.clone(), app: app.clone() }).collect();
    let is_quiet = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let test = grounds[writer % grounds.len()].clone();
        tokio::spawn(async move {
            let mut script = RandomWrites::new(100 + writer as u64);
            for _ in 0..100 {
                script.step(&test).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let first = &grounds[0];
    let mut followers = Vec::new();
    for owner in [first.app(), first.user("alice"), first.user("bob")] {
        for (of, test) in grounds.iter().enumerate() {
            let (test, is_quiet) = (test.clone(), Arc::clone(&is_quiet));
            let mut copy = FeedCopy::new(owner.clone());
            followers.push(tokio::spawn(async move {
                while !is_quiet.load(Ordering::Relaxed) {
                    copy.follow(&test, 1 + of * 3, 2).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                copy.follow(&test, 3, usize::MAX).await;
                copy.assert_equal(&test, &format!("read by service {of} beside three who write")).await;
            }));
        }
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    // Removes expired sessions.
    while first.sessions().prune(Prune::Expired, 100).await.expect("prune") > 0 {}
    is_quiet.store(true, Ordering::Relaxed);
    for follower in followers {
        follower.await.expect("a follower");
    }
}
