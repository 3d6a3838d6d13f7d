//! One side of a comparison: a store of any kind, and a runtime for its calls.

use std::sync::Arc;
use std::time::Instant;

use scratchbook::session::{FeedStart, Watched, Watches};
use scratchbook::{AppendOptions, CreateSessionConfig, Event, GetSessionConfig, SessionKey, SessionService};
use scratchbook_benches::{event, event_of_three, session};
use tokio::runtime::Runtime;

/// A store, its runtime, and the folder that it uses, if any.
pub(crate) struct Side<H> {
    runtime: Runtime,
    store: Arc<dyn SessionService>,
    home: H,
}

impl<H> Side<H> {
    pub(crate) fn new(runtime: Runtime, store: Arc<dyn SessionService>, home: H) -> Self {
        Self { runtime, store, home }
    }

    /// Closes the store and returns its folder.
    pub(crate) fn close(self) -> H {
        self.runtime.block_on(self.store.close()).unwrap();
        self.home
    }

    /// Adds this many watches of an app, a user and a session without changes.
    pub(crate) fn with_idle_watchers(self, count: usize) -> Self {
        let watches = Watches::new(Arc::clone(&self.store));
        self.runtime.block_on(async {
            let config = CreateSessionConfig::default().with_session_id("idle");
            let key = self.store.create_session("idle", "idle", config).await.unwrap().key().clone();
            let whats = [key.app().into(), key.user().into(), Watched::session(key)];
            for n in 0..count {
                let mut watch = watches.start(whats[n % whats.len()].clone(), FeedStart::Now).await.unwrap();
                tokio::spawn(async move { watch.next().await.map(drop) });
            }
        });
        self
    }

    pub(crate) fn session(&self, id: &str, events: usize, keys: usize) -> SessionKey {
        self.runtime.block_on(session(self.store.as_ref(), id, events, keys))
    }

    /// Adds a session for each of this many writers.
    pub(crate) fn with_sessions(self, count: usize) -> Self {
        (0..count).for_each(|n| drop(self.session(&format!("s{n}"), 0, 10)));
        self
    }

    /// Creates the sessions of this many writers. Each writer has its own session and user, in the app that `app`
    /// returns.
    pub(crate) fn writers(&self, count: usize, app: impl Fn(usize) -> String) -> Vec<SessionKey> {
        let session = |n| {
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
            let (app, user) = (app(n), format!("user{n}"));
            self.runtime.block_on(self.store.create_session(&app, &user, config)).unwrap().key().clone()
        };
        (0..count).map(session).collect()
    }

    /// Returns the seconds for each append when each of these writers makes `each` appends, which write keys of all
    /// three scopes.
    pub(crate) fn append_of_three(&self, writers: &[SessionKey], each: usize) -> f64 {
        self.append_each(writers.iter().map(|key| (key.clone(), (0..each).map(event_of_three).collect())).collect())
    }

    /// Returns the seconds for each append by one writer, who waits for each append.
    pub(crate) fn append(&self, key: &SessionKey, count: usize) -> f64 {
        self.append_each(vec![(key.clone(), (0..count).map(event).collect())])
    }

    /// Returns the seconds for each append when this many writers append, each to its own session.
    pub(crate) fn append_by(&self, writers: usize, each: usize) -> f64 {
        let key = |n| SessionKey::new("app", "user", &format!("s{n}")).unwrap();
        self.append_each((0..writers).map(|n| (key(n), (0..each).map(event).collect())).collect())
    }

    /// Returns the seconds for each append when a separate writer appends each list of events, and waits for each
    /// append.
    pub(crate) fn append_each(&self, lists: Vec<(SessionKey, Vec<Event>)>) -> f64 {
        let count: usize = lists.iter().map(|(_, events)| events.len()).sum();
        self.runtime.block_on(async {
            let started = Instant::now();
            let writers = lists.into_iter().map(|(key, events)| {
                let store = Arc::clone(&self.store);
                tokio::spawn(async move {
                    for event in events {
                        store.append(&key, event, AppendOptions::default()).await.unwrap();
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await.unwrap();
            }
            started.elapsed().as_secs_f64() / count as f64
        })
    }

    /// Returns the seconds for each read.
    pub(crate) fn get(&self, key: &SessionKey, config: &GetSessionConfig, count: usize) -> f64 {
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..count {
                std::hint::black_box(self.store.get_session(key, config).await.unwrap());
            }
            started.elapsed().as_secs_f64() / count as f64
        })
    }
}
