//! The class `Store`: a method for each call of a store. Deep values are JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use scratchbook::session::{ChangeQuery, ForkConfig, ListSessionsConfig, Outcome, PutStateOptions, StateOwner};
use scratchbook::{
    AppendOptions, Error, Event, GetSessionConfig, Result, SessionKey, SessionService, SessionServiceExt, json,
};

use crate::call::Call;
use crate::creation::NewSessionRequest;
use crate::opened::{LazyStore, let_go};
use crate::seen::{CopyVersion, WrittenAppend, conflict_mode};
use crate::shape::{AppendOutcome, CallAnswer, Whole, to_json, write, writer};
use crate::watch::{PyWatch, WatchTarget};
use crate::{operations, runtime};

/// The page size for reading all sessions or events.
const PAGE: usize = 1000;

/// A session's address: app, user, session id.
pub(crate) type AddressTuple = (String, String, String);

/// A store, opened at its first call.
#[pyclass(frozen, module = "scratchbook._scratchbook", name = "Store")]
pub(crate) struct PyStore {
    opened: Arc<LazyStore>,
}

impl Drop for PyStore {
    fn drop(&mut self) {
        let_go(Arc::clone(&self.opened));
    }
}

impl PyStore {
    /// The part that this store's other classes share.
    pub(crate) fn opened(&self) -> Arc<LazyStore> {
        Arc::clone(&self.opened)
    }

    fn call<F>(&self, py: Python<'_>, work: impl FnOnce(Arc<LazyStore>) -> F) -> PyResult<Call>
    where
        F: Future<Output = Result<CallAnswer>> + Send + 'static,
    {
        self.opened.check()?;
        Ok(Call::new(runtime::handle(py)?, work(Arc::clone(&self.opened))))
    }

    /// A call about one session.
    fn session_call<F>(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        work: impl FnOnce(scratchbook::Store, SessionKey) -> F + Send + 'static,
    ) -> PyResult<Call>
    where
        F: Future<Output = Result<CallAnswer>> + Send + 'static,
    {
        self.call(py, |opened| async move {
            let key = key(&address)?;
            let ended = work(opened.store().await?.clone(), key.clone()).await;
            opened.told_of(&key, ended).await
        })
    }
}

#[pymethods]
impl PyStore {
    #[new]
    fn new(uri: String) -> Self {
        Self { opened: Arc::new(LazyStore::new(uri)) }
    }

    /// The URI without password and parameters, for people and logs.
    #[getter]
    fn uri(&self) -> String {
        scratchbook::store::without_password(self.opened.uri())
    }

    /// Waits for some time. Callers use this before they try again.
    fn pause(&self, py: Python<'_>, seconds: f64) -> PyResult<Call> {
        self.call(py, |_| async move {
            tokio::time::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
            Ok(CallAnswer::Nothing)
        })
    }

    /// Opens the store now. Without this, the first call opens it.
    fn open(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, |opened| async move { opened.open().await.map(|()| CallAnswer::Nothing) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, |opened| async move { opened.close().await.map(|()| CallAnswer::Nothing) })
    }

    fn create(&self, py: Python<'_>, app_name: String, user_id: String, config: PyBackedBytes) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let config: NewSessionRequest = json::from_slice(&config).map_err(|e| e.context("the new session"))?;
            let sessions = &opened.store().await?.sessions;
            answer(&sessions.create_session(&app_name, &user_id, config.into()).await?)
        })
    }

    /// Reads a session with its last events, its events from a time on, or its events with a number above `after_seq`.
    #[pyo3(signature = (address, num_recent_events=None, after_timestamp=None, after_seq=None))]
    fn get(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        num_recent_events: Option<usize>,
        after_timestamp: Option<f64>,
        after_seq: Option<u64>,
    ) -> PyResult<Call> {
        let mut config = GetSessionConfig::default();
        config.num_recent_events = num_recent_events;
        config.after_timestamp = after_timestamp;
        if let Some(seq) = after_seq {
            config = config.with_events_after(seq, usize::MAX);
        }
        self.call(py, |opened| async move {
            // An invalid id is treated as the id of a missing session.
            if address.2.trim().is_empty() {
                return Ok(CallAnswer::Nothing);
            }
            let found = opened.store().await?.sessions.get_session(&key(&address)?, &config).await?;
            found.as_ref().map_or(Ok(CallAnswer::Nothing), answer)
        })
    }

    #[pyo3(signature = (app_name, user_id=None))]
    fn list(&self, py: Python<'_>, app_name: String, user_id: Option<String>) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let sessions = &opened.store().await?.sessions;
            let mut config = ListSessionsConfig::default().with_page_size(PAGE);
            config.user_id = user_id;
            let mut text = b"{\"sessions\":[".to_vec();
            loop {
                let page = sessions.list_sessions(&app_name, &config).await?;
                for session in &page.sessions {
                    if text.last() != Some(&b'[') {
                        text.push(b',');
                    }
                    text.extend(to_json(&Whole(session))?);
                }
                config.page_token = page.next_page_token;
                if config.page_token.is_none() {
                    break;
                }
            }
            text.extend(b"]}");
            Ok(CallAnswer::Json(text))
        })
    }

    fn delete(&self, py: Python<'_>, address: AddressTuple) -> PyResult<Call> {
        self.call(py, |opened| async move {
            if address.2.trim().is_empty() {
                return Ok(CallAnswer::Nothing);
            }
            opened.store().await?.sessions.delete_session(&key(&address)?).await?;
            Ok(CallAnswer::Nothing)
        })
    }

    /// Appends an event. Unknown fields inside its actions and content are `kept` or `refused`.
    #[pyo3(signature = (address, event, conflict, seen=None, operations=None, unknown="kept"))]
    #[expect(clippy::too_many_arguments, reason = "they are a call's from Python")]
    fn append(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        event: PyBackedBytes,
        conflict: &str,
        seen: Option<String>,
        operations: Option<PyBackedBytes>,
        unknown: &str,
    ) -> PyResult<Call> {
        let conflict = conflict_mode(conflict);
        let unknown_are_kept = unknown == "kept";
        self.call(py, |opened| async move {
            let key = key(&address)?;
            let mut event: Event = json::from_slice(&event).map_err(|e| e.context("the event"))?;
            if !unknown_are_kept {
                event.check_known()?;
            }
            if let Some(text) = &operations {
                event.actions.state_delta.merge(operations::delta(text)?)?;
            }
            let options = match &seen {
                Some(seen) => CopyVersion::read(seen)?.options(conflict?),
                None => AppendOptions::default(),
            };
            let committed = match opened.store().await?.sessions.append(&key, event, options).await {
                Ok(committed) => committed,
                Err(error) => return opened.told_of(&key, Err(error)).await,
            };
            let changes = operations.is_some().then(|| to_json(&committed.event.actions.state_delta)).transpose()?;
            Ok(CallAnswer::Appended(AppendOutcome {
                outcome: match committed.outcome {
                    Outcome::Replayed => "replayed",
                    Outcome::Partial => "partial",
                    _ => "stored",
                },
                written: WrittenAppend::of(&committed).text(),
                changes,
            }))
        })
    }

    /// Returns the state of a user, or of the app if no user is given. Names have no prefix.
    #[pyo3(signature = (app_name, user_id=None))]
    fn get_state(&self, py: Python<'_>, app_name: String, user_id: Option<String>) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let owner = owner(&app_name, user_id.as_deref())?;
            CallAnswer::json(&opened.store().await?.sessions.get_state(&owner).await?)
        })
    }

    /// Changes the state of a user, or of the app if no user is given.
    fn put_state(
        &self,
        py: Python<'_>,
        app_name: String,
        user_id: Option<String>,
        operations: PyBackedBytes,
        author: String,
    ) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let owner = owner(&app_name, user_id.as_deref())?;
            let delta = operations::delta(&operations)?;
            let sessions = &opened.store().await?.sessions;
            sessions.put_state(&owner, delta, PutStateOptions::by(author)).await.map(CallAnswer::Number)
        })
    }

    /// Returns whether a key of a user, or of the app if no user is given, was ever written. The key has no prefix.
    fn was_written(&self, py: Python<'_>, app_name: String, user_id: Option<String>, name: String) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let owner = owner(&app_name, user_id.as_deref())?;
            let sessions = &opened.store().await?.sessions;
            let changes = sessions.list_state_changes(&owner, &ChangeQuery::of_key(&name, u64::MAX), 1).await?;
            Ok(CallAnswer::Number(changes.len() as u64))
        })
    }

    /// Finds the number of an event by its id, searching back from the last event.
    fn seq_of(&self, py: Python<'_>, address: AddressTuple, event_id: String) -> PyResult<Call> {
        self.session_call(py, address, |store, key| async move { seq_of(&store, &key, &event_id).await })
    }

    fn state_at(&self, py: Python<'_>, address: AddressTuple, seq: u64) -> PyResult<Call> {
        self.session_call(py, address, move |store, key| async move {
            CallAnswer::json(&store.sessions.get_state_at(&key, seq).await?)
        })
    }

    fn diff(&self, py: Python<'_>, address: AddressTuple, before: u64, after: u64) -> PyResult<Call> {
        self.session_call(py, address, move |store, key| async move {
            CallAnswer::json(&store.sessions.diff(&key, before, after).await?)
        })
    }

    #[pyo3(signature = (address, name, limit, at=None))]
    fn history(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        name: String,
        limit: usize,
        at: Option<u64>,
    ) -> PyResult<Call> {
        self.session_call(py, address, move |store, key| async move {
            let writes = match at {
                Some(seq) => store.sessions.history_at(&key, &name, seq, limit).await?,
                None => store.sessions.history(&key, &name, limit).await?,
            };
            CallAnswer::json(&writes.iter().map(write).collect::<Vec<_>>())
        })
    }

    fn blame(&self, py: Python<'_>, address: AddressTuple) -> PyResult<Call> {
        self.session_call(py, address, |store, key| async move {
            let writers = store.sessions.blame(&key).await?;
            let shown: BTreeMap<_, _> = writers.iter().map(|(name, by)| (name, writer(by))).collect();
            CallAnswer::json(&shown)
        })
    }

    /// Rewinds a session, and returns the event that records this.
    fn rewind(&self, py: Python<'_>, address: AddressTuple, before_invocation_id: String) -> PyResult<Call> {
        self.session_call(py, address, move |store, key| async move {
            let event = store.rewind(&key, &before_invocation_id).await?;
            CallAnswer::json(&crate::shape::EventShape(&event))
        })
    }

    #[pyo3(signature = (address, at=None, session_id=None))]
    fn fork(
        &self,
        py: Python<'_>,
        address: AddressTuple,
        at: Option<u64>,
        session_id: Option<String>,
    ) -> PyResult<Call> {
        self.session_call(py, address, move |store, key| async move {
            let mut config = ForkConfig::default();
            (config.at, config.session_id) = (at, session_id);
            let forked = store.sessions.fork_session(&key, config).await?;
            let whole = store.sessions.get_session(forked.key(), &GetSessionConfig::default()).await?;
            answer(whole.as_ref().unwrap_or(&forked))
        })
    }

    /// Verifies a session; `None` if there is none.
    fn verify(&self, py: Python<'_>, address: AddressTuple) -> PyResult<Call> {
        self.session_call(py, address, |store, key| async move {
            let Some(verified) = store.sessions.verify_session(&key).await? else {
                return Ok(CallAnswer::Nothing);
            };
            CallAnswer::json(&serde_json::json!({"events": verified.events, "keys": verified.keys}))
        })
    }

    /// Verifies the state of a user, or of the app if no user is given.
    #[pyo3(signature = (app_name, user_id=None))]
    fn verify_state(&self, py: Python<'_>, app_name: String, user_id: Option<String>) -> PyResult<Call> {
        self.call(py, |opened| async move {
            let owner = owner(&app_name, user_id.as_deref())?;
            let verified = opened.store().await?.sessions.verify_state(&owner).await?;
            CallAnswer::json(&serde_json::json!({"events": verified.events, "keys": verified.keys}))
        })
    }

    /// Follows a session, a user or an app, depending on the names: from `now`, from the `beginning`, or after a
    /// cursor.
    #[pyo3(signature = (named, key_prefix, start, cursor=None))]
    fn watch(
        &self,
        named: (String, Option<String>, Option<String>),
        key_prefix: String,
        start: String,
        cursor: Option<String>,
    ) -> PyWatch {
        PyWatch::new(Arc::clone(&self.opened), WatchTarget { named, key_prefix, start, cursor })
    }
}

pub(crate) fn key((app_name, user_id, session_id): &AddressTuple) -> Result<SessionKey> {
    SessionKey::new(app_name, user_id, session_id)
}

fn owner(app_name: &str, user_id: Option<&str>) -> Result<StateOwner> {
    user_id.map_or_else(|| StateOwner::app(app_name), |user_id| StateOwner::user(app_name, user_id))
}

fn answer(session: &scratchbook::Session) -> Result<CallAnswer> {
    Ok(CallAnswer::Session(to_json(&Whole(session))?, CopyVersion::of(session).text()))
}

async fn seq_of(store: &scratchbook::Store, key: &SessionKey, event_id: &str) -> Result<CallAnswer> {
    let mut before = u64::MAX;
    loop {
        let config = GetSessionConfig::default().without_state().with_events_before(before, PAGE);
        let session = store.sessions.get_session(key, &config).await?;
        let session = session.ok_or_else(|| Error::not_found(format!("session not found: {key}; create it first")))?;
        if let Some(found) = session.events().iter().rev().find(|event| event.id == event_id) {
            return Ok(CallAnswer::Number(found.seq.unwrap_or_default()));
        }
        match session.events().get(0).and_then(|first| first.seq) {
            Some(first) if first > 1 => before = first,
            _ => return Err(Error::not_found(format!("no event of {key} has the id '{event_id}'"))),
        }
    }
}
