//! The limits on the state of a scope: its keys and their bytes.
//!
//! The row of a session, user or app counts the keys that have a value, and their bytes. A statement that writes keys
//! compares these numbers, which are current under its locks, with what the write adds at most. What may not fit is not
//! written, and then written by a transaction that first reads how large the keys are.

use std::collections::HashSet;

use super::Postgres;
use super::lease::{BoundStatement, Lease};
use super::locks::{KeyOwner, KeysToRead, param};
use super::read::column;
use scratchbook_core::plan::growth::Growth;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::state::Scope;
use scratchbook_database::Attempt;

/// How the limits of a scope are enforced for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateLimit {
    /// The writing statement writes only what certainly fits.
    Enforced,
    /// The transaction has found out that the write fits.
    Checked,
}

impl StateLimit {
    /// Returns the maximum number of keys and bytes of a scope, for the statement that writes.
    pub(super) fn most(self, limits: &Limits) -> (i64, i64) {
        match self {
            Self::Enforced => {
                let keys = i64::try_from(limits.keys_per_scope).unwrap_or(i64::MAX);
                (keys, i64::MAX)
            }
            Self::Checked => (i64::MAX, i64::MAX),
        }
    }
}

impl Postgres {
    /// Checks writes one after the other, and refuses them if one takes a scope beyond a limit and makes it larger. The
    /// caller has locked the owners of the keys.
    pub(super) async fn check_growth(
        &self,
        lease: &Lease<'_>,
        owner: &KeyOwner<'_>,
        limits: &Limits,
        writes: &[&[TextChange]],
    ) -> Attempt<()> {
        let statements = &self.statements.room;
        let changes = || writes.iter().flat_map(|changes| changes.iter());
        let names: HashSet<_> = changes().map(|change| (change.scope, change.name.as_str())).collect();
        let wanted = KeysToRead::new(names.into_iter(), std::iter::empty());
        let scopes = [Scope::Session, Scope::User, Scope::App].into_iter();
        let scopes: Vec<_> = scopes.filter(|scope| changes().any(|change| change.scope == *scope)).collect();
        let mut steps = Vec::with_capacity(4);
        for scope in &scopes {
            steps.push(match scope {
                Scope::Session => {
                    BoundStatement::new(&statements.of_session, [param(&owner.app), &owner.user, &owner.session])
                }
                Scope::User => BoundStatement::new(&statements.of_user, [param(&owner.app), &owner.user]),
                _ => BoundStatement::new(&statements.of_app, [param(&owner.app)]),
            });
        }
        steps.extend(wanted.steps(owner, &self.statements.resolve));
        let mut answers = lease.all(&steps).await?;
        let keys = answers.pop().unwrap_or_default();
        let mut growth = Growth::default();
        wanted.present(owner, &keys, &mut growth)?;
        let place = || format!("the size of the state of {}/{}", owner.app, owner.user);
        for (scope, rows) in scopes.iter().zip(&answers) {
            // Who has no row has no keys.
            if let Some(row) = rows.first() {
                let number = |index| rows::number(column(row, index, place)?, place);
                growth.set_count(*scope, number(0)?);
            }
        }
        for changes in writes {
            growth.add(*changes, limits)?;
        }
        Ok(())
    }
}
