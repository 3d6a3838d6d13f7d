//! The state of one invocation: the committed state, and changes that are committed with a later event.
//!
//! Every callback and every tool call writes to its own layer. A callback's layer is visible to all readers at
//! once. A tool call's layer becomes visible when the call has succeeded. When the event that carries a layer is
//! committed, the layer is removed and its changes are part of the committed state. If the event is never committed,
//! the changes are lost.
//!
//! A read through a layer returns the layer's own change to the key, if there is one. Otherwise it returns a change by
//! another layer of the same event, such as an earlier callback's. If there is no such change either, it returns the
//! newest of the committed value and the changes pending for other events.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use serde_json::Value;

use super::layer_group::LayerGroup;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::session::{Committed, Session};
use scratchbook_core::state::{Change, Scope, StateDelta, StateMap, resolve};

/// The state of a running invocation, shared by all its agents.
#[derive(Debug)]
pub(crate) struct InvocationState {
    inner: Mutex<StateLayers>,
}

#[derive(Debug)]
struct StateLayers {
    session: Session,
    layers: Vec<Layer>,
    /// Counts writes, to find the later of two pending changes.
    writes: u64,
    /// The number of layers opened so far.
    opened: u64,
}

#[derive(Debug)]
struct Layer {
    id: LayerId,
    event_id: String,
    changes: IndexMap<String, PendingChange>,
    visibility: Visibility,
    group: Option<Arc<LayerGroup>>,
    /// Whether the layer's event is complete, so that it takes no more changes.
    is_sealed: bool,
}

impl Layer {
    fn delta(&self) -> Result<StateDelta> {
        let mut delta = StateDelta::new();
        for (key, pending) in &self.changes {
            delta.insert(key.clone(), pending.change.clone())?;
        }
        Ok(delta)
    }
}

/// A change that is not committed yet.
#[derive(Debug)]
struct PendingChange {
    change: Change,
    /// The number of the write that made the change.
    stamp: u64,
    /// Whether a newer value has been committed since. If so, other events see the committed value.
    is_outdated: bool,
}

impl PendingChange {
    /// Returns whether other events see the change. They always see an operation, since it applies to any committed
    /// value.
    fn is_news(&self) -> bool {
        !self.is_outdated || self.change.operations().is_some()
    }
}

/// Who can read the uncommitted changes of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Every reader.
    Everyone,
    /// Only a read through the layer itself.
    OwnLayer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerId(u64);

impl InvocationState {
    pub(crate) fn new(session: Session) -> Self {
        Self { inner: Mutex::new(StateLayers { session, layers: Vec::new(), writes: 0, opened: 0 }) }
    }

    /// Returns the session as committed so far.
    pub(crate) fn session(&self) -> Session {
        self.lock().session.clone()
    }

    /// Returns the present state, as a reader without a layer sees it.
    pub(crate) fn snapshot(&self) -> StateMap {
        self.lock().snapshot(None)
    }

    /// Returns the present state, as a read through this layer sees it.
    pub(crate) fn snapshot_of(&self, layer: LayerId) -> StateMap {
        self.lock().snapshot(Some(layer))
    }

    /// Opens a layer for changes that an event will carry. If the group is closed, the layer is not kept.
    pub(crate) fn open(&self, event_id: &str, visibility: Visibility, group: Option<&Arc<LayerGroup>>) -> LayerId {
        let mut inner = self.lock();
        inner.opened += 1;
        let id = LayerId(inner.opened);
        if group.is_none_or(|group| !group.is_closed()) {
            let (event_id, group) = (event_id.to_owned(), group.cloned());
            let changes = IndexMap::new();
            inner.layers.push(Layer { id, event_id, changes, visibility, group, is_sealed: false });
        }
        id
    }

    /// Drops all layers of a group and of the groups inside it. No layer can be opened in them afterwards.
    pub(crate) fn close(&self, group: &LayerGroup) {
        let mut inner = self.lock();
        group.close();
        inner.layers.retain(|layer| layer.group.as_ref().is_none_or(|group| !group.is_closed()));
    }

    /// Makes a layer's changes visible to everyone.
    pub(crate) fn publish(&self, layer: LayerId) {
        if let Some(layer) = self.lock().layer(layer) {
            layer.visibility = Visibility::Everyone;
        }
    }

    /// Moves a layer to another event.
    pub(crate) fn carry(&self, layer: LayerId, event_id: &str) {
        if let Some(layer) = self.lock().layer(layer) {
            event_id.clone_into(&mut layer.event_id);
            layer.is_sealed = false;
        }
    }

    /// Drops a layer and its changes.
    pub(crate) fn discard(&self, layer: LayerId) {
        self.lock().layers.retain(|other| other.id != layer);
    }

    /// Drops a layer and its changes, and opens an empty one in its place. Late writes to the old layer are refused.
    pub(crate) fn replace(&self, layer: LayerId) -> LayerId {
        let mut inner = self.lock();
        inner.opened += 1;
        let id = LayerId(inner.opened);
        if let Some(layer) = inner.layer(layer) {
            layer.id = id;
            layer.changes.clear();
            layer.is_sealed = false;
        }
        id
    }

    /// Drops a layer's changes and keeps the layer.
    pub(crate) fn clear(&self, layer: LayerId) {
        if let Some(layer) = self.lock().layer(layer) {
            layer.changes.clear();
        }
    }

    /// Returns the changes of a layer.
    pub(crate) fn delta(&self, layer: LayerId) -> Result<StateDelta> {
        self.lock().layer(layer).map_or(Ok(StateDelta::new()), |layer| layer.delta())
    }

    /// Returns the changes of a layer whose event is complete. Later writes to the layer are refused, because the event
    /// would be committed without them.
    pub(crate) fn sealed_delta(&self, layer: LayerId) -> Result<StateDelta> {
        let mut inner = self.lock();
        let Some(layer) = inner.layer(layer) else { return Ok(StateDelta::new()) };
        layer.is_sealed = true;
        layer.delta()
    }

    /// Reads a key by the rule in this module's documentation. For an operation, the result of applying it is returned.
    pub(crate) fn get(&self, layer: LayerId, key: &str) -> Option<Value> {
        self.lock().value(Some(layer), key).map(Cow::into_owned)
    }

    /// Writes to a layer, either the whole delta or nothing.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the layer's event is complete, committed or dropped, or if its call has failed. An
    /// operation that does not apply to the value this layer sees fails with its own error.
    pub(crate) fn write(&self, layer: LayerId, delta: &StateDelta) -> Result<()> {
        let mut inner = self.lock();
        let mut changes = Vec::with_capacity(delta.len());
        for (key, change) in delta.iter() {
            changes.push((key.to_owned(), inner.after(layer, key, change)?));
        }
        let mut stamp = inner.writes;
        let layer = inner.open_layer(layer)?;
        for (key, change) in changes {
            stamp += 1;
            layer.changes.insert(key, PendingChange { change, stamp, is_outdated: false });
        }
        inner.writes = stamp;
        Ok(())
    }

    /// Refuses actions for a layer that takes no more changes.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition`, as for [`write`](Self::write).
    pub(crate) fn check_open(&self, layer: LayerId) -> Result<()> {
        self.lock().open_layer(layer).map(|_| ())
    }

    /// Returns the delta as a piece of a streamed answer shows it: operations are replaced by their results on the
    /// committed state. Their final results are known only when the whole answer is committed.
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

    /// Applies a committed event and its `temp:` changes, and removes the event's layers.
    pub(crate) fn committed(&self, committed: &Committed, temp: &StateDelta) {
        let mut inner = self.lock();
        inner.session.apply(committed, temp);
        inner.layers.retain(|layer| layer.event_id != committed.event.id);
        inner.outdate(committed.event.actions.state_delta.iter().chain(temp.iter()).map(|(key, _)| key));
    }

    /// Returns whether a layer has changes to `temp:` keys only.
    pub(crate) fn is_temp_alone(&self, layer: LayerId) -> bool {
        let mut inner = self.lock();
        inner.layer(layer).is_none_or(|layer| layer.changes.keys().all(|key| Scope::split(key).0 == Scope::Temp))
    }

    /// Applies a layer that has only `temp:` changes and that no event will carry.
    ///
    /// # Errors
    ///
    /// The error of an operation among the changes that does not apply.
    pub(crate) fn keep_temp(&self, layer: LayerId) -> Result<()> {
        let delta = self.delta(layer)?;
        let mut inner = self.lock();
        let delta = delta.resolve(|key| inner.session.state().get(key))?;
        inner.session.apply_temp(&delta);
        inner.layers.retain(|other| other.id != layer);
        inner.outdate(delta.iter().map(|(key, _)| key));
        Ok(())
    }

    /// Locks the state. A poisoned lock can be used, because no code panics halfway while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, StateLayers> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateLayers {
    fn layer(&mut self, id: LayerId) -> Option<&mut Layer> {
        self.layers.iter_mut().find(|layer| layer.id == id)
    }

    fn open_layer(&mut self, id: LayerId) -> Result<&mut Layer> {
        let message = "the event of this context is done; write within the callback or tool it was given to";
        let layer = self.layer(id).filter(|layer| !layer.is_sealed);
        layer.ok_or_else(|| Error::new(ErrorKind::FailedPrecondition, message))
    }

    /// Marks the pending changes to these keys as outdated, because a newer value has been committed.
    fn outdate<'k>(&mut self, keys: impl Iterator<Item = &'k str>) {
        for key in keys {
            for layer in &mut self.layers {
                if let Some(pending) = layer.changes.get_mut(key) {
                    pending.is_outdated = true;
                }
            }
        }
    }

    /// Returns a layer's own change to a key.
    fn own(&self, layer: LayerId, key: &str) -> Option<&Change> {
        let layer = self.layers.iter().find(|other| other.id == layer)?;
        layer.changes.get(key).map(|pending| &pending.change)
    }

    /// Returns the pending changes to a key that a layer sees. Changes of other events come first, from the oldest to
    /// the newest. The changes of the layer's own event follow, in the order in which the event will have them. Commits
    /// do not change this order.
    fn pending(&self, own: Option<LayerId>, key: &str) -> Vec<&Change> {
        let own = own.and_then(|own| self.layers.iter().find(|layer| layer.id == own));
        let mut others = Vec::new();
        let mut of_own_event = Vec::new();
        for layer in &self.layers {
            if layer.visibility != Visibility::Everyone || own.is_some_and(|own| own.id == layer.id) {
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

    /// Returns the value of a key for a read through the layer `own`, or for a reader without a layer if it is `None`.
    fn value(&self, own: Option<LayerId>, key: &str) -> Option<Cow<'_, Value>> {
        let mut value = self.session.state().get(key).map(Cow::Borrowed);
        for change in self.pending(own, key) {
            value = match change {
                // If an operation no longer applies because another writer changed the value, the commit refuses it.
                Change::Apply(operations) => match resolve(key, operations, value.as_deref()) {
                    Ok(Some(known)) => known.value().cloned().map(Cow::Owned),
                    Ok(None) | Err(_) => value,
                },
                known => known.value().map(Cow::Borrowed),
            };
        }
        value
    }

    /// Returns the layer's change to a key, combined with one more change. Operations must apply to the value that the
    /// layer sees.
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
        let seen = self.layers.iter().filter(|layer| layer.visibility == Visibility::Everyone || Some(layer.id) == own);
        let keys: BTreeSet<_> = seen.flat_map(|layer| layer.changes.keys()).collect();
        for key in keys {
            let change = self.value(own, key).map_or(Change::Remove, |value| Change::Set(value.into_owned()));
            state.apply_change(key, &change);
        }
        state
    }
}
