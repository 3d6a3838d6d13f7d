//! Writes that depend on what is stored: they lock and read first, in the transaction that writes.

use futures_util::future::join;

use super::Postgres;
use super::connection::Lease;
use super::read::column;
use crate::error::{Error, KeyWriter};
use crate::event::Event;
use crate::session::{LogPositions, SessionKey, StateOwner};
use crate::state::Scope;
use crate::store::commit::{KeyChange, PreparedSession};
use crate::store::database::{AppendRow, Attempt, NewAppend, Unresolved};
use crate::store::resolve::{Found, Refusal, WrittenKey, resolve_state};
use crate::store::rows;
use crate::store::text::{NewEvent, NewSession, TextChange};

impl Postgres {
    /// Locks as an append does, so that the append that follows in the same transaction finds nothing else.
    pub(super) async fn append_late(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        let Unresolved { key, prepared, options } = new;
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let lease = self.connections.lease().await?;
        let statements = &self.statements.resolve;
        let (begun, locked) =
            join(lease.begin(), lease.query(&statements.lock_session, &[&app, &user, &session])).await;
        begun?;
        let Some(row) = locked?.into_iter().next() else {
            return Ok((AppendRow::NoSession, prepared.event.clone()));
        };
        let last: i64 = column(&row, 0, || format!("the session {key}"))?;
        let id = prepared.event.id.as_str();
        if let Some(row) = lease.query(&statements.known, &[&app, &user, &session, &id]).await?.first() {
            let place = || format!("the event {id} of {key}");
            let logs = LogPositions::of_feed(rows::number(column(row, 3, place)?, place)?);
            let (seq, text, hash) = (column(row, 0, place)?, column(row, 1, place)?, column(row, 2, place)?);
            // A commit of its own, which a synchronous standby has before an earlier try's event is acknowledged.
            lease.commit().await?;
            return Ok((AppendRow::Known { seq, text, hash, logs }, prepared.event.clone()));
        }
        let owner = Owner { app, user, session: Some(key) };
        owner.lock(&lease, self, prepared.changes.iter().map(|change| change.scope)).await?;
        let mut found = Found::new(rows::number(last, || format!("the session {key}"))?);
        let reads: Vec<_> = prepared.reads(options).map(|change| (change.scope, change.name.as_str())).collect();
        owner.find(&lease, self, &reads, &mut found).await?;
        let resolved = match prepared.resolve(options, &found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Err(owner.refused(&lease, self, refusal).await?.into()),
        };
        let append = NewAppend { key: key.clone(), event: NewEvent::new(resolved)? };
        let mut rows = self.append_on(&lease, &[&append]).await?;
        lease.commit().await?;
        let row = rows.pop().ok_or_else(|| Error::internal("an append was not answered"))?;
        Ok((row, append.event.prepared.event))
    }

    pub(super) async fn create_late(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        let lease = self.connections.lease().await?;
        // Its events are known by now but for what their operations come to, which the session's row does not show.
        let key = &new.key;
        if !self.begin_session(&lease, key, new.created, new.events.iter(), token).await? {
            return self.created_before(&lease, key, token).await;
        }
        let owner = Owner { app: key.app_name(), user: key.user_id(), session: Some(key) };
        let scopes = new.shared.iter().chain(new.events.iter().flat_map(|event| &event.changes));
        owner.lock(&lease, self, scopes.map(|change| change.scope).chain([Scope::User])).await?;
        let reads: Vec<_> = new.reads().into_iter().collect();
        let mut found = Found::new(0);
        owner.find(&lease, self, &reads, &mut found).await?;
        let resolved = match new.clone().resolve(found) {
            Ok(resolved) => NewSession::new(resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, self, refusal).await?.into()),
        };
        self.fill(&lease, &resolved).await?;
        lease.commit().await?;
        Ok(true)
    }

    pub(super) async fn put_late(
        &self,
        of: &StateOwner,
        changes: &[KeyChange],
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        let lease = self.connections.lease().await?;
        lease.begin().await?;
        let owner = Owner { app: of.app_name(), user: of.user_id().unwrap_or_default(), session: None };
        owner.lock(&lease, self, changes.iter().map(|change| change.scope)).await?;
        let with_operations = changes.iter().filter(|change| change.change.operations().is_some());
        let reads: Vec<_> = with_operations.map(|change| (change.scope, change.name.as_str())).collect();
        let mut found = Found::new(0);
        owner.find(&lease, self, &reads, &mut found).await?;
        let resolved = match resolve_state(changes, &found) {
            Ok(resolved) => TextChange::all(&resolved)?,
            Err(refusal) => return Err(owner.refused(&lease, self, refusal).await?.into()),
        };
        let position = self.put_on(&lease, of, &resolved, author, time).await?;
        lease.commit().await?;
        Ok(position)
    }
}

/// Whose keys are meant.
struct Owner<'a> {
    app: &'a str,
    user: &'a str,
    session: Option<&'a SessionKey>,
}

impl Owner<'_> {
    /// Locks the owners of these scopes' keys, the user before the app.
    async fn lock(&self, lease: &Lease<'_>, store: &Postgres, scopes: impl Iterator<Item = Scope>) -> Attempt<()> {
        let (mut of_user, mut of_app) = (false, false);
        for scope in scopes {
            of_user |= scope == Scope::User;
            of_app |= scope == Scope::App;
        }
        if of_user {
            lease.query(&store.statements.delete.lock_user, &[&self.app, &self.user]).await?;
        }
        if of_app {
            lease.query(&store.statements.resolve.lock_app, &[&self.app]).await?;
        }
        Ok(())
    }

    /// Reads keys: their values and where they were written last.
    async fn find(
        &self,
        lease: &Lease<'_>,
        store: &Postgres,
        keys: &[(Scope, &str)],
        found: &mut Found,
    ) -> Attempt<()> {
        let session = self.session.map_or("", SessionKey::session_id);
        let (scopes, names): (Vec<_>, Vec<_>) = keys.iter().map(|(scope, name)| (scope.as_str(), *name)).unzip();
        let rows =
            lease.query(&store.statements.resolve.keys, &[&self.app, &self.user, &session, &scopes, &names]).await?;
        for row in &rows {
            let any = || format!("a key of {}/{}", self.app, self.user);
            let number: i64 = column(row, 0, any)?;
            let index = usize::try_from(number - 1).ok().and_then(|index| keys.get(index));
            let (scope, name) = *index.ok_or_else(|| Error::internal("a key that was not asked for"))?;
            let place = || format!("the value of key '{}' of {}/{}", scope.key(name), self.app, self.user);
            let text: Option<&str> = column(row, 1, place)?;
            let value = text.map(|text| rows::json(text, place)).transpose()?;
            found.insert(scope, name, value, rows::number(column(row, 2, place)?, place)?);
        }
        Ok(())
    }

    /// The error of a refusal, with those who wrote the keys in the way.
    async fn refused(&self, lease: &Lease<'_>, store: &Postgres, refusal: Refusal) -> Attempt<Error> {
        let mut writers = Vec::new();
        for written in refusal.keys() {
            writers.push(self.writer(lease, store, written).await?);
        }
        Ok(refusal.into_error(writers))
    }

    async fn writer(&self, lease: &Lease<'_>, store: &Postgres, written: &WrittenKey) -> Attempt<Option<KeyWriter>> {
        let place = || format!("who wrote '{}' of {}/{}", written.scope.key(&written.name), self.app, self.user);
        let statements = &store.statements.resolve;
        let at = i64::try_from(written.place).unwrap_or(i64::MAX);
        if written.scope == Scope::Session {
            let Some(key) = self.session else {
                return Ok(None);
            };
            let session = key.session_id();
            let rows = lease.query(&statements.event_writer, &[&self.app, &self.user, &session, &at]).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let (id, author): (String, String) = (column(row, 0, place)?, column(row, 1, place)?);
            return Ok(Some(KeyWriter::new(author).with_event(self.user, session, written.place, id)));
        }
        let user = if written.scope == Scope::User { self.user } else { "" };
        let scope = written.scope.as_str();
        let rows = lease.query(&statements.log_writer, &[&self.app, &scope, &user, &at, &written.name]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let writer = KeyWriter::new(column::<String>(row, 0, place)?);
        let session: (Option<String>, Option<String>) = (column(row, 1, place)?, column(row, 2, place)?);
        Ok(Some(match session {
            (Some(user), Some(session)) => {
                let seq = rows::number(column(row, 3, place)?, place)?;
                writer.with_event(user, session, seq, column::<String>(row, 4, place)?)
            }
            _ => writer,
        }))
    }
}
