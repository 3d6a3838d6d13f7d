//! Writes that depend on what is stored: they lock and read first, in the transaction that writes.
//!
//! A round trip locks and reads, another writes and commits. The locks are those of the write, in the same order, so that
//! what was read stays as it is until then; each read is a statement behind all locks, and sees what they waited for.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::growth::KeyLimit;
use super::lease::{Lease, Step};
use super::read::{column, scope_of};
use super::statements::Resolves;
use super::write::{NewRow, StateWrite};
use super::{Postgres, error};
use scratchbook_core::error::{Error, KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{PreparedSession, PreparedState};
use scratchbook_core::plan::resolve::{Found, Refusal, WrittenKey};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange, TextMetadata};
use scratchbook_core::session::{LogPositions, SessionKey, StateOwner};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{AppendRow, Attempt, NewAppend, Unresolved};

impl Postgres {
    pub(super) async fn append_late(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        match self.append_resolved_by(new, KeyLimit::Guarded).await {
            Err(failure) if error::is_over_limit(&failure) => self.append_resolved_by(new, KeyLimit::Counted).await,
            done => done,
        }
    }

    pub(super) async fn append_resolved_by(&self, new: &Unresolved, limit: KeyLimit) -> Attempt<(AppendRow, Event)> {
        let Unresolved { key, prepared, options } = new;
        let (owner, event) = (Owner::of_session(key), &prepared.event);
        let wanted = Wanted::new(prepared.reads(options).map(|change| (change.scope, change.name.as_str())));
        let scopes: Vec<_> = prepared.reads_scopes(options).collect();
        let statements = &self.statements.resolve;
        let now = self.now();
        let lock = [param(&owner.app), &owner.user, &owner.session, &now];
        let mut steps = vec![Step::new(&statements.lock_session, lock)];
        steps.extend(owner.locks(self, prepared.changes.iter().map(|change| change.scope)));
        let reads = steps.len();
        steps.push(Step::new(&statements.known, [param(&owner.app), &owner.user, &owner.session, &event.id]));
        steps.push(wanted.step(&owner, statements));
        steps.extend(scopes.iter().map(|scope| owner.all_of(*scope, statements)));
        let lease = self.connections.lease().await?;
        let mut answers = lease.begin_with(&steps).await?;
        let read = answers.split_off(reads);
        let Some(row) = answers.first().and_then(|session| session.first()) else {
            return Ok((AppendRow::NoSession, event.clone()));
        };
        let [known, keys, of_scopes @ ..] = read.as_slice() else {
            return Err(Error::internal("a statement was not answered").into());
        };
        if let Some(row) = known.first() {
            let known = known_event(row, key, &event.id)?;
            // A commit of its own, which a synchronous standby has before an earlier try's event is acknowledged.
            lease.commit().await?;
            return Ok((known, event.clone()));
        }
        let place = || format!("the session {key}");
        let mut found =
            Found::new(rows::number(column(row, 0, place)?, place)?).with_create_time(column(row, 1, place)?);
        wanted.found(&owner, keys, &mut found)?;
        owner.found_all(&scopes, of_scopes, &mut found)?;
        let resolved = match prepared.resolve(options, &found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        let append = NewAppend { key: key.clone(), event: NewEvent::new(resolved)? };
        if limit == KeyLimit::Counted {
            self.check_growth(&lease, &owner, &prepared.limits, &[&append.event.changes]).await?;
        }
        let row = self.append_on(&lease, &[&append], limit).await?.pop();
        let row = row.ok_or_else(|| Error::internal("an append was not answered"))?;
        Ok((row, append.event.prepared.event))
    }

    pub(super) async fn create_late(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        match self.create_resolved_by(new, token, KeyLimit::Guarded).await {
            Err(failure) if error::is_over_limit(&failure) => {
                self.create_resolved_by(new, token, KeyLimit::Counted).await
            }
            done => done,
        }
    }

    async fn create_resolved_by(&self, new: &PreparedSession, token: &str, limit: KeyLimit) -> Attempt<bool> {
        let key = &new.key;
        let (owner, statements) = (Owner::of_session(key), &self.statements.resolve);
        let lease = self.connections.lease().await?;
        // What the operations come to is not in the session's row.
        let metadata = TextMetadata::new(new.metadata.clone())?;
        let scope = new.id_scope;
        let row = NewRow { key, scope, metadata: &metadata, created: new.created, expires: new.expires, token };
        if !self.begin_session(&lease, row, new.events.iter()).await? {
            return self.created_before(&lease, key, scope, token).await;
        }
        let changes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        let wanted = Wanted::new(new.reads().into_iter());
        let scopes: Vec<_> = new.reads_scopes().collect();
        // A creation locks its user, whatever it writes.
        let mut steps = owner.locks(self, changes.map(|change| change.scope).chain([Scope::User]));
        let reads = steps.len();
        steps.push(wanted.step(&owner, statements));
        steps.extend(scopes.iter().map(|scope| owner.all_of(*scope, statements)));
        let read = lease.all(&steps).await?.split_off(reads);
        let mut found = Found::new(0);
        if let [keys, of_scopes @ ..] = read.as_slice() {
            wanted.found(&owner, keys, &mut found)?;
            owner.found_all(&scopes, of_scopes, &mut found)?;
        }
        let resolved = match new.clone().resolve(found) {
            Ok(resolved) => NewSession::new(resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        self.fill(&lease, &resolved, limit).await?;
        lease.commit().await?;
        Ok(true)
    }

    pub(super) async fn put_late(&self, of: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64> {
        match self.put_resolved_by(of, new, author, time, KeyLimit::Guarded).await {
            Err(failure) if error::is_over_limit(&failure) => {
                self.put_resolved_by(of, new, author, time, KeyLimit::Counted).await
            }
            done => done,
        }
    }

    async fn put_resolved_by(
        &self,
        of: &StateOwner,
        new: &PreparedState,
        author: &str,
        time: f64,
        limit: KeyLimit,
    ) -> Attempt<u64> {
        let (owner, statements) = (Owner::of_state(of), &self.statements.resolve);
        let wanted = Wanted::new(new.reads().map(|change| (change.scope, change.name.as_str())));
        let scopes: Vec<_> = new.reads_scopes().collect();
        let mut steps = owner.locks(self, [scope_of(of)].into_iter());
        let reads = steps.len();
        steps.push(wanted.step(&owner, statements));
        steps.extend(scopes.iter().map(|scope| owner.all_of(*scope, statements)));
        let lease = self.connections.lease().await?;
        let read = lease.begin_with(&steps).await?.split_off(reads);
        let mut found = Found::new(0);
        if let [keys, of_scopes @ ..] = read.as_slice() {
            wanted.found(&owner, keys, &mut found)?;
            owner.found_all(&scopes, of_scopes, &mut found)?;
        }
        let resolved = match new.resolve(&found) {
            Ok(resolved) => TextChange::all(&resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, statements, refusal).await?.into()),
        };
        if limit == KeyLimit::Counted {
            self.check_growth(&lease, &owner, &new.limits, &[&resolved]).await?;
        }
        let write = StateWrite { changes: &resolved, most_rows: limit.most_rows(&new.limits), author, time };
        self.put_on(&lease, of, &write).await
    }
}

/// As a parameter, for the first of a list: the others follow it.
pub(super) fn param<T: ToSql + Sync>(value: &T) -> &(dyn ToSql + Sync) {
    value
}

/// What a retry is answered: the event is there.
fn known_event(row: &Row, key: &SessionKey, id: &str) -> Result<AppendRow> {
    let place = || format!("the event {id} of {key}");
    let logs = LogPositions::of_feed(rows::number(column(row, 3, place)?, place)?);
    Ok(AppendRow::Known {
        seq: column(row, 0, place)?,
        text: column(row, 1, place)?,
        hash: column(row, 2, place)?,
        logs,
    })
}

/// Keys that are to be read, in columns.
pub(super) struct Wanted<'a> {
    keys: Vec<(Scope, &'a str)>,
    scopes: Vec<&'static str>,
    names: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(keys: impl Iterator<Item = (Scope, &'a str)>) -> Self {
        let keys: Vec<_> = keys.collect();
        let (scopes, names) = keys.iter().map(|(scope, name)| (scope.as_str(), *name)).unzip();
        Self { keys, scopes, names }
    }

    pub(super) fn step<'s>(&'s self, owner: &'s Owner<'_>, statements: &'s Resolves) -> Step<'s> {
        let params = [param(&owner.app), &owner.user, &owner.session, &self.scopes, &self.names];
        Step::new(&statements.keys, params)
    }

    /// Takes over what was found: the values, and where they were written last.
    fn found(&self, owner: &Owner<'_>, rows: &[Row], found: &mut Found) -> Result<()> {
        for row in rows {
            let (scope, name) = self.key(owner, row)?;
            owner.insert(found, scope, name, row)?;
        }
        Ok(())
    }

    /// Which of them are there.
    pub(super) fn present(&self, owner: &Owner<'_>, rows: &[Row]) -> Result<HashMap<(Scope, &'a str), bool>> {
        let mut present = HashMap::with_capacity(rows.len());
        for row in rows {
            let key = self.key(owner, row)?;
            let value: Option<&str> = column(row, 1, || owner.place(key.0, key.1))?;
            present.insert(key, value.is_some());
        }
        Ok(present)
    }

    fn key(&self, owner: &Owner<'_>, row: &Row) -> Result<(Scope, &'a str)> {
        let number: i64 = column(row, 0, || format!("a key of {}/{}", owner.app, owner.user))?;
        let key = usize::try_from(number - 1).ok().and_then(|index| self.keys.get(index));
        key.copied().ok_or_else(|| Error::internal("a key that was not asked for"))
    }
}

/// Whose keys are meant; outside of any session its id is empty.
pub(super) struct Owner<'a> {
    pub(super) app: &'a str,
    pub(super) user: &'a str,
    pub(super) session: &'a str,
}

impl<'a> Owner<'a> {
    pub(super) fn of_session(key: &'a SessionKey) -> Self {
        Self { app: key.app_name(), user: key.user_id(), session: key.session_id() }
    }

    pub(super) fn of_state(owner: &'a StateOwner) -> Self {
        Self { app: owner.app_name(), user: owner.user_id().unwrap_or_default(), session: "" }
    }

    /// What locks the owners of these scopes' keys, the user before the app, and makes them where they are missing.
    pub(super) fn locks<'s>(&'s self, store: &'s Postgres, scopes: impl Iterator<Item = Scope>) -> Vec<Step<'s>> {
        let (mut of_user, mut of_app) = (None, None);
        for scope in scopes {
            match scope {
                Scope::User => {
                    let lock = || Step::new(&store.statements.delete.lock_user, [param(&self.app), &self.user]);
                    of_user.get_or_insert_with(lock);
                }
                Scope::App => {
                    of_app.get_or_insert_with(|| Step::new(&store.statements.resolve.lock_app, [param(&self.app)]));
                }
                Scope::Session | Scope::Temp => {}
            }
        }
        of_user.into_iter().chain(of_app).collect()
    }

    /// What reads every key of a scope that is there.
    fn all_of<'s>(&'s self, scope: Scope, statements: &'s Resolves) -> Step<'s> {
        match scope {
            Scope::Session => Step::new(&statements.all_own, [param(&self.app), &self.user, &self.session]),
            Scope::User => Step::new(&statements.all_of_user, [param(&self.app), &self.user]),
            _ => Step::new(&statements.all_of_app, [param(&self.app)]),
        }
    }

    fn found_all(&self, scopes: &[Scope], answers: &[Vec<Row>], found: &mut Found) -> Result<()> {
        for (scope, rows) in scopes.iter().zip(answers) {
            for row in rows {
                let name: &str = column(row, 0, || format!("a key of {}/{}", self.app, self.user))?;
                self.insert(found, *scope, name, row)?;
            }
        }
        Ok(())
    }

    fn insert(&self, found: &mut Found, scope: Scope, name: &str, row: &Row) -> Result<()> {
        let place = || self.place(scope, name);
        let text: Option<&str> = column(row, 1, place)?;
        let value = text.map(|text| rows::json(text, place)).transpose()?;
        found.insert(scope, name, value, rows::number(column(row, 2, place)?, place)?);
        Ok(())
    }

    fn place(&self, scope: Scope, name: &str) -> String {
        format!("the value of key '{}' of {}/{}", scope.key(name), self.app, self.user)
    }

    /// The error of a refusal, with those who wrote the keys in the way.
    async fn refused(&self, lease: &Lease<'_>, statements: &Resolves, refusal: Refusal) -> Attempt<Error> {
        let places: Vec<_> = refusal.keys().map(|written| (written.scope.as_str(), sql_place(written))).collect();
        let steps = refusal.keys().zip(&places).map(|(written, (scope, place))| match written.scope {
            Scope::Session => Step::new(&statements.event_writer, [param(&self.app), &self.user, &self.session, place]),
            Scope::User => {
                Step::new(&statements.log_writer, [param(&self.app), scope, &self.user, place, &written.name])
            }
            _ => Step::new(&statements.log_writer, [param(&self.app), scope, &"", place, &written.name]),
        });
        let answers = lease.all(&steps.collect::<Vec<_>>()).await?;
        let mut writers = Vec::with_capacity(answers.len());
        for (written, rows) in refusal.keys().zip(&answers) {
            writers.push(rows.first().map(|row| self.writer(row, written)).transpose()?);
        }
        Ok(refusal.into_error(writers))
    }

    fn writer(&self, row: &Row, written: &WrittenKey) -> Result<KeyWriter> {
        let place = || format!("who wrote '{}' of {}/{}", written.scope.key(&written.name), self.app, self.user);
        let writer = KeyWriter::new(column::<&str>(row, 0, place)?).with_time(column(row, 2, place)?);
        if written.scope == Scope::Session {
            let writer = writer.with_event(self.user, self.session, written.place, column::<&str>(row, 1, place)?);
            return Ok(writer.with_invocation(column::<&str>(row, 3, place)?));
        }
        let session: (Option<&str>, Option<&str>) = (column(row, 3, place)?, column(row, 4, place)?);
        Ok(match session {
            (Some(user), Some(session)) => {
                let seq = rows::number(column(row, 5, place)?, place)?;
                writer.with_event(user, session, seq, column::<&str>(row, 1, place)?)
            }
            _ => writer,
        })
    }
}

fn sql_place(written: &WrittenKey) -> i64 {
    i64::try_from(written.place).unwrap_or(i64::MAX)
}
