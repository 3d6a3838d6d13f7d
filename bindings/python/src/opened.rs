//! A store that is opened at its first call: a service is created before a loop runs, and often before a fork.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use scratchbook::session::Watches;
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, SessionKey, SessionService, Store, connect};
use tokio::sync::OnceCell;

use crate::runtime::{OpenFile, check_file, check_process};
use crate::shape::CallAnswer;

/// A store by its URI.
#[derive(Debug)]
pub(crate) struct LazyStore {
    uri: String,
    /// The process of the first call.
    process: OnceLock<u32>,
    store: OnceCell<Store>,
    /// Watches of the store's sessions, which share their reads.
    watches: OnceLock<Watches<Arc<dyn SessionService>>>,
    is_closed: AtomicBool,
    /// Held until the store is closed, if the store is a file.
    file: Mutex<Option<OpenFile>>,
}

impl LazyStore {
    pub(crate) fn new(uri: String) -> Self {
        Self {
            uri,
            process: OnceLock::new(),
            store: OnceCell::new(),
            watches: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            file: Mutex::default(),
        }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Refuses a process that may not use this store; called before [`store`](Self::store), without waiting.
    pub(crate) fn check(&self) -> PyResult<()> {
        if let Some(opened_by) = self.process.get() {
            return check_process(*opened_by);
        }
        if self.is_file() {
            check_file()?;
        }
        check_process(*self.process.get_or_init(process::id))
    }

    /// The store, opened by the first caller. A failure is not kept: the next call tries again.
    pub(crate) async fn store(&self) -> Result<&Store> {
        let open = async || {
            if self.is_closed.load(Ordering::SeqCst) {
                return Err(closed());
            }
            let file = self.is_file().then(OpenFile::new);
            let store = connect(&self.uri).await?;
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
            Ok(store)
        };
        self.store.get_or_try_init(open).await
    }

    /// The factory of the store's watches.
    pub(crate) async fn watches(&self) -> Result<&Watches<Arc<dyn SessionService>>> {
        let store = self.store().await?;
        Ok(self.watches.get_or_init(|| Watches::new(Arc::clone(&store.sessions))))
    }

    /// Opens the store before it is needed.
    pub(crate) async fn open(&self) -> Result<()> {
        // A store that was opened and closed still exists, for running calls.
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(closed());
        }
        self.store().await.map(drop)
    }

    /// Returns the result of a call about a session. Only for a missing session there is a separate answer, because a
    /// program may create the session again. Other missing things are errors.
    pub(crate) async fn told_of(&self, key: &SessionKey, ended: Result<CallAnswer>) -> Result<CallAnswer> {
        let Some(store) = self.store.get() else { return ended };
        match ended {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let bare = GetSessionConfig::default().without_state().with_num_recent_events(0);
                match store.sessions.get_session(key, &bare).await {
                    Ok(None) => Ok(CallAnswer::NoSession(error)),
                    _ => Err(error),
                }
            }
            ended => ended,
        }
    }

    /// Closes the store if it is open; otherwise it can no longer be opened.
    pub(crate) async fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(store) = self.store.get() {
            store.sessions.close().await?;
            drop(self.file.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        Ok(())
    }

    fn is_file(&self) -> bool {
        self.uri.starts_with("sqlite:")
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::FailedPrecondition, "the service was closed; make another")
}

/// Leaks a store that the child of a fork has from its parent, since closing it would wait for threads that do not
/// exist.
pub(crate) fn let_go(opened: Arc<LazyStore>) {
    if opened.process.get().is_some_and(|opened_by| *opened_by != process::id()) {
        std::mem::forget(opened);
    }
}
