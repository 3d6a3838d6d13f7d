//! The state of a user or an app, and its log.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::commit::KeyChange;
use crate::plan::room::key_bytes;
use crate::session::{SessionKey, StateChange};
use crate::state::{Change, ScopeMap};

/// The state of a user or an app, and the log of which the state is the fold.
#[derive(Debug, Default)]
pub(super) struct OwnedState {
    pub(super) values: ScopeMap,
    /// The size of the keys and values in `values`.
    pub(super) bytes: u64,
    /// Every key ever written.
    pub(super) versions: HashMap<Arc<str>, KeyVersion>,
    pub(super) log: Vec<Logged>,
    /// The log was pruned below this position.
    pub(super) pruned: u64,
}

/// The version of a key.
#[derive(Debug)]
pub(super) struct KeyVersion {
    /// The key's name, shared with the log.
    name: Arc<str>,
    version: u64,
    /// The position of the last write.
    pub(super) position: u64,
}

/// A logged change. It shares the value with the state, and the names with other changes.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) position: u64,
    pub(super) name: Arc<str>,
    version: u64,
    pub(super) value: Option<Arc<Value>>,
    pub(super) origin: Option<(SessionKey, u64)>,
    event_id: String,
    pub(super) author: Arc<str>,
    time: f64,
}

/// The origin of a write as logged, without the change itself.
pub(super) struct Origin<'a> {
    pub(super) position: u64,
    pub(super) session: Option<(&'a SessionKey, u64)>,
    pub(super) event_id: &'a str,
    pub(super) author: &'a str,
    pub(super) time: f64,
}

impl OwnedState {
    /// Applies changes to keys of this owner, which are resolved.
    pub(super) fn change_all<'c>(&mut self, changes: impl IntoIterator<Item = &'c KeyChange>, origin: &Origin<'_>) {
        changes.into_iter().for_each(|change| self.change(&change.name, &change.change, origin));
    }

    /// Applies a resolved change.
    pub(super) fn change(&mut self, name: &str, change: &Change, origin: &Origin<'_>) {
        let value = change.value().map(|value| Arc::new(value.clone()));
        let before = self.values.get(name).map_or(0, |value| key_bytes(name, value));
        let after = value.as_ref().map_or(0, |value| key_bytes(name, value));
        self.bytes = self.bytes - before + after;
        let (name, version) = match self.versions.get_mut(name) {
            Some(known) => {
                (known.version, known.position) = (known.version + 1, origin.position);
                (Arc::clone(&known.name), known.version)
            }
            None => {
                let name: Arc<str> = name.into();
                let new = KeyVersion { name: Arc::clone(&name), version: 1, position: origin.position };
                self.versions.insert(Arc::clone(&name), new);
                (name, 1)
            }
        };
        match &value {
            None => drop(self.values.remove(&name)),
            Some(value) => match self.values.get_mut(&name) {
                Some(known) => *known = Arc::clone(value),
                None => drop(self.values.insert(Arc::clone(&name), Arc::clone(value))),
            },
        }
        let author = self.log.last().map(|last| &last.author).filter(|last| ***last == *origin.author);
        self.log.push(Logged {
            position: origin.position,
            name,
            version,
            value,
            origin: origin.session.map(|(key, seq)| (key.clone(), seq)),
            event_id: origin.event_id.to_owned(),
            author: author.map_or_else(|| origin.author.into(), Arc::clone),
            time: origin.time,
        });
    }

    /// Returns the position of the last write to a key, 0 if there was none.
    pub(super) fn written_at(&self, name: &str) -> u64 {
        self.versions.get(name).map_or(0, |version| version.position)
    }
}

impl Logged {
    pub(super) fn change(&self) -> StateChange {
        let value = self.value.as_deref().cloned();
        let change = StateChange::new(self.position, self.name.as_ref(), self.version, value);
        let change = change.with_author(self.author.as_ref(), self.time);
        match &self.origin {
            Some((key, seq)) => change.with_origin(key.clone(), *seq, &self.event_id),
            None => StateChange { event_id: self.event_id.clone(), ..change },
        }
    }
}
