//! The limit on the number of keys, which is counted if the procedure has reported that it may be exceeded.

use std::collections::{HashMap, HashSet};

use super::locks::SCOPES;
use super::write::Answer;
use scratchbook_core::error::Result;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::state::Scope;

/// How many keys each scope has, and which of the keys to write are among them.
#[derive(Debug, Default)]
pub(super) struct Growth<'a> {
    counts: HashMap<Scope, u64>,
    present: HashSet<(Scope, &'a str)>,
}

impl<'a> Growth<'a> {
    /// Creates the counts from the answers of a lock that has read these keys.
    pub(super) fn new(reads: &[(Scope, &'a str)], answers: &[Answer]) -> Self {
        let mut growth = Self::default();
        for answer in answers {
            match answer {
                Answer::Count { scope, keys } => drop(growth.counts.insert(*scope, keys.unsigned_abs())),
                Answer::Key { scope, place, name: None, value: Some(_), .. } => {
                    let name = reads.iter().filter(|(of, _)| of == scope).nth(*place);
                    growth.present.extend(name.map(|(_, name)| (*scope, *name)));
                }
                _ => {}
            }
        }
        growth
    }

    /// Counts changes that follow the earlier ones, and refuses them if they exceed the limit and add keys.
    pub(super) fn add(&mut self, changes: impl IntoIterator<Item = &'a TextChange>, limits: &Limits) -> Result<()> {
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
        for scope in SCOPES {
            if let Some(name) = new.get(&scope) {
                let count = |counts: &HashMap<Scope, u64>| counts.get(&scope).copied().unwrap_or_default();
                limits.check_keys(scope, name, count(&before), count(&self.counts))?;
            }
        }
        Ok(())
    }
}
