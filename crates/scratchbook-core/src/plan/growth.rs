//! The limit on the number of keys of a scope, for stores that count them only if a write may exceed it.

use std::collections::{HashMap, HashSet};

use super::limits::Limits;
use super::sql::text::TextChange;
use crate::error::Result;
use crate::state::Scope;

/// The number of keys in each scope, and which of the keys to be written exist already.
#[derive(Debug, Default)]
pub struct Growth<'a> {
    counts: HashMap<Scope, u64>,
    present: HashSet<(Scope, &'a str)>,
}

impl<'a> Growth<'a> {
    /// Sets the number of keys of a scope.
    pub fn set_count(&mut self, scope: Scope, keys: u64) {
        self.counts.insert(scope, keys);
    }

    /// Records that a key has a value.
    pub fn set_present(&mut self, scope: Scope, name: &'a str) {
        self.present.insert((scope, name));
    }

    /// Counts further changes.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` if they add keys to a scope that then has more than the limit.
    pub fn add(&mut self, changes: impl IntoIterator<Item = &'a TextChange>, limits: &Limits) -> Result<()> {
        let before = self.counts.clone();
        let mut new = HashMap::new();
        for TextChange { scope, name, value } in changes {
            let count = self.counts.entry(*scope).or_default();
            let key = (*scope, name.as_str());
            match value {
                Some(_) if self.present.insert(key) => {
                    *count += 1;
                    new.insert(*scope, name);
                }
                None if self.present.remove(&key) => *count = count.saturating_sub(1),
                _ => {}
            }
        }
        for scope in [Scope::Session, Scope::User, Scope::App] {
            if let Some(name) = new.get(&scope) {
                let count = |counts: &HashMap<Scope, u64>| counts.get(&scope).copied().unwrap_or_default();
                limits.check_keys(scope, name, count(&before), count(&self.counts))?;
            }
        }
        Ok(())
    }
}
