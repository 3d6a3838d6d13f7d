//! Changes to keys, as arrays for a statement.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;

use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::session::StateOwner;
use scratchbook_core::state::Scope;

/// How much a write adds to the state of a scope at most: keys that get a value, and the bytes of these keys and values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Added {
    pub(super) keys: i64,
    pub(super) bytes: i64,
}

impl Added {
    /// Adds a change, as if the key had no value before.
    pub(super) fn add(&mut self, change: &TextChange) {
        if let Some(value) = &change.value {
            self.keys += 1;
            self.bytes += (change.name.len() + value.len()) as i64;
        }
    }
}

/// The owner of a key: app, user and session. The last two are empty if they do not apply.
pub(super) type OwnerColumns<'a> = [&'a str; 3];

/// The changes of one statement, in columns.
#[derive(Debug, Default)]
pub(super) struct ChangeColumns<'a> {
    /// The row of `written` that each change belongs to.
    ords: Vec<i64>,
    scopes: Vec<&'static str>,
    /// A number from 1 for each key; changes to one key have the same number.
    slots: Vec<i64>,
    keys: Vec<&'a str>,
    values: Vec<Option<&'a str>>,
    known: HashMap<(Scope, OwnerColumns<'a>, &'a str), i64>,
    /// The last change of each slot.
    last: Vec<&'a TextChange>,
}

impl<'a> ChangeColumns<'a> {
    pub(super) fn add(&mut self, ord: i64, [app, user, session]: OwnerColumns<'a>, changes: &'a [TextChange]) {
        for change in changes {
            let owner = match change.scope {
                Scope::Session => [app, user, session],
                Scope::User => [app, user, ""],
                Scope::App => [app, "", ""],
                Scope::Temp => continue,
            };
            let next = self.known.len() as i64 + 1;
            let slot = *self.known.entry((change.scope, owner, change.name.as_str())).or_insert(next);
            if slot == next {
                self.last.push(change);
            } else {
                self.last[slot as usize - 1] = change;
            }
            self.ords.push(ord);
            self.scopes.push(change.scope.as_str());
            self.slots.push(slot);
            self.keys.push(&change.name);
            self.values.push(change.value.as_deref());
        }
    }

    /// Returns how much all changes together add to a scope, in a statement that changes one session, user and app.
    pub(super) fn added(&self, scope: Scope) -> Added {
        let mut added = Added::default();
        for change in self.last.iter().filter(|change| change.scope == scope) {
            added.add(change);
        }
        added
    }

    /// Returns the first five parameters of a statement.
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.ords, &self.scopes, &self.slots, &self.keys, &self.values]
    }
}

/// Returns the owner of keys that do not belong to a session.
pub(super) fn owner(owner: &StateOwner) -> OwnerColumns<'_> {
    [owner.app_name(), owner.user_id().unwrap_or_default(), ""]
}
