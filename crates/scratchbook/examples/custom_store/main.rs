//! A store of your own: plain maps under one lock, on the descriptions of `scratchbook::plan`, held to every promise
//! by the conformance suite.
//!
//! It shows what a store has to do and no more: nothing in it is fast.

mod artifact;
mod inner;
mod kept;
mod service;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scratchbook::*;

use inner::Inner;

#[derive(Debug)]
struct MapStore {
    limits: Limits,
    inner: Mutex<Inner>,
    notifier: CommitNotifier,
    /// Tells cursors of its feeds from those of other stores.
    id: String,
}

impl MapStore {
    fn new() -> Self {
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

#[tokio::main]
async fn main() {
    // Panics at the first promise that is not kept, and names it.
    scratchbook::conformance::all(&Store::new(Arc::new(MapStore::new()))).await;
    println!("the store keeps all {} promises", scratchbook::conformance::PROMISES.len());
}
