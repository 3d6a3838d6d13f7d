//! The session service: sessions, events and state.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::creations::QueuedCreation;
use super::events::QueuedAppend;
use super::failure::Idempotency;
use super::{
    Backend, CreationOutcome, DatabaseSessionService, NewAppend, NewCreation, NewFork, PastScopes, RowRoom, Unresolved,
};
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{prepare_session, prepare_state};
use scratchbook_core::plan::feed::{LET_GO_AT_ONCE, REMOVALS_KEPT};
use scratchbook_core::plan::fork::fork_key;
use scratchbook_core::plan::locate::{LocateQuery, taken_within};
use scratchbook_core::plan::query::{EventQuery, ListQuery, StateQuery};
use scratchbook_core::plan::quota::{QuotaStore, Reservation, reserve_event, reserve_fork, reserve_session};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::plan::update::{prepare_append, prepare_update};
use scratchbook_core::session::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, CommitScope, Committed, CreateSessionConfig, EventHashes,
    FeedPage, FeedStart, ForkConfig, GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse,
    ListStateConfig, Outcome, PAGE_BYTES, Prune, PutStateOptions, Session, SessionKey, SessionService, SessionUpdate,
    StateBytes, StateChange, StateOwner, StatePage, check_id, check_owner, micros_of_seconds, no_session,
    seconds_of_micros,
};
use scratchbook_core::state::{StateDelta, StateMap};
use scratchbook_core::store::{made_unread, taken};

/// The maximum number of entries on a page of the change feed.
const MAX_FEED_PAGE: usize = 1000;

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<D: Backend> SessionService for DatabaseSessionService<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, self.environment(), &self.options.limits)?;
        let key = prepared.key.clone();
        let created = seconds_of_micros(prepared.created);
        let expires = prepared.expires.map(seconds_of_micros);
        let id_scope = prepared.id_scope;
        let own = StateMap::from(prepared.initial.clone());
        let metadata = prepared.metadata.clone();
        let held = reserve_session(self, &prepared).await?;
        let made = if prepared.is_plain() {
            self.create(NewSession::new(prepared)?, held).await?
        } else {
            CreationOutcome::new(self.create_resolved(prepared, held).await?)
        };
        match made {
            CreationOutcome::NotCreated => return Err(taken_within(id_scope, &key)),
            CreationOutcome::Created(Some(session)) => return Ok(*session),
            CreationOutcome::Created(None) => {}
        }
        // The session exists from here on. If it is deleted at once, the session as it was created is returned.
        let made = self.read(|| self.backend.session(&key, EventQuery::All, &StateQuery::All, RowRoom::WHOLE)).await;
        let made = self.sized(&key.user(), Some(key.session_id()), made).await;
        Ok(made.map_err(|error| made_unread(error, &key))?.unwrap_or_else(|| {
            let session = Session::new(key, own).with_create_time(created).with_last_update_time(created);
            session.with_expire_time(expires).with_metadata(metadata)
        }))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let events = EventQuery::new(config)?;
        let state = StateQuery::new(&config.state)?;
        let read = |limit, room| self.backend.session(key, events.with_limit(limit), &state, room);
        let session = match config.page_bytes {
            None => self.read(|| self.backend.session(key, events, &state, RowRoom::WHOLE)).await,
            Some(bytes) => self.read_page(events.limit(), bytes, read).await,
        };
        self.sized(&key.user(), Some(key.session_id()), session).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.read(|| self.backend.initial_state(key)).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let pass = self.gate.enter()?;
        let past = self.read(|| self.backend.past(key, seq, PastScopes::All)).await;
        let past = self.sized(&key.user(), Some(key.session_id()), past).await?;
        let (state, due) = past.into_state(key, seq)?;
        self.after.keep_all(key, due, &pass);
        Ok(state)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.read(|| self.backend.blame(key)).await?.ok_or_else(|| no_session(key))
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let forked = fork_key(key, &config, self.environment())?;
        // The fork is read when it is made, and then it is too late to refuse it.
        self.state_bytes(&key.user(), Some(key.session_id())).await?.check()?;
        let created = micros_of_seconds(self.environment().now());
        let new = NewFork { source: key.clone(), at: config.at, key: forked.clone(), created };
        let args = (new, self.environment().new_id());
        let scope = CommitScope::session(&forked);
        let charge = reserve_fork(self, key, config.at).await?.kept_if(Option::is_some);
        let fork = self.write_charged(scope, Idempotency::Idempotent, charge, args, |backend, (new, token)| {
            backend.fork_session(new, token)
        });
        fork.await?.ok_or_else(|| taken(&forked))
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        config.check()?;
        let read = |limit, room: RowRoom| {
            let room = room.or_one(limit);
            let config = config.clone().with_page_size(limit);
            async move { self.backend.list_state(owner, &config, room).await }
        };
        self.read_page(config.page_size, config.page_bytes, read).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let limit = limit.clamp(1, MAX_FEED_PAGE);
        let read = |limit, room: RowRoom| self.backend.feed(owner, start, limit, room.or_one(limit));
        self.read_page(limit, PAGE_BYTES, read).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        let _pass = self.gate.enter()?;
        Ok(self.listeners.add())
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        let args = (key.clone(), prepare_update(update, self.environment())?);
        let change = self.write(CommitScope::session(key), Idempotency::Idempotent, args, |backend, (key, update)| {
            backend.update_session(key, update)
        });
        if change.await? { Ok(()) } else { Err(no_session(key)) }
    }

    async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
        match what {
            Prune::Expired => self.prune_expired(limit).await,
            Prune::Events { session, before } => self.prune_events(&session, before, limit).await,
            Prune::StateLog { owner, before } => self.prune_state_log(&owner, before, limit).await,
        }
    }

    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>> {
        self.read(|| self.backend.event_hashes(key, after, limit)).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        check_id("app name", app_name)?;
        let query = ListQuery::new(config)?;
        let read = |limit, room: RowRoom| {
            let query = query.clone().with_limit(limit);
            async move { self.backend.list_sessions(app_name, &query, room.of_states()).await }
        };
        self.read_page(query.limit, query.bytes, read).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        let query = LocateQuery::new(app_name, session_id)?;
        query.pick(self.read(|| self.backend.users_with(&query.app_name, &query.session_id)).await?)
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        let delete = self.write(CommitScope::session(key), Idempotency::Idempotent, key.clone(), |backend, key| {
            backend.delete_session(key)
        });
        delete.await?;
        self.quotas.forget(&key.user());
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        let pass = self.gate.enter()?;
        if event.is_partial() {
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let prepared = prepare_append(event, &options, self.environment(), &self.options.limits)?;
        let held = reserve_event(self, key, &prepared).await?;
        if prepared.is_plain(&options) {
            let append = NewAppend { key: key.clone(), event: NewEvent::new(prepared)? };
            let bytes = append.event.bytes();
            return self.appends.write(QueuedAppend::new(append, held, pass), bytes).await;
        }
        drop(pass);
        Box::pin(self.append_resolved(Unresolved { key: key.clone(), prepared, options }, held)).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let state = self.read(|| self.backend.state(owner)).await;
        self.sized(owner, None, state).await
    }

    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<StateBytes> {
        self.read(|| self.backend.state_bytes(owner, session_id)).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let new = prepare_state(owner, delta, &options, &self.options.limits)?;
        let (author, time) = options.checked(|| self.environment().now())?;
        if !new.is_plain() {
            return self.put_resolved(owner.clone(), new, author, time).await;
        }
        let args = (owner.clone(), TextChange::all(&new.changes)?, new.limits, author);
        self.write(
            CommitScope::owner(owner),
            Idempotency::NotIdempotent,
            args,
            move |backend, (owner, changes, limits, author)| backend.put_state(owner, changes, limits, author, time),
        )
        .await
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        query.check(owner)?;
        let mut up_to = u64::MAX;
        if let ChangeQuery::OfKey { at: Some((session, seq)), .. } = query {
            up_to = self.read(|| self.backend.position_at(session, *seq, owner.scope())).await? + 1;
        }
        let read = async |limit, room: RowRoom| {
            let room = room.or_one(limit);
            match query {
                ChangeQuery::After(after) => self.backend.state_changes(owner, *after, limit, room).await,
                ChangeQuery::OfKey { name, before, .. } => {
                    self.backend.key_changes(owner, name, up_to.min(*before), limit, room).await
                }
            }
        };
        self.read_page(limit, PAGE_BYTES, read).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.read(|| self.backend.owners(after, limit)).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        check_owner(app_name, user_id)?;
        let user = StateOwner::user(app_name, user_id)?;
        let args = (app_name.to_owned(), user_id.to_owned());
        let delete = self.write(CommitScope::all_of(&user), Idempotency::Idempotent, args, |backend, (app, user)| {
            backend.delete_user(app, user)
        });
        delete.await?;
        self.quotas.forget(&user);
        Ok(())
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        self.read(|| self.backend.check_writable()).await?;
        Ok(self.backend.degraded().into_iter().collect())
    }

    async fn close(&self) -> Result<()> {
        self.gate.close().await;
        self.listeners.close();
        self.backend.close().await;
        Ok(())
    }
}

impl<D: Backend> DatabaseSessionService<D> {
    async fn prune_expired(&self, limit: usize) -> Result<u64> {
        let deleted = self.remove_expired(limit).await?;
        let before = micros_of_seconds(self.environment().now() - REMOVALS_KEPT.as_secs_f64());
        let step = limit.clamp(1, LET_GO_AT_ONCE);
        loop {
            let let_go = self.write(CommitScope::Nothing, Idempotency::Idempotent, (), move |backend, ()| {
                backend.let_removals_go(before, step)
            });
            if let_go.await? < step as u64 {
                return Ok(deleted);
            }
        }
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        let prune = self.write(CommitScope::session(key), Idempotency::Idempotent, key.clone(), move |backend, key| {
            backend.prune_events(key, before, limit)
        });
        let pruned = prune.await?;
        self.quotas.forget(&key.user());
        Ok(pruned)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        self.write(CommitScope::owner(owner), Idempotency::Idempotent, owner.clone(), move |backend, owner| {
            backend.prune_state_log(owner, before, limit)
        })
        .await
    }
}

/// Writes that do not depend on stored data.
impl<D: Backend> DatabaseSessionService<D> {
    async fn create(&self, new: NewSession, held: Reservation) -> Result<CreationOutcome> {
        if self.backend.is_batchable(&new) {
            let pass = self.gate.enter()?;
            let bytes = new.bytes();
            let new = NewCreation { session: new, token: self.environment().new_id() };
            return self.creations.write(QueuedCreation::new(new, held, pass), bytes).await;
        }
        let scope = CommitScope::session(&new.key);
        let args = (new, self.environment().new_id());
        let charge = held.kept_if(|made| *made);
        self.write_charged(scope, Idempotency::Idempotent, charge, args, |backend, (new, token)| {
            backend.create_session(new, token)
        })
        .await
        .map(CreationOutcome::new)
    }
}
