//! What one invocation knows of its session: committed state, and writes that wait for their event.
//!
//! Every callback and every tool call writes to a layer of its own. A callback's layer is seen by all at
//! once; a tool call's when it has returned well. When the event that carries a layer has been committed, the
//! layer is gone and the committed state shows it; where that never happens, nothing of it remains.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::session::Session;
use crate::state::{Change, StateDelta, StateMap};

/// The state of a running invocation, shared by all its agents.
#[derive(Debug)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    layers: Vec<Layer>,
    /// Counts writes, so that of two pending ones the later is read.
    writes: u64,
    /// Counts layers.
    opened: u64,
}

#[derive(Debug)]
struct Layer {
    id: LayerId,
    event_id: String,
    changes: IndexMap<String, (Change, u64)>,
    seen_by: Seen,
}

/// Who sees a layer's writes before they are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    ByAll,
    ByItself,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerId(u64);

impl Board {
    pub(crate) fn new(session: Session) -> Self {
        Self { inner: Mutex::new(Inner { session, layers: Vec::new(), writes: 0, opened: 0 }) }
    }

    /// The session as committed so far.
    pub(crate) fn session(&self) -> Session {
        self.lock().session.clone()
    }

    /// The state as everybody sees it now.
    pub(crate) fn snapshot(&self) -> StateMap {
        self.lock().snapshot(None)
    }

    /// The state as one layer sees it now.
    pub(crate) fn snapshot_of(&self, layer: LayerId) -> StateMap {
        self.lock().snapshot(Some(layer))
    }

    /// Opens a layer for writes that an event is going to carry.
    pub(crate) fn open(&self, event_id: &str, seen_by: Seen) -> LayerId {
        let mut inner = self.lock();
        inner.opened += 1;
        let id = LayerId(inner.opened);
        inner.layers.push(Layer { id, event_id: event_id.to_owned(), changes: IndexMap::new(), seen_by });
        id
    }

    /// Lets everybody see a layer's writes.
    pub(crate) fn publish(&self, layer: LayerId) {
        if let Some(layer) = self.lock().layer(layer) {
            layer.seen_by = Seen::ByAll;
        }
    }

    /// Lets another event carry a layer.
    pub(crate) fn carry(&self, layer: LayerId, event_id: &str) {
        if let Some(layer) = self.lock().layer(layer) {
            event_id.clone_into(&mut layer.event_id);
        }
    }

    /// Drops a layer and what was written to it.
    pub(crate) fn discard(&self, layer: LayerId) {
        self.lock().layers.retain(|other| other.id != layer);
    }

    /// Drops what was written to a layer, not the layer.
    pub(crate) fn clear(&self, layer: LayerId) {
        if let Some(layer) = self.lock().layer(layer) {
            layer.changes.clear();
        }
    }

    /// What was written to a layer.
    pub(crate) fn delta(&self, layer: LayerId) -> Result<StateDelta> {
        let mut inner = self.lock();
        let mut delta = StateDelta::new();
        if let Some(layer) = inner.layer(layer) {
            for (key, (change, _)) in &layer.changes {
                delta.insert(key.clone(), change.clone())?;
            }
        }
        Ok(delta)
    }

    /// Reads a key: the layer's own write, else the latest pending one by others, else what is committed.
    pub(crate) fn get(&self, layer: LayerId, key: &str) -> Option<Value> {
        let inner = self.lock();
        match inner.pending(Some(layer), key) {
            Some(change) => change.value().cloned(),
            None => inner.session.state().get(key).cloned(),
        }
    }

    /// Writes to a layer.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the layer is gone: its event is committed or dropped, or its call has failed.
    pub(crate) fn write(&self, layer: LayerId, delta: &StateDelta) -> Result<()> {
        let mut inner = self.lock();
        let mut stamp = inner.writes;
        let Some(layer) = inner.layer(layer) else {
            let message = "the event of this context is done; write within the callback or tool it was given to";
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        };
        for (key, change) in delta.iter() {
            stamp += 1;
            layer.changes.insert(key.to_owned(), (change.clone(), stamp));
        }
        inner.writes = stamp;
        Ok(())
    }

    /// Takes over a committed event, with its `temp:` changes, in place of the layers it carried.
    pub(crate) fn committed(&self, event: &Arc<Event>, temp: &StateDelta) {
        let mut inner = self.lock();
        inner.session.apply(event, temp);
        inner.layers.retain(|layer| layer.event_id != event.id);
    }

    /// A poisoned lock is still whole: nothing that holds it can panic half-way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn layer(&mut self, id: LayerId) -> Option<&mut Layer> {
        self.layers.iter_mut().find(|layer| layer.id == id)
    }

    fn pending(&self, own: Option<LayerId>, key: &str) -> Option<&Change> {
        let own_change =
            self.layers.iter().find(|layer| Some(layer.id) == own).and_then(|layer| layer.changes.get(key));
        let seen = self.layers.iter().filter(|layer| layer.seen_by == Seen::ByAll);
        let latest = || seen.filter_map(|layer| layer.changes.get(key)).max_by_key(|(_, stamp)| *stamp);
        own_change.or_else(latest).map(|(change, _)| change)
    }

    fn snapshot(&self, own: Option<LayerId>) -> StateMap {
        let mut state = self.session.state().clone();
        let seen = self.layers.iter().filter(|layer| layer.seen_by == Seen::ByAll || Some(layer.id) == own);
        let keys = seen.flat_map(|layer| layer.changes.keys());
        for key in keys {
            if let Some(change) = self.pending(own, key) {
                state.apply_change(key, change);
            }
        }
        state
    }
}
