//! Writes that depend on stored data: one call locks and reads, and another writes and commits.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashSet};

use super::MySql;
use super::batch;
use super::growth::growth;
use super::lease::Lease;
use super::locks::{Lock, LockTarget, keep_out};
use super::procedure::{LimitCheck, ProcedureRow, TransactionStart, strange};
use super::row::{RowCells, address};
use super::state::position;
use super::unique_ids::{CreationStart, NewKey};
use async_trait::async_trait;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{KeyChange, PreparedSession, PreparedState};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::resolve::{Found, Refusal};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::session::{ConflictMode, SessionKey, StateOwner};
use scratchbook_core::state::Scope;
use scratchbook_database::{
    AppendRow, Attempt, CommitFate, Failure, Idempotency, NewAppend, ResolvedWrites, Unresolved,
};

#[async_trait]
impl ResolvedWrites for MySql {
    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        match self.append_in(new, LimitCheck::Unknown).await? {
            Some(appended) => Ok(appended),
            None => self
                .append_in(new, LimitCheck::Counted)
                .await?
                .ok_or_else(|| strange("no room where it was counted").into()),
        }
    }

    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        let changes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        let (scopes, shared) = locked_and_shared(changes.map(|change| (change.scope, change.name.as_str())));
        let key = NewKey { key: &new.key, scope: new.id_scope, token };
        for room in [LimitCheck::Unknown, LimitCheck::Counted] {
            let reads = match room {
                LimitCheck::Unknown => new.reads().into_iter().collect(),
                LimitCheck::Counted => shared.clone(),
            };
            let whole = new.reads_scopes().collect();
            let lock = Lock { token: Some(token), event: None, reads, whole, room };
            let resolve = |found| Ok(NewSession::new(new.clone().resolve(found)?)?);
            if let Some(is_made) = self.create_in(&key, &lock, &scopes, resolve).await? {
                return Ok(is_made);
            }
        }
        Err(strange("no room where it was counted").into())
    }

    async fn put_resolved(&self, of: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64> {
        for room in [LimitCheck::Unknown, LimitCheck::Counted] {
            let names = |change: &KeyChange| (change.scope, change.name.clone());
            let reads: Vec<_> = match room {
                LimitCheck::Unknown => new.reads().map(names).collect(),
                LimitCheck::Counted => new.changes.iter().map(names).collect(),
            };
            let reads: Vec<_> = reads.iter().map(|(scope, name)| (*scope, name.as_str())).collect();
            let lock = Lock { token: None, event: None, reads, whole: new.reads_scopes().collect(), room };
            let resolve = |found: &Found| Ok(TextChange::all(&new.resolve(found)?)?);
            if let Some(position) = self.put_in(of, &lock, resolve, &new.limits, author, time).await? {
                return Ok(position);
            }
        }
        Err(strange("no room where it was counted").into())
    }
}

impl MySql {
    /// Appends an event. Returns `None` if the keys have to be counted first.
    async fn append_in(&self, new: &Unresolved, room: LimitCheck) -> Attempt<Option<(AppendRow, Event)>> {
        let Unresolved { key, prepared, options } = new;
        let target = LockTarget::session(key);
        let names = |change: &'_ KeyChange| (change.scope, change.name.clone());
        let reads: Vec<_> = match room {
            LimitCheck::Unknown => prepared.reads(options).map(names).collect(),
            LimitCheck::Counted => prepared.changes.iter().map(names).collect(),
        };
        let reads: Vec<_> = reads.iter().map(|(scope, name)| (*scope, name.as_str())).collect();
        let whole = prepared.reads_scopes(options).collect();
        let lock = Lock { token: None, event: Some(&prepared.event.id), reads, whole, room };
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let scopes: Vec<_> = prepared.changes.iter().map(|change| change.scope).collect();
        let answers = self.lock(&mut lease, &target, &lock, &scopes, TransactionStart::Here).await?;
        let Some((seq, found)) = target.found(&lock.reads, &answers)? else {
            let row = match answers.into_iter().next() {
                Some(ProcedureRow::Missing { .. }) => AppendRow::NoSession,
                Some(ProcedureRow::Duplicate { known, .. }) => known.row(key)?,
                _ => return Err(strange("nothing for an append").into()),
            };
            return Ok(Some((row, prepared.event.clone())));
        };
        let mut resolved = prepared.resolve(options, &found);
        // Reading the creation time takes another round trip, which a refused write does not need.
        if resolved.is_ok()
            && options.conflict != ConflictMode::Merge
            && let Some(created) = self.create_time(&mut lease, key).await?
        {
            resolved = prepared.resolve(options, &found.with_create_time(created));
        }
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        let append = NewAppend { key: key.clone(), event: NewEvent::new(resolved)? };
        if room == LimitCheck::Counted {
            let limits = &prepared.limits;
            let fits = limits.check_seq(seq + 1);
            let fits = fits.and_then(|()| growth(&lock.reads, &answers).add(&append.event.changes, limits));
            keep_out(&mut lease, fits).await?;
        }
        // The update comes before the event, because the procedure commits.
        if let Some(update) = &prepared.update
            && !self.update_on(&mut lease, key, update).await?
        {
            // The session has expired since it was locked.
            lease.rollback().await?;
            return Ok(Some((AppendRow::NoSession, prepared.event.clone())));
        }
        let (arguments, places) = batch::appends(&[&append])?;
        let answers = self.call_on(&mut lease, arguments, TransactionStart::Locked, room).await?;
        let row = match (answers.into_iter().next(), places.as_slice()) {
            (Some(ProcedureRow::Done(numbers)), [place]) => numbers.stored(place)?,
            (Some(ProcedureRow::Full(_)), _) => return Ok(None),
            // Locks do not reach beyond a node of Galera: another node can write to a session that is locked here. The
            // next try looks again, before it writes.
            (None | Some(ProcedureRow::Duplicate { .. } | ProcedureRow::Missing { .. }), _) => {
                return Err(self.overtaken());
            }
            _ => return Err(strange("no number for an event under its lock").into()),
        };
        Ok(Some((row, append.event.prepared.event)))
    }

    /// Returns the failure of a write to a session that another node of Galera has changed under the lock. It is retried.
    fn overtaken(&self) -> Failure {
        let message = format!("{}: another node wrote to the session at the same time", self.connections.place());
        Failure::new(CommitFate::RolledBack, Error::new(ErrorKind::Unavailable, message))
    }

    /// Reads a session's time of creation, in microseconds. The session's row is locked, so this sees the commits that
    /// the lock has waited for.
    async fn create_time(&self, lease: &mut Lease<'_>, key: &SessionKey) -> Attempt<Option<i64>> {
        let sql = "SELECT create_time FROM `{prefix}sessions` WHERE app_name = ? AND user_id = ? AND id = ? FOR UPDATE";
        let address = address(key);
        let row = lease.rows(&self.sql(sql), address.to_vec()).await?.into_iter().next();
        let place = || format!("the session {key}");
        Ok(row.map(|row| RowCells::from(row).integer(0, place)).transpose()?)
    }

    /// Creates a session. Returns `None` if the keys have to be counted first.
    async fn create_in<N: Borrow<NewSession>>(
        &self,
        new: &NewKey<'_>,
        lock: &Lock<'_>,
        scopes: &[Scope],
        resolve: impl FnOnce(Found) -> std::result::Result<N, Refusal>,
    ) -> Attempt<Option<bool>> {
        let target = LockTarget::session(new.key);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let answers = self.lock_new(&mut lease, new, lock, scopes).await?;
        let Some((_, found)) = target.found(&lock.reads, &answers)? else {
            return self.is_made(new.key, &answers).map(Some);
        };
        let resolved = match resolve(found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        self.create_on(lease, resolved.borrow(), lock, &answers, new.token).await
    }

    /// Creates a session that may exceed a limit, or whose id has to be unique in its app.
    pub(super) async fn create_locked(&self, new: &NewSession, token: &str, rooms: &[LimitCheck]) -> Attempt<bool> {
        let changes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        let (scopes, shared) = locked_and_shared(changes.map(|change| (change.scope, change.name.as_str())));
        let key = NewKey { key: &new.key, scope: new.id_scope, token };
        for room in rooms {
            let reads = if *room == LimitCheck::Counted { shared.clone() } else { Vec::new() };
            let lock = Lock { token: Some(token), event: None, reads, whole: Vec::new(), room: *room };
            if let Some(is_made) = self.create_in(&key, &lock, &scopes, |_| Ok(new)).await? {
                return Ok(is_made);
            }
        }
        Err(strange("no room where it was counted").into())
    }

    /// Takes the locks for a session to create, and removes an expired session with the same key.
    async fn lock_new(
        &self,
        lease: &mut Lease<'_>,
        new: &NewKey<'_>,
        lock: &Lock<'_>,
        scopes: &[Scope],
    ) -> Attempt<Vec<ProcedureRow>> {
        let target = LockTarget::session(new.key);
        let begun = match self.begin_new(lease, new).await? {
            CreationStart::Begun(begun) => begun,
            CreationStart::Answered(answer) => return Ok(vec![answer]),
        };
        let answers = self.lock(lease, &target, lock, scopes, begun).await?;
        if !matches!(answers.as_slice(), [ProcedureRow::Expired]) {
            return Ok(answers);
        }
        // The transaction is over, and so is the lock on the id.
        match self.begin_new(lease, new).await? {
            CreationStart::Answered(answer) => return Ok(vec![answer]),
            CreationStart::Begun(TransactionStart::Here) => drop(self.make_room(lease, new.key).await?),
            CreationStart::Begun(_) => drop(self.remove_expired_on(lease, new.key).await?),
        }
        self.lock(lease, &target, lock, scopes, TransactionStart::Before).await
    }

    async fn create_on(
        &self,
        mut lease: Lease<'_>,
        new: &NewSession,
        lock: &Lock<'_>,
        answers: &[ProcedureRow],
        token: &str,
    ) -> Attempt<Option<bool>> {
        if lock.room == LimitCheck::Counted {
            let mut growth = growth(&lock.reads, answers);
            let mut seen = HashSet::new();
            // The session's own keys were counted when it was prepared.
            let shared = |change: &&TextChange| change.scope != Scope::Session;
            let mut fits = growth.add(&new.shared, &new.limits);
            for event in new.events.iter().filter(|event| seen.insert(event.prepared.event.id.as_str())) {
                fits = fits.and_then(|()| growth.add(event.changes.iter().filter(shared), &new.limits));
            }
            drop(growth);
            keep_out(&mut lease, fits).await?;
        }
        let arguments = batch::creation(new, token)?;
        let answers = self.call_on(&mut lease, arguments, TransactionStart::Before, lock.room).await?;
        if matches!(answers.as_slice(), [ProcedureRow::Full(_)]) {
            return Ok(None);
        }
        self.is_made(&new.key, &answers).map(Some)
    }

    /// Changes keys that may exceed a limit.
    pub(super) async fn put_counted(
        &self,
        of: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        let reads = changes.iter().map(|change| (change.scope, change.name.as_str())).collect();
        let lock = Lock { token: None, event: None, reads, whole: Vec::new(), room: LimitCheck::Counted };
        let copy = |c: &TextChange| TextChange { scope: c.scope, name: c.name.clone(), value: c.value.clone() };
        let resolve = |_: &Found| Ok(changes.iter().map(copy).collect());
        let position = self.put_in(of, &lock, resolve, limits, author, time).await?;
        Ok(position.ok_or_else(|| strange("no room where it was counted"))?)
    }

    async fn put_in(
        &self,
        of: &StateOwner,
        lock: &Lock<'_>,
        resolve: impl FnOnce(&Found) -> std::result::Result<Vec<TextChange>, Refusal>,
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<Option<u64>> {
        let target = LockTarget { app: of.app_name(), user: of.user_id().unwrap_or_default(), session: None };
        let mut lease = self.connections.lease(Idempotency::NotIdempotent).await?;
        let answers = self.lock(&mut lease, &target, lock, &[of.scope()], TransactionStart::Here).await?;
        let found = target.found(&lock.reads, &answers)?;
        let (_, found) = found.ok_or_else(|| strange("nothing for a change"))?;
        let resolved = match resolve(&found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(self.refuse(lease, &target, refusal).await),
        };
        if lock.room == LimitCheck::Counted {
            let fits = growth(&lock.reads, &answers).add(&resolved, limits);
            keep_out(&mut lease, fits).await?;
        }
        let arguments = batch::state(of, &resolved, author, time)?;
        let answers = self.call_on(&mut lease, arguments, TransactionStart::Before, lock.room).await?;
        if matches!(answers.as_slice(), [ProcedureRow::Full(_)]) {
            return Ok(None);
        }
        Ok(Some(position(&answers)?))
    }
}

/// Returns the scopes that the creation of a session locks, and the keys that it writes outside the session. The user
/// is always locked.
fn locked_and_shared<'a>(
    changes: impl Iterator<Item = (Scope, &'a str)> + Clone,
) -> (Vec<Scope>, Vec<(Scope, &'a str)>) {
    let scopes = changes.clone().map(|(scope, _)| scope).chain([Scope::User]).collect();
    let shared: BTreeSet<_> = changes.filter(|(scope, _)| *scope != Scope::Session).collect();
    (scopes, shared.into_iter().collect())
}
