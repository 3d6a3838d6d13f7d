//! The memory for state that is read whole: by pages of one session, creations, forks, runs, comparisons and checks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use scratchbook::session::{
    CreateSessionConfig, ForkConfig, GetSessionConfig, ListSessionsConfig, ListSessionsResponse, Session, SessionKey,
    StateBytes, StateOwner, StateSelection, forward_sessions,
};
use scratchbook::{Error, ErrorKind, Result, SessionService, StateMap};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::memory_pool::{MemoryPool, TakenMemory};

/// The memory for all states that are read at a time. Those of one user may take half of it.
const ALL: usize = 512 << 20;

/// How many forms of a state are in memory at a time: its values, and twice its text.
const COPIES: u64 = 3;

/// Smaller states take no memory from the pool.
const SMALL: u64 = 32 << 10;

/// How many requests ask for the size of one user's or app's state at a time. SQLite reads large values to find the next
/// one, and other owners' reads are not to wait behind many such questions.
const QUESTIONS: usize = 2;

/// If more owners than this are remembered, those that nobody asks about are forgotten.
const SWEEP_FROM: usize = 1_024;

/// A service that takes memory for a state before it reads the state from another service. The memory is given back when
/// the state and its clones are dropped.
#[derive(Debug)]
pub(crate) struct WithStateMemory {
    service: Arc<dyn SessionService>,
    pool: MemoryPool<StateOwner>,
    questions: Mutex<HashMap<StateOwner, Weak<Semaphore>>>,
    /// How long a read waits for memory.
    wait: Duration,
}

type Taken = Option<Arc<TakenMemory>>;

impl WithStateMemory {
    pub(crate) fn new(service: Arc<dyn SessionService>, wait: Duration) -> Self {
        Self { service, pool: MemoryPool::new(ALL), questions: Mutex::default(), wait }
    }

    /// Takes the memory for the state of a user and its app, or of an app alone, and of a session of that user. `check`
    /// says how much of the state is read, and may refuse it.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` if the state is too large to be read whole; `Unavailable` if no memory is free in time.
    async fn take(
        &self,
        owner: &StateOwner,
        session_id: Option<&str>,
        check: impl FnOnce(StateBytes) -> Result<StateBytes> + Send,
    ) -> Result<Taken> {
        let questions = self.questions(owner);
        let turn = questions.acquire().await;
        let bytes = self.service.state_bytes(owner, session_id).await;
        drop(turn);
        let bytes = match bytes {
            // The store keeps its states elsewhere, and limits their size itself.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            bytes => check(bytes?)?.total(),
        };
        if bytes < SMALL {
            return Ok(None);
        }
        let taken = timeout(self.wait, self.pool.take(Some(owner), bytes.saturating_mul(COPIES))).await;
        let taken = taken.map_err(|_| {
            let message =
                "the states that are being read take up all the memory there is for them; try again in a moment";
            Error::new(ErrorKind::Unavailable, message)
        });
        Ok(Some(Arc::new(taken?)))
    }

    fn questions(&self, owner: &StateOwner) -> Arc<Semaphore> {
        let mut owners = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(questions) = owners.get(owner).and_then(Weak::upgrade) {
            return questions;
        }
        if owners.len() >= SWEEP_FROM {
            owners.retain(|_, questions| questions.strong_count() > 0);
        }
        let questions = Arc::new(Semaphore::new(QUESTIONS));
        owners.insert(owner.clone(), Arc::downgrade(&questions));
        questions
    }

    async fn take_whole(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<Taken> {
        self.take(owner, session_id, |bytes| bytes.check().map(|()| bytes)).await
    }
}

fn held(state: StateMap, taken: &Taken) -> StateMap {
    match taken {
        Some(taken) => state.with_held(Arc::<TakenMemory>::clone(taken)),
        None => state,
    }
}

fn with_held(session: Session, taken: &Taken) -> Session {
    let state = held(session.state().clone(), taken);
    session.with_state(state)
}

#[async_trait]
impl SessionService for WithStateMemory {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let taken = match StateOwner::user(app_name, user_id) {
            Ok(user) => self.take_whole(&user, None).await?,
            // The service says what is wrong with the names.
            Err(_) => None,
        };
        Ok(with_held(self.service.create_session(app_name, user_id, config).await?, &taken))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let id = Some(key.session_id());
        let taken = match &config.state {
            StateSelection::All => self.take_whole(&key.user(), id).await?,
            StateSelection::Keys(keys) if keys.is_empty() => None,
            // The sizes of single keys are not known before they are read.
            _ => {
                let at_most = |bytes: StateBytes| {
                    let left = StateBytes::MAX.saturating_sub(bytes.user.saturating_add(bytes.app));
                    Ok(StateBytes { session: bytes.session.min(left), ..bytes })
                };
                self.take(&key.user(), id, at_most).await?
            }
        };
        Ok(self.service.get_session(key, config).await?.map(|session| with_held(session, &taken)))
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let taken = self.take_whole(&key.user(), Some(key.session_id())).await?;
        Ok(held(self.service.get_state_at(key, seq).await?, &taken))
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let taken = self.take_whole(&key.user(), Some(key.session_id())).await?;
        Ok(with_held(self.service.fork_session(key, config).await?, &taken))
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let owner = match &config.user_id {
            Some(user_id) => StateOwner::user(app_name, user_id),
            None => StateOwner::app(app_name),
        };
        let taken = match owner {
            Ok(owner) => self.take_whole(&owner, None).await?,
            Err(_) => None,
        };
        let mut page = self.service.list_sessions(app_name, config).await?;
        page.sessions = page.sessions.into_iter().map(|session| with_held(session, &taken)).collect();
        Ok(page)
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        // The map cannot hold the memory, which is given back when the map has been read.
        let _taken = self.take(owner, None, |bytes| bytes.alone(owner).check().map(|()| bytes.alone(owner))).await?;
        self.service.get_state(owner).await
    }

    forward_sessions!(self.service =>
        append, put_state, capabilities, get_initial_state, blame, locate_session, delete_session, state_bytes, list_state,
        list_state_changes, list_feed, commits, update_session, prune, list_event_hashes, list_owners,
        delete_user, check_writable, close);
}
