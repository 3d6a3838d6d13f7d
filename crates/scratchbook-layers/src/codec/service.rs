//! The session service: arguments are encoded and results decoded.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Codec, Coded, Location};
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::json::bytes_of;
use scratchbook_core::plan::room::Room;
use scratchbook_core::session::{
    AppendOptions, ChangeQuery, Committed, CreateSessionConfig, FeedPage, FeedStart, ForkConfig, GetSessionConfig,
    InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, PutStateOptions, Session, SessionKey,
    SessionService, SessionUpdate, StateChange, StateOwner, StatePage, forward_sessions,
};
use scratchbook_core::state::{StateDelta, StateMap};

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService, C: Codec> SessionService for Coded<S, C> {
    forward_sessions!(self.service =>
        capabilities, blame, locate_session, delete_session, state_bytes, commits, prune, list_event_hashes, list_owners, delete_user,
        check_writable, close);

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

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.coder.open_session(self.service.fork_session(key, config).await?)
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.list_coded(app_name, config).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        // An event is large, so this future is boxed and does not enlarge the caller's.
        Box::pin(self.append_coded(key, event, options)).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.coder.open_owned(owner, self.service.get_state(owner).await?)
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        let page = self.service.list_state(owner, config).await?;
        // Values may be much larger than they are stored, and then fill several pages.
        let mut room = Room::new(config.page_bytes);
        let mut values = Map::new();
        for (name, value) in page.values {
            let value = self.coder.decode_value(&value, &Location::owned(owner, &name))?.into_owned();
            if !room.takes(name.len() as u64 + bytes_of(&value)) {
                let last = values.keys().next_back().cloned();
                return Ok(StatePage::new(values, last));
            }
            values.insert(name, value);
        }
        Ok(StatePage::new(values, page.next))
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.put_coded(owner, delta, options).await
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.coder.open_changes(owner, self.service.list_state_changes(owner, query, limit).await?)
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let page = self.service.list_feed(owner, start, limit).await?;
        let entries = page.entries.into_iter().map(|entry| self.coder.open_entry(entry));
        Ok(FeedPage::new(entries.collect::<Result<_>>()?, page.cursor))
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.service.update_session(key, self.coded_update(key, update)?).await
    }
}
