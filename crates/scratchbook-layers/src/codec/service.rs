//! The session service: arguments are encoded and results decoded.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Codec, Coded};
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, PutStateOptions,
    Session, SessionKey, SessionService, SessionUpdate, StateChange, StateOwner, StatePage,
};
use scratchbook_core::state::{StateDelta, StateMap};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService, C: Codec> SessionService for Coded<S, C> {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        self.create_coded(app_name, user_id, config).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let session = self.service.get_session(key, config).await?;
        session.map(|session| self.coder.open_session(session)).transpose()
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        let Some(initial) = self.service.get_initial_state(key).await? else {
            return Ok(None);
        };
        Ok(Some(InitialState::new(initial.seq, self.coder.open_own(key, initial.state)?)))
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.coder.open_state(key, &self.service.get_state_at(key, seq).await?)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.service.blame(key).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.coder.open_session(self.service.fork_session(key, config).await?)
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.list_coded(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.service.locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.service.delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        // An event is large, so the work on it is boxed and not part of the caller's future.
        Box::pin(self.append_coded(key, event, options)).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.coder.open_owned(owner, self.service.get_state(owner).await?)
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        let page = self.service.list_state(owner, config).await?;
        Ok(StatePage::new(self.coder.open_owned(owner, page.values)?, page.next))
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.put_coded(owner, delta, options).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.coder.open_changes(owner, self.service.list_state_changes(owner, after, limit).await?)
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.coder.open_changes(owner, self.service.list_key_changes(owner, name, before, limit).await?)
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let page = self.service.list_feed(owner, start, limit).await?;
        let entries = page.entries.into_iter().map(|entry| self.coder.open_entry(entry));
        Ok(FeedPage::new(entries.collect::<Result<_>>()?, page.cursor))
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.service.commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.service.set_expiry(key, expiry).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.update_coded(key, update).await
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
