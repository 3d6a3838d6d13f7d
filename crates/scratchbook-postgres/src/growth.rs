//! The limit on the number of keys in a scope.
//!
//! A statement that writes keys counts the rows of each scope, including those of removed keys, and fails if there are
//! more than the limit allows. The check costs nothing if there is room. Only if it fails is the write repeated, in a
//! transaction that counts the existing keys under its locks and reports what exceeds the limit.

use std::collections::{HashMap, HashSet};

use super::Postgres;
use super::lease::Lease;
use super::locks::{Owner, Wanted, param};
use super::read::column;
use scratchbook_core::error::Result;
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
    /// The maximum number of rows in a scope, for the statement that writes.
    pub(super) fn most_rows(self, limits: &Limits) -> i64 {
        match self {
            Self::Guarded => i64::try_from(limits.keys_per_scope).unwrap_or(i64::MAX),
            Self::Counted => i64::MAX,
        }
    }
}

impl Postgres {
    /// Checks writes one after the other, and refuses them if one leaves more keys in a scope than the limit allows.
    /// The owners of the keys are locked.
    pub(super) async fn check_growth(
        &self,
        lease: &Lease<'_>,
        owner: &Owner<'_>,
        limits: &Limits,
        writes: &[&[TextChange]],
    ) -> Attempt<()> {
        let changes = || writes.iter().flat_map(|changes| changes.iter());
        let names: HashSet<_> = changes().map(|change| (change.scope, change.name.as_str())).collect();
        let wanted = Wanted::new(names.into_iter());
        let rows = lease.all(&[wanted.step(owner, &self.statements.resolve)]).await?.pop().unwrap_or_default();
        let mut present = wanted.present(owner, &rows)?;
        for scope in [Scope::Session, Scope::User, Scope::App] {
            if changes().any(|change| change.scope == scope) {
                let count = self.count_keys(lease, owner, scope).await?;
                check_scope(limits, scope, count, &mut present, writes)?;
            }
        }
        Ok(())
    }

    async fn count_keys(&self, lease: &Lease<'_>, owner: &Owner<'_>, scope: Scope) -> Attempt<u64> {
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

fn check_scope<'a>(
    limits: &Limits,
    scope: Scope,
    mut count: u64,
    present: &mut HashMap<(Scope, &'a str), bool>,
    writes: &[&'a [TextChange]],
) -> Result<()> {
    for changes in writes {
        let (before, mut new) = (count, "");
        for change in changes.iter().filter(|change| change.scope == scope) {
            let is_set = change.value.is_some();
            let was_set = present.insert((scope, &change.name), is_set).unwrap_or_default();
            match (is_set, was_set) {
                (true, false) => (count, new) = (count + 1, &change.name),
                (false, true) => count = count.saturating_sub(1),
                _ => {}
            }
        }
        limits.check_keys(scope, new, before, count)?;
    }
    Ok(())
}
