//! A store whose writes take their time: deadlines that are missed, runs that are dropped while they write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::error::KeyWriter;
use scratchbook::layer::WithDeadline;
use scratchbook::prelude::*;
use scratchbook::session::{
    CommitNotices, Committed, Expiry, FeedPage, ForkConfig, InitialState, ListSessionsConfig, ListSessionsResponse,
    ListStateConfig, SessionUpdate, StateChange, StatePage,
};
use serde_json::{Map, Value, json};

use crate::runner::{app, run, session_with, stored};

/// Any store, each of whose appends takes a while before it begins and a while after it is committed.
#[derive(Debug)]
struct Slow {
    store: Arc<dyn SessionService>,
    pause: Duration,
}

#[async_trait]
impl SessionService for Slow {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        self.store.create_session(app_name, user_id, config).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.store.get_session(key, config).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.store.get_initial_state(key).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.store.get_state_at(key, seq).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.store.blame(key).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.store.fork_session(key, config).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        self.store.list_state(owner, config).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.store.list_key_changes(owner, name, before, limit).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        self.store.list_feed(owner, start, limit).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.store.commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.store.set_expiry(key, expiry).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.store.update_session(key, update).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        self.store.prune_events(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        self.store.prune_state_log(owner, before, limit).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.store.list_sessions(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.store.locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.store.delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        tokio::time::sleep(self.pause).await;
        let committed = self.store.append(key, event, options).await;
        tokio::time::sleep(self.pause).await;
        committed
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.store.get_state(owner).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.store.put_state(owner, delta, options).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.store.list_state_changes(owner, after, limit).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.store.list_owners(after, limit).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.store.delete_user(app_name, user_id).await
    }

    async fn check_writable(&self) -> Result<()> {
        self.store.check_writable().await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[tokio::test]
async fn a_call_that_misses_its_deadline_is_unavailable() {
    let service = app();
    let key = session_with(&service, json!({})).await;
    let slow = Slow { store: service, pause: Duration::from_secs(5) };
    let hurried = WithDeadline::new(slow, Duration::from_millis(10));
    let error = hurried.append(&key, Event::new("a"), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains("0.01 s"), "{error}");
}

#[tokio::test]
async fn a_run_dropped_while_it_writes_finishes_that_write_before_the_next_begins() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        let seen = context.session().events().iter().filter(|event| event.author == "agent").count();
        futures_util::stream::iter([StateDelta::new()
            .with("seen", seen)
            .map(|delta| context.event().with_state_delta(delta))])
    });
    let slow = Slow { store: app(), pause: Duration::from_millis(40) };
    let runner = Runner::builder("app", agent, slow).auto_create_session().build().unwrap();
    let mut events = runner.run("user", "s", "one");
    // The user's message takes 80 ms; the agent's event is then under way.
    tokio::time::timeout(Duration::from_millis(100), events.next()).await.unwrap_err();
    drop(events);
    run(&runner, "two").await.unwrap();
    let session = stored(&runner).await;
    assert_eq!(session.events().len(), 4, "the dropped run's event is there");
    assert_eq!(session.state().get("seen"), Some(&json!(1)), "and was there when the second run began");
}
