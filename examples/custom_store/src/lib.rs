//! A store of your own: plain maps under one lock. It carries out the descriptions of [`scratchbook_core::plan`], and
//! the conformance suite tests every promise.
//!
//! It shows only what a store has to do, and is not optimized for speed.

mod artifact;
mod inner;
mod kept;
mod service;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::{CommitNotifier, SessionKey};

use inner::Inner;

/// Sessions and artifacts in plain maps.
#[derive(Debug)]
pub struct MapStore {
    limits: Limits,
    inner: Mutex<Inner>,
    notifier: CommitNotifier,
    /// Distinguishes cursors of this store's feeds from cursors of other stores.
    id: String,
}

impl Default for MapStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MapStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        let (limits, inner, id) = (Limits::default(), Mutex::default(), SystemEnvironment.new_id());
        Self { limits, inner, notifier: CommitNotifier::new(), id }
    }

    fn open(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.closed {
            return Err(Error::new(ErrorKind::FailedPrecondition, "the store was closed; open it again"));
        }
        Ok(inner)
    }
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

fn now() -> i64 {
    micros(SystemEnvironment.now())
}

fn taken(key: &SessionKey) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("session already exists: {key}"))
}

fn missing(key: &SessionKey) -> Error {
    Error::new(ErrorKind::NotFound, format!("session not found: {key}; create it first"))
}
