//! The limit on the number of keys in a scope.
//!
//! A statement that writes keys counts the rows of each scope, including those of removed keys, and fails if there are
//! more than the limit allows. The check costs nothing if there is room. If it fails, the write is repeated in a
//! transaction, which counts the existing keys under its locks and reports what exceeds the limit.

use std::collections::HashSet;

use super::Postgres;
use super::lease::Lease;
use super::locks::{KeyOwner, KeysToRead, param};
use super::read::column;
use scratchbook_core::plan::growth::Growth;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::state::Scope;
use scratchbook_database::Attempt;

/// How the limit on keys is enforced for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLimit {
    /// The writing statement enforces it.
    Guarded,
    /// The keys were counted before.
    Counted,
}

impl KeyLimit {
    /// Returns the maximum number of rows in a scope, for the statement that writes.
    pub(super) fn most_rows(self, limits: &Limits) -> i64 {
        match self {
            Self::Guarded => i64::try_from(limits.keys_per_scope).unwrap_or(i64::MAX),
            Self::Counted => i64::MAX,
        }
    }
}

impl Postgres {
    /// Checks writes one after the other, and refuses them if one leaves more keys in a scope than the limit allows.
    /// The caller has locked the owners of the keys.
    pub(super) async fn check_growth(
        &self,
        lease: &Lease<'_>,
        owner: &KeyOwner<'_>,
        limits: &Limits,
        writes: &[&[TextChange]],
    ) -> Attempt<()> {
        let changes = || writes.iter().flat_map(|changes| changes.iter());
        let names: HashSet<_> = changes().map(|change| (change.scope, change.name.as_str())).collect();
        let wanted = KeysToRead::new(names.into_iter(), std::iter::empty());
        let steps: Vec<_> = wanted.steps(owner, &self.statements.resolve).collect();
        let rows = lease.all(&steps).await?.pop().unwrap_or_default();
        let mut growth = Growth::default();
        wanted.present(owner, &rows, &mut growth)?;
        for scope in [Scope::Session, Scope::User, Scope::App] {
            if changes().any(|change| change.scope == scope) {
                growth.set_count(scope, self.count_keys(lease, owner, scope).await?);
            }
        }
        for changes in writes {
            growth.add(*changes, limits)?;
        }
        Ok(())
    }

    async fn count_keys(&self, lease: &Lease<'_>, owner: &KeyOwner<'_>, scope: Scope) -> Attempt<u64> {
        let statements = &self.statements.resolve;
        let rows = match scope {
            Scope::Session => lease.query(&statements.count_own, &[&owner.app, &owner.user, &owner.session]).await?,
            Scope::User => lease.query(&statements.count_user, &[param(&owner.app), &owner.user]).await?,
            _ => lease.query(&statements.count_app, &[&owner.app]).await?,
        };
        let place = || format!("the number of keys of {}/{}", owner.app, owner.user);
        let row = rows.first().ok_or_else(|| rows::damaged(place()))?;
        Ok(rows::number(column(row, 0, place)?, place)?)
    }
}
