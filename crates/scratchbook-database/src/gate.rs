//! Closes a service: refuses later calls, and waits for running calls.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use scratchbook_core::error::Result;
use scratchbook_core::store::closed;

/// Admits calls until it is closed. Closing waits for the calls that are running.
#[derive(Debug)]
pub(super) struct CallGate {
    /// `None` once closed.
    open: Mutex<Option<watch::Sender<()>>>,
    inside: watch::Receiver<()>,
}

/// Held by a call while it runs.
#[derive(Clone, Debug)]
pub(super) struct GatePass {
    _inside: watch::Sender<()>,
}

impl CallGate {
    pub(super) fn new() -> Self {
        let (open, inside) = watch::channel(());
        Self { open: Mutex::new(Some(open)), inside }
    }

    pub(super) fn enter(&self) -> Result<GatePass> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| GatePass { _inside: open.clone() }).ok_or_else(closed)
    }

    pub(super) async fn close(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut inside = self.inside.clone();
        // Ends with an error when the last pass is gone.
        while inside.changed().await.is_ok() {}
    }
}
