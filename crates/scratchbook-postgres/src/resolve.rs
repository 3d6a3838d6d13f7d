//! Writes that depend on stored data: they lock and read first, in the transaction that writes.
//!
//! The first round trip locks and reads, and the second writes and commits. The first takes all locks that the write
//! needs, in the order of all writers, so that the values that were read do not change until the commit. The reads
//! follow all locks, so they see the commits that the locks have waited for.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::Postgres;
use super::events::AppendEnd;
use super::growth::StateLimit;
use super::lease::{BoundStatement, Lease};
use super::locks::{KeyOwner, KeysToRead, param};
use super::read::column;
use super::sessions::updated;
use super::state::StateWrite;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{PreparedSession, PreparedState};
use scratchbook_core::plan::resolve::Found;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::session::{LogPositions, SessionKey, StateOwner};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{AppendRow, Attempt, NewAppend, ResolvedWrites, Unresolved};

#[async_trait]
impl ResolvedWrites for Postgres {
    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        match self.append_resolved_by(new, StateLimit::Enforced).await {
            Ok((AppendRow::Full, _)) => self.append_resolved_by(new, StateLimit::Checked).await,
            done => done,
        }
    }

    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        self.create_resolved_by(new, token).await
    }

    async fn put_resolved(&self, of: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64> {
        if let Some(position) = self.put_resolved_by(of, new, author, time, StateLimit::Enforced).await? {
            return Ok(position);
        }
        let position = self.put_resolved_by(of, new, author, time, StateLimit::Checked).await?;
        Ok(position.ok_or_else(|| Error::internal("a change that fits was not written"))?)
    }
}

impl Postgres {
    async fn append_resolved_by(&self, new: &Unresolved, limit: StateLimit) -> Attempt<(AppendRow, Event)> {
        let Unresolved { key, prepared, options } = new;
        let owner = KeyOwner::of_session(key);
        let event = &prepared.event;
        let reads = prepared.reads(options).map(|change| (change.scope, change.name.as_str()));
        let wanted = KeysToRead::new(reads, prepared.reads_scopes(options));
        let statements = &self.statements.resolve;
        let now = self.now();
        let lock = [param(&owner.app), &owner.user, &owner.session, &now];
        let mut steps = vec![BoundStatement::new(&statements.lock_session, lock)];
        steps.extend(owner.locks(self, prepared.changes.iter().map(|change| change.scope)));
        let reads = steps.len();
        steps.push(BoundStatement::new(&statements.known, [param(&owner.app), &owner.user, &owner.session, &event.id]));
        steps.extend(wanted.steps(&owner, statements));
        steps.extend(prepared.update.iter().map(|_| owner.fields(self, &now)));
        let lease = self.connections.lease().await?;
        let mut answers = lease.begin_with(&steps).await?;
        let mut read = answers.split_off(reads);
        let fields = prepared.update.as_ref().and_then(|_| read.pop());
        let Some(row) = answers.first().and_then(|session| session.first()) else {
            return Ok((AppendRow::NoSession, event.clone()));
        };
        let [known, read @ ..] = read.as_slice() else {
            return Err(Error::internal("a statement was not answered").into());
        };
        if let Some(row) = known.first() {
            let known = known_event(row, key, &event.id)?;
            // This commit makes sure that a synchronous standby has the earlier attempt's event before the event is
            // acknowledged.
            lease.commit().await?;
            return Ok((known, event.clone()));
        }
        let place = || format!("the session {key}");
        let mut found =
            Found::new(rows::number(column(row, 0, place)?, place)?).with_create_time(column(row, 1, place)?);
        wanted.found(&owner, read, &mut found)?;
        let resolved = match prepared.resolve(options, &found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        let append = NewAppend { key: key.clone(), event: NewEvent::new(resolved)? };
        if limit == StateLimit::Checked {
            self.check_growth(&lease, &owner, &prepared.limits, &[&append.event.changes]).await?;
        }
        let fields = fields.as_ref().and_then(|rows| rows.first());
        let row = self.append_with_update(&lease, &append, fields, limit).await?;
        Ok((row, append.event.prepared.event))
    }

    /// Appends an event to a locked session and commits. If the event comes with an update of the session, the update
    /// is applied to these fields in the same transaction.
    async fn append_with_update(
        &self,
        lease: &Lease<'_>,
        append: &NewAppend,
        fields: Option<&Row>,
        limit: StateLimit,
    ) -> Attempt<AppendRow> {
        let unanswered = || Error::internal("an append was not answered");
        let Some(update) = &append.event.prepared.update else {
            return Ok(self
                .append_on(lease, &[append], limit, AppendEnd::Commit)
                .await?
                .pop()
                .ok_or_else(unanswered)?);
        };
        let updated = updated(fields.ok_or_else(unanswered)?, &append.key, update)?;
        let row = self.append_on(lease, &[append], limit, AppendEnd::Open).await?.pop().ok_or_else(unanswered)?;
        // If the event was not stored, nothing was written, and the transaction ends with the lease.
        if matches!(row, AppendRow::Stored { .. }) {
            self.update_last(lease, &append.key, &updated).await?;
        }
        Ok(row)
    }

    async fn create_resolved_by(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        let owner = KeyOwner::of_session(&new.key);
        let statements = &self.statements.resolve;
        let lease = self.connections.lease().await?;
        if let Some(is_made) = self.begin_creation(&lease, &new.key, new.id_scope, token).await? {
            return Ok(is_made);
        }
        let changes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        let wanted = KeysToRead::new(new.reads().into_iter(), new.reads_scopes());
        // A creation always locks its user.
        let mut steps = owner.locks(self, changes.map(|change| change.scope).chain([Scope::User]));
        let reads = steps.len();
        steps.extend(wanted.steps(&owner, statements));
        let read = lease.all(&steps).await?.split_off(reads);
        let mut found = Found::new(0);
        wanted.found(&owner, &read, &mut found)?;
        let resolved = match new.clone().resolve(found) {
            Ok(resolved) => NewSession::new(resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        self.create_free(&lease, &resolved, token).await
    }

    async fn put_resolved_by(
        &self,
        of: &StateOwner,
        new: &PreparedState,
        author: &str,
        time: f64,
        limit: StateLimit,
    ) -> Attempt<Option<u64>> {
        let owner = KeyOwner::of_state(of);
        let statements = &self.statements.resolve;
        let reads = new.reads().map(|change| (change.scope, change.name.as_str()));
        let wanted = KeysToRead::new(reads, new.reads_scopes());
        let mut steps = owner.locks(self, [of.scope()].into_iter());
        let reads = steps.len();
        steps.extend(wanted.steps(&owner, statements));
        let lease = self.connections.lease().await?;
        let read = lease.begin_with(&steps).await?.split_off(reads);
        let mut found = Found::new(0);
        wanted.found(&owner, &read, &mut found)?;
        let resolved = match new.resolve(&found) {
            Ok(resolved) => TextChange::all(&resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        if limit == StateLimit::Checked {
            self.check_growth(&lease, &owner, &new.limits, &[&resolved]).await?;
        }
        let write = StateWrite { changes: &resolved, most: limit.most(&new.limits), author, time };
        self.put_on(&lease, of, &write).await
    }
}

/// Returns the answer to a retry whose event is already stored.
fn known_event(row: &Row, key: &SessionKey, id: &str) -> Result<AppendRow> {
    let place = || format!("the event {id} of {key}");
    let logs = LogPositions::of_feed(rows::number(column(row, 3, place)?, place)?);
    Ok(AppendRow::Duplicate {
        seq: column(row, 0, place)?,
        text: column(row, 1, place)?,
        hash: column(row, 2, place)?,
        logs,
    })
}
