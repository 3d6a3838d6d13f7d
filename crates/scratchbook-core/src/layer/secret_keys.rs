//! Secret keys: their values are kept out of feeds, logs and templates.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::error::{KeyWriter, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, PutStateOptions,
    SecretKeys, Session, SessionKey, SessionService, SessionUpdate, StateChange, StateOwner, StatePage,
};
use crate::state::{StateDelta, StateMap};

/// A service with secret keys. Their values can be read and written like any other by reading the session or the state.
/// They are hidden from readers who did not ask for them:
///
/// - feeds and watchers name the key, with the string `[secret]` instead of its value, unless the keys are
///   [`shown_in_feeds`](SecretKeys::shown_in_feeds);
/// - instruction templates refuse to insert them, unless the run allows it by `RunConfig::with_secrets_in_templates`
///   (feature `agent`);
/// - `Debug` of a session does not show them.
///
/// Messages of agents and arguments of tools are not searched for these values. In the database they are stored like
/// any other key; see `WithEncryption`. This has to be the outermost layer.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::WithSecretKeys;
/// use scratchbook::session::{FeedCommit, SecretKeys};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = WithSecretKeys::new(InMemorySessionService::new(), SecretKeys::new(["user:secret:"]));
/// let config = CreateSessionConfig::default().with_state(json!({"user:secret:pin": 1234}));
/// let session = sessions.create_session("bank", "alice", config).await?;
/// assert_eq!(session.state().get("user:secret:pin"), Some(&json!(1234)));
/// assert!(!format!("{session:?}").contains("1234"));
///
/// let feed = sessions.list_feed(&StateOwner::user("bank", "alice")?, &FeedStart::Beginning, 10).await?;
/// let FeedCommit::State { changes, .. } = &feed.entries[0].commit else { panic!() };
/// assert_eq!((changes[0].name.as_str(), &changes[0].value), ("secret:pin", &Some(json!("[secret]"))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WithSecretKeys<S> {
    service: S,
    secret: SecretKeys,
}

impl<S> WithSecretKeys<S> {
    /// Marks keys of a service as secret.
    #[must_use]
    pub fn new(service: S, secret: SecretKeys) -> Self {
        Self { service, secret }
    }

    fn mark(&self, session: Session) -> Session {
        session.with_secret_keys(&self.secret)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for WithSecretKeys<S> {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        Ok(self.mark(self.service.create_session(app_name, user_id, config).await?))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        Ok(self.service.get_session(key, config).await?.map(|session| self.mark(session)))
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.service.get_initial_state(key).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.service.get_state_at(key, seq).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.service.blame(key).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        Ok(self.mark(self.service.fork_session(key, config).await?))
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let mut page = self.service.list_sessions(app_name, config).await?;
        page.sessions = page.sessions.into_iter().map(|session| self.mark(session)).collect();
        Ok(page)
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.service.locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.service.delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.service.append(key, event, options).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.service.get_state(owner).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        self.service.list_state(owner, config).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.service.put_state(owner, delta, options).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.service.list_state_changes(owner, after, limit).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.service.list_key_changes(owner, name, before, limit).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let mut page = self.service.list_feed(owner, start, limit).await?;
        page.entries = page.entries.into_iter().map(|entry| self.secret.hide(entry)).collect();
        Ok(page)
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.service.commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.service.set_expiry(key, expiry).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.service.update_session(key, update).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        self.service.delete_expired(limit).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        self.service.prune_events(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        self.service.prune_state_log(owner, before, limit).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.service.list_owners(after, limit).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.service.delete_user(app_name, user_id).await
    }

    async fn check_writable(&self) -> Result<()> {
        self.service.check_writable().await
    }

    async fn close(&self) -> Result<()> {
        self.service.close().await
    }
}
