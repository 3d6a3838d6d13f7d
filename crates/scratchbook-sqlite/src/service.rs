//! The implementation of each call: checks and preparation, before a thread does the work.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::events::{AppendResult, EventPageQuery};
use super::sessions::SmallState;
use super::transaction::Tx;
use super::{
    OpenQueues, SqliteMode, SqliteSessionService, events, feed, fork, hashes, list, locate, owners, past, removals,
    resolve, retention, sessions, state, state_log, usage, writer,
};
use scratchbook_core::environment::Environment;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, prepare_session, prepare_state};
use scratchbook_core::plan::feed::{LET_GO_AT_ONCE, REMOVALS_KEPT};
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::plan::fork::fork_key;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::locate::LocateQuery;
use scratchbook_core::plan::query::{EventQuery, ListQuery, StateQuery};

use scratchbook_core::plan::quota::{QuotaStore, Quotas, reserve_event, reserve_fork, reserve_session};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::plan::update::{prepare_append, prepare_update};
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, CommitScope, Committed, CreateSessionConfig, EventHashes,
    FeedPage, FeedStart, ForkConfig, GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse,
    ListStateConfig, LogPositions, Outcome, Prune, PutStateOptions, Session, SessionKey, SessionService, SessionUpdate,
    StateBytes, StateChange, StateOwner, StatePage, check_id, check_owner, micros_of_seconds, seconds_of_micros,
};
use scratchbook_core::state::{ScopeMap, StateDelta, StateMap};
use scratchbook_core::store::made_unread;

#[async_trait]
impl SessionService for SqliteSessionService {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, self.environment.as_ref(), &self.limits)?;
        let (key, created) = (prepared.key.clone(), seconds_of_micros(prepared.created));
        let own: ScopeMap =
            prepared.initial.iter().map(|(name, value)| (Arc::from(name.as_str()), Arc::new(value.clone()))).collect();
        let (metadata, expires) = (prepared.metadata.clone(), prepared.expires.map(seconds_of_micros));
        let charge = reserve_session(self, &prepared).await?.kept_if(|_| true);
        let (now, events) = (self.now_micros(), prepared.events.len() as u64);
        let scope = CommitScope::session(&key);
        let shared = if prepared.is_plain() {
            let new = NewSession::new(prepared)?;
            self.write_charged(scope, new.bytes(), charge, move |tx| sessions::create(tx, &new, now)).await?
        } else {
            let (bytes, prepared) = (prepared.bytes(), Box::new(prepared));
            self.write_charged(scope, bytes, charge, move |tx| resolve::create(tx, &prepared, now)).await?
        };
        let as_created = |key, user, app| {
            let session = Session::new(key, StateMap::new(own, user, app)).with_create_time(created);
            session.with_last_update_time(created).with_expire_time(expires).with_metadata(metadata)
        };
        if let Some(SmallState { user, app, bytes, position }) = shared {
            let session = as_created(key, user, app).with_stored_bytes(bytes);
            return Ok(session.with_log_positions(LogPositions::of_feed(position)));
        }
        // Starts the same work that appending the events one by one would have started.
        self.after_append(&key, events - events % CHECKPOINT_EVENTS);
        let made = self.made(&key, EventQuery::All).await.map_err(|error| made_unread(error, &key))?;
        // If the session was deleted in the meantime, the answer shows it as it was created.
        Ok(made.unwrap_or_else(|| as_created(key, ScopeMap::new(), ScopeMap::new())))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let (events, state) = (EventQuery::new(config)?, StateQuery::new(&config.state)?);
        let events = EventPageQuery { query: events, bytes: config.page_bytes };
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| sessions::get(connection, &key, events, &state, now)).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| past::initial_state(connection, &key, now)).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let (of, now) = (key.clone(), self.now_micros());
        let (state, checkpoints) = self.read(move |connection| past::state_at(connection, &of, seq, now)).await?;
        if !checkpoints.is_empty()
            && let Ok(queues) = self.writable()
        {
            past::keep_checkpoints(&queues, key.clone(), checkpoints);
        }
        Ok(state)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| past::blame(connection, &key, now)).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let fork = fork_key(key, &config, self.environment.as_ref())?;
        let charge = reserve_fork(self, key, config.at).await?.kept_if(|_| true);
        let (of, to, now) = (key.clone(), fork.clone(), self.now_micros());
        let scope = CommitScope::session(&fork);
        self.write_charged(scope, 0, charge, move |tx| fork::fork(tx, &of, &to, config.at, now)).await?;
        let made = self.made(&fork, EventQuery::None).await.map_err(|error| made_unread(error, &fork))?;
        let made_now = || {
            let now = seconds_of_micros(now);
            Session::new(fork, StateMap::default()).with_create_time(now).with_last_update_time(now)
        };
        Ok(made.unwrap_or_else(made_now))
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        config.check()?;
        let (owner, config) = (owner.clone(), config.clone());
        self.read(move |connection| state::page(connection, &owner, &config)).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let (owner, start, now) = (owner.clone(), start.clone(), self.now_micros());
        self.read(move |connection| feed::page(connection, &owner, &start, limit, now)).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        let queues = self.queues()?;
        let notices = queues.commits.subscribe();
        // From now on the writer looks for commits of other processes.
        queues.writes.wake_writer();
        Ok(notices)
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        let update = prepare_update(update, self.environment.as_ref())?;
        let (key, now) = (key.clone(), self.now_micros());
        self.write(CommitScope::session(&key), 0, move |tx| sessions::update(tx, &key, &update, now)).await
    }

    async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
        match what {
            Prune::Expired => self.prune_expired(limit).await,
            Prune::Events { session, before } => self.prune_events(&session, before, limit).await,
            Prune::StateLog { owner, before } => self.prune_state_log(&owner, before, limit).await,
        }
    }

    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>> {
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| hashes::page(connection, &key, after, limit, now)).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        check_id("app name", app_name)?;
        let (app_name, query, now) = (app_name.to_owned(), ListQuery::new(config)?, self.now_micros());
        self.read(move |connection| list::page(connection, &app_name, &query, now)).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        let (query, now) = (LocateQuery::new(app_name, session_id)?, self.now_micros());
        self.read(move |connection| locate::find(connection, &query, now)).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        let (gone, now) = (key.clone(), self.now_micros());
        self.erase(CommitScope::session(key), move |tx| removals::delete(tx, &gone, now)).await?;
        self.quotas.forget(&key.user());
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            drop(self.queues()?);
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let (address, now) = (key.clone(), self.now_micros());
        let new = PreparedAppend::new(event, options, self.environment.as_ref(), &self.limits)?;
        let held = reserve_event(self, key, new.prepared()).await?;
        let new = match new {
            PreparedAppend::Plain(new) => new,
            PreparedAppend::Resolved { bytes, of } => {
                let charge = held.kept_if(|committed: &Committed| committed.outcome == Outcome::Stored);
                let append = move |tx: &Tx<'_>| resolve::append(tx, &address, &of.0, &of.1, now);
                let committed = self.write_charged(CommitScope::session(key), bytes, charge, append).await?;
                self.after_append(key, committed.event.seq.unwrap_or_default());
                return Ok(committed);
            }
        };
        let (shared, charge) =
            (Arc::clone(&new), held.kept_if(|appended: &AppendResult| matches!(appended, AppendResult::Stored { .. })));
        let append = move |tx: &Tx<'_>| events::append(tx, &address, &shared, now);
        let appended = self.write_charged(CommitScope::session(key), new.bytes(), charge, append).await?;
        Ok(match appended {
            AppendResult::Replayed(committed) => committed,
            AppendResult::Stored { seq, position } => {
                // The writer dropped its reference before it answered.
                let mut event = match Arc::try_unwrap(new) {
                    Ok(new) => new.prepared.event,
                    Err(shared) => shared.prepared.event.clone(),
                };
                event.seq = Some(seq);
                self.after_append(key, seq);
                events::committed(Arc::new(event), Outcome::Stored, position)
            }
        })
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let owner = owner.clone();
        self.read(move |connection| state::get(connection, &owner)).await
    }

    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<StateBytes> {
        let owner = owner.clone();
        let session_id = session_id.map(str::to_owned);
        self.read(move |connection| state::bytes(connection, &owner, session_id.as_deref())).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let ((author, time), owner) = (options.checked(|| self.environment.now())?, owner.clone());
        let scope = CommitScope::owner(&owner);
        if !prepared.is_plain() {
            return self.write(scope, 0, move |tx| resolve::put_state(tx, &owner, &prepared, &author, time)).await;
        }
        let (changes, limits) = (TextChange::all(&prepared.changes)?, prepared.limits);
        let bytes = changes.iter().map(TextChange::bytes).sum();
        self.write(scope, bytes, move |tx| state::put_state(tx, &owner, &changes, &limits, &author, time)).await
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        query.check(owner)?;
        let (owner, query) = (owner.clone(), query.clone());
        let now = self.now_micros();
        self.read(move |connection| match &query {
            ChangeQuery::After(after) => state_log::changes(connection, &owner, *after, limit),
            ChangeQuery::OfKey { name, before, at } => {
                let mut before = *before;
                if let Some((session, seq)) = at {
                    before = before.min(past::position_at(connection, session, *seq, now)? + 1);
                }
                state_log::key_changes(connection, &owner, name, before, limit)
            }
        })
        .await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        let after = after.cloned();
        self.read(move |connection| owners::after(connection, after.as_ref(), limit)).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        check_owner(app_name, user_id)?;
        let user = StateOwner::user(app_name, user_id)?;
        let (app_name, user_id, now) = (app_name.to_owned(), user_id.to_owned(), self.now_micros());
        let scope = CommitScope::all_of(&user);
        self.erase(scope, move |tx| removals::delete_user(tx, &app_name, &user_id, now)).await?;
        self.quotas.forget(&user);
        Ok(())
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        if self.mode == SqliteMode::ReadOnly {
            // A read-only service only has to be readable.
            self.read(|_| Ok(())).await?;
        } else {
            self.write(CommitScope::Nothing, 64 << 10, writer::check_writable).await?;
        }
        Ok(Vec::new())
    }

    async fn close(&self) -> Result<()> {
        let open = self.opened().take();
        if let Some(OpenQueues { queues, running }) = open {
            queues.close();
            drop(running);
        }
        let mut running = self.running.clone();
        // The loop ends with an error when the writer drops its sender, which is the last thing it does.
        while running.changed().await.is_ok() {}
        Ok(())
    }
}

impl SqliteSessionService {
    async fn prune_expired(&self, limit: usize) -> Result<u64> {
        let deleted = self.remove_expired(limit).await?;
        let old = self.now_micros().saturating_sub(micros_of_seconds(REMOVALS_KEPT.as_secs_f64()));
        let step = limit.clamp(1, LET_GO_AT_ONCE);
        while self.read(move |connection| removals::any_before(connection, old)).await?
            && self.erase(CommitScope::Nothing, move |tx| removals::delete_before(tx, old, step)).await? == step
        {
        }
        Ok(deleted)
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        let (of, now) = (key.clone(), self.now_micros());
        let pruned = self
            .erase(CommitScope::session(key), move |tx| retention::prune_events(tx, &of, before, limit, now))
            .await?;
        self.quotas.forget(&key.user());
        Ok(pruned)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        let owner = owner.clone();
        self.erase(CommitScope::owner(&owner), move |tx| retention::prune_state_log(tx, &owner, before, limit)).await
    }
}

#[async_trait]
impl QuotaStore for SqliteSessionService {
    fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    async fn usage(&self, owner: &StateOwner) -> Result<Usage> {
        let owner = owner.clone();
        self.read(move |connection| usage::of_owner(connection, &owner)).await
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Result<bool> {
        let (key, id) = (key.clone(), id.to_owned());
        self.read(move |connection| Ok(events::event_with_hash(connection, &key, &id)?.is_some())).await
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Result<Usage> {
        let key = key.clone();
        self.read(move |connection| usage::of_fork(connection, &key, at)).await
    }

    async fn remove_expired(&self, limit: usize) -> Result<u64> {
        let (now, mut removed) = (self.now_micros(), 0);
        // If nothing has expired, the call does not wait for the writer.
        while removed < limit && self.read(move |connection| retention::any_expired(connection, now)).await? {
            removed +=
                self.erase(CommitScope::Unknown, move |tx| retention::delete_expired(tx, now, limit - removed)).await?;
        }
        if removed > 0 {
            self.quotas.forget_all();
        }
        Ok(removed as u64)
    }
}

/// An append, prepared for the writer. Large parts are behind pointers, so that no future holds them.
enum PreparedAppend {
    /// The event is written unchanged.
    Plain(Arc<NewEvent>),
    /// The event depends on stored data.
    Resolved { bytes: usize, of: Box<(Prepared, AppendOptions)> },
}

impl PreparedAppend {
    fn new(event: Event, options: AppendOptions, environment: &dyn Environment, limits: &Limits) -> Result<Self> {
        let prepared = prepare_append(event, &options, environment, limits)?;
        if prepared.is_plain(&options) {
            return Ok(Self::Plain(Arc::new(NewEvent::new(prepared)?)));
        }
        Ok(Self::Resolved { bytes: prepared.bytes(), of: Box::new((prepared, options)) })
    }

    fn prepared(&self) -> &Prepared {
        match self {
            Self::Plain(new) => &new.prepared,
            Self::Resolved { of, .. } => &of.0,
        }
    }
}
