//! What one invocation knows of its session: committed state, and writes that wait for their event.
//!
//! Every callback and every tool call writes to a layer of its own. A callback's layer is seen by all at
//! once; a tool call's when it has returned well. When the event that carries a layer has been committed, the
//! layer is gone and the committed state shows it; where that never happens, nothing of it remains.
//!
//! Of a key a layer sees its own change first, or else that of another layer of its event, such as that of an earlier
//! callback; else the newest of what is committed and what others have pending.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use serde_json::Value;

use super::layers::LayerGroup;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::session::{Committed, Session};
use scratchbook_core::state::{Change, Scope, StateDelta, StateMap, resolve};

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
    changes: IndexMap<String, Pending>,
    seen_by: Seen,
    group: Option<Arc<LayerGroup>>,
}

/// A change that is not committed yet.
#[derive(Debug)]
struct Pending {
    change: Change,
    /// When it was written.
    stamp: u64,
    /// Whether a value was committed since: for other events that one is seen.
    is_outdated: bool,
}

impl Pending {
    /// Whether it is seen for other events than its own. An operation is carried out on whatever is committed.
    fn is_news(&self) -> bool {
        !self.is_outdated || self.change.operations().is_some()
    }
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

    /// Opens a layer for writes that an event is going to carry. In a group that is closed it is gone at once.
    pub(crate) fn open(&self, event_id: &str, seen_by: Seen, group: Option<&Arc<LayerGroup>>) -> LayerId {
        let mut inner = self.lock();
        inner.opened += 1;
        let id = LayerId(inner.opened);
        if group.is_none_or(|group| !group.is_closed()) {
            let (event_id, group) = (event_id.to_owned(), group.cloned());
            inner.layers.push(Layer { id, event_id, changes: IndexMap::new(), seen_by, group });
        }
        id
    }

    /// Drops all layers of a group and of the groups within it; from now on none can be opened there.
    pub(crate) fn close(&self, group: &LayerGroup) {
        let mut inner = self.lock();
        group.close();
        inner.layers.retain(|layer| layer.group.as_ref().is_none_or(|group| !group.is_closed()));
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
            for (key, pending) in &layer.changes {
                delta.insert(key.clone(), pending.change.clone())?;
            }
        }
        Ok(delta)
    }

    /// Reads a key: the layer's own write, else what is written for its event, else the newest of what is committed and what
    /// others have pending. An operation shows what it comes to on what lies below it.
    pub(crate) fn get(&self, layer: LayerId, key: &str) -> Option<Value> {
        self.lock().value(Some(layer), key).map(Cow::into_owned)
    }

    /// Writes to a layer, all of the delta or nothing.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the layer is gone: its event is committed or dropped, or its call has failed. For
    /// operations, what they give on what this layer sees.
    pub(crate) fn write(&self, layer: LayerId, delta: &StateDelta) -> Result<()> {
        let mut inner = self.lock();
        let mut changes = Vec::with_capacity(delta.len());
        for (key, change) in delta.iter() {
            changes.push((key.to_owned(), inner.after(layer, key, change)?));
        }
        let mut stamp = inner.writes;
        let Some(layer) = inner.layer(layer) else {
            let message = "the event of this context is done; write within the callback or tool it was given to";
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        };
        for (key, change) in changes {
            stamp += 1;
            layer.changes.insert(key, Pending { change, stamp, is_outdated: false });
        }
        inner.writes = stamp;
        Ok(())
    }

    /// A delta as a piece of a streamed answer shows it: with what its operations come to on what is committed so far.
    /// What they really come to is known when the whole answer is committed.
    pub(crate) fn shown(&self, delta: &StateDelta) -> Result<StateDelta> {
        let inner = self.lock();
        let mut shown = StateDelta::new();
        for (key, change) in delta.iter() {
            let known = match change {
                Change::Apply(operations) => resolve(key, operations, inner.session.state().get(key)).ok().flatten(),
                known => Some(known.clone()),
            };
            known.map_or(Ok(()), |known| shown.insert(key.to_owned(), known))?;
        }
        Ok(shown)
    }

    /// Takes over a committed event, with its `temp:` changes, in place of the layers it carried.
    pub(crate) fn committed(&self, committed: &Committed, temp: &StateDelta) {
        let mut inner = self.lock();
        inner.session.apply(committed, temp);
        inner.layers.retain(|layer| layer.event_id != committed.event.id);
        inner.outdate(committed.event.actions.state_delta.iter().chain(temp.iter()).map(|(key, _)| key));
    }

    /// Whether a layer has no changes but those of `temp:` keys.
    pub(crate) fn is_temp_alone(&self, layer: LayerId) -> bool {
        let mut inner = self.lock();
        inner.layer(layer).is_none_or(|layer| layer.changes.keys().all(|key| Scope::split(key).0 == Scope::Temp))
    }

    /// Takes over a layer of `temp:` changes alone, which no event is to carry.
    ///
    /// # Errors
    ///
    /// What the operations among them give on what is there.
    pub(crate) fn keep_temp(&self, layer: LayerId) -> Result<()> {
        let delta = self.delta(layer)?;
        let mut inner = self.lock();
        let delta = delta.resolve(|key| inner.session.state().get(key))?;
        inner.session.apply_temp(&delta);
        inner.layers.retain(|other| other.id != layer);
        inner.outdate(delta.iter().map(|(key, _)| key));
        Ok(())
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

    /// Notes of pending changes that something newer is committed.
    fn outdate<'k>(&mut self, keys: impl Iterator<Item = &'k str>) {
        for key in keys {
            for layer in &mut self.layers {
                if let Some(pending) = layer.changes.get_mut(key) {
                    pending.is_outdated = true;
                }
            }
        }
    }

    /// A layer's own change to a key.
    fn own(&self, layer: LayerId, key: &str) -> Option<&Change> {
        let layer = self.layers.iter().find(|other| other.id == layer)?;
        layer.changes.get(key).map(|pending| &pending.change)
    }

    /// The pending changes to a key that a layer sees, from everybody's oldest to its own. Those that one event carries are in
    /// the order in which it will have them; those of the layer's own event come after all others, whatever is committed
    /// meanwhile.
    fn pending(&self, own: Option<LayerId>, key: &str) -> Vec<&Change> {
        let own = own.and_then(|own| self.layers.iter().find(|layer| layer.id == own));
        let mut others = Vec::new();
        let mut of_own_event = Vec::new();
        for layer in &self.layers {
            if layer.seen_by != Seen::ByAll || own.is_some_and(|own| own.id == layer.id) {
                continue;
            }
            let Some(pending) = layer.changes.get(key) else {
                continue;
            };
            if own.is_some_and(|own| own.event_id == layer.event_id) {
                of_own_event.push(pending);
            } else if pending.is_news() {
                others.push((layer.event_id.as_str(), pending));
            }
        }
        if others.len() > 1 {
            let mut newest = HashMap::new();
            for (event_id, pending) in &others {
                let stamp = newest.entry(*event_id).or_insert(pending.stamp);
                *stamp = pending.stamp.max(*stamp);
            }
            others.sort_by_key(|(event_id, _)| newest.get(event_id).copied());
        }
        let others = others.into_iter().map(|(_, pending)| pending).chain(of_own_event);
        others.chain(own.and_then(|own| own.changes.get(key))).map(|pending| &pending.change).collect()
    }

    /// What a layer, or everybody, sees under a key.
    fn value(&self, own: Option<LayerId>, key: &str) -> Option<Cow<'_, Value>> {
        let mut value = self.session.state().get(key).map(Cow::Borrowed);
        for change in self.pending(own, key) {
            value = match change {
                // What cannot be carried out any more, after what somebody else wrote, will be refused at its commit.
                Change::Apply(operations) => match resolve(key, operations, value.as_deref()) {
                    Ok(Some(known)) => known.value().cloned().map(Cow::Owned),
                    Ok(None) | Err(_) => value,
                },
                known => known.value().map(Cow::Borrowed),
            };
        }
        value
    }

    /// What there is to be in a layer after a change; operations have to be possible on what it sees.
    fn after(&self, layer: LayerId, key: &str, change: &Change) -> Result<Change> {
        if let Some(operations) = change.operations() {
            resolve(key, operations, self.value(Some(layer), key).as_deref())?;
        }
        match self.own(layer, key) {
            Some(earlier) => earlier.clone().then(key, change.clone()),
            None => Ok(change.clone()),
        }
    }

    fn snapshot(&self, own: Option<LayerId>) -> StateMap {
        let mut state = self.session.state().clone();
        let seen = self.layers.iter().filter(|layer| layer.seen_by == Seen::ByAll || Some(layer.id) == own);
        let keys: BTreeSet<_> = seen.flat_map(|layer| layer.changes.keys()).collect();
        for key in keys {
            let change = self.value(own, key).map_or(Change::Remove, |value| Change::Set(value.into_owned()));
            state.apply_change(key, &change);
        }
        state
    }
}
