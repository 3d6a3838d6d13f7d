//! Checks the limit on the number of keys, for each scope to which a commit adds keys.

use rusqlite::params_from_iter;

use super::error::Fallible;
use super::transaction::Tx;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::session::{SessionKey, StateOwner};
use scratchbook_core::state::Scope;

/// The owner of the keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeysAddress<'a> {
    pub(super) app: &'a str,
    pub(super) user: &'a str,
    pub(super) session: &'a str,
}

impl<'a> KeysAddress<'a> {
    /// Returns the columns that identify the owner of keys in a scope.
    pub(super) fn columns(self, scope: Scope) -> impl Iterator<Item = &'a str> {
        let count = match scope {
            Scope::Session => 3,
            Scope::User => 2,
            _ => 1,
        };
        [self.app, self.user, self.session].into_iter().take(count)
    }
}

impl<'a> From<&'a SessionKey> for KeysAddress<'a> {
    fn from(key: &'a SessionKey) -> Self {
        Self { app: key.app_name(), user: key.user_id(), session: key.session_id() }
    }
}

impl<'a> From<&'a StateOwner> for KeysAddress<'a> {
    fn from(owner: &'a StateOwner) -> Self {
        Self { app: owner.app_name(), user: owner.user_id().unwrap_or_default(), session: "" }
    }
}

/// How the changes written so far affect the number of keys of each scope.
#[derive(Debug, Default)]
pub(super) struct GrowthByScope<'a> {
    session: KeyGrowth<'a>,
    user: KeyGrowth<'a>,
    app: KeyGrowth<'a>,
}

/// The change in the number of keys of one scope, and the last key that was added.
#[derive(Debug, Default)]
struct KeyGrowth<'a> {
    more: i64,
    new: &'a str,
}

impl<'a> GrowthByScope<'a> {
    /// Records a change of a key; `was_there` says whether the key existed before.
    pub(super) fn add(&mut self, change: &'a TextChange, was_there: bool) {
        let keys = match change.scope {
            Scope::Session => &mut self.session,
            Scope::User => &mut self.user,
            _ => &mut self.app,
        };
        match (change.value.is_some(), was_there) {
            (true, false) => (keys.more, keys.new) = (keys.more + 1, &change.name),
            (false, true) => keys.more -= 1,
            _ => {}
        }
    }

    /// Refuses the commit if a scope gains keys and then has more than the limit.
    pub(super) fn check(&self, tx: &Tx<'_>, of: KeysAddress<'_>, limits: &Limits) -> Fallible<()> {
        for (scope, keys) in [(Scope::Session, &self.session), (Scope::User, &self.user), (Scope::App, &self.app)] {
            if keys.more < 0
                && let Some(bound) = tx.counts().bound(of, scope)
            {
                // Otherwise, a commit that removes and adds keys by turns would count all keys each time.
                tx.counts().set_bound(of, scope, bound.saturating_sub(keys.more.unsigned_abs()));
            }
            if keys.more <= 0 || limits.keys_per_scope == u64::MAX {
                continue;
            }
            let more = keys.more.unsigned_abs();
            let after = match tx.counts().bound(of, scope) {
                Some(bound) if bound + more <= limits.keys_per_scope => bound + more,
                _ => {
                    let after = count(tx, of, scope)?;
                    limits.check_keys(scope, keys.new, after.saturating_sub(more), after)?;
                    after
                }
            };
            tx.counts().set_bound(of, scope, after);
        }
        Ok(())
    }
}

/// Counts the keys of a scope.
fn count(tx: &Tx<'_>, of: KeysAddress<'_>, scope: Scope) -> Fallible<u64> {
    let mut statement = tx.prepare(match scope {
        Scope::Session => {
            "SELECT count(value) FROM session_states WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3"
        }
        Scope::User => "SELECT count(value) FROM user_states WHERE app_name = ?1 AND user_id = ?2",
        _ => "SELECT count(value) FROM app_states WHERE app_name = ?1",
    })?;
    let count: i64 = statement.query_row(params_from_iter(of.columns(scope)), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
