//! Forks of sessions, copied inside the database.

use async_trait::async_trait;

use super::Postgres;
use super::creations::SessionRow;
use super::lease::BoundStatement;
use super::locks::param;
use super::past::FoldColumns;
use super::read::column;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::fork::check_event_number;
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::TextMetadata;
use scratchbook_core::session::{IdScope, Session, SessionKey, micros_of_seconds, no_session};
pub(crate) use scratchbook_database::{Attempt, Forks, NewFork, PastScopes, RowRoom};

/// The properties of the source session while it is locked.
struct Source {
    last: i64,
    position: i64,
}

#[async_trait]
impl Forks for Postgres {
    /// Locks the row of the source session as an append does, so that the session does not change during the copy.
    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        let NewFork { source: key, at, key: fork, created } = new;
        let [app, user, source, id] = [key.app_name(), key.user_id(), key.session_id(), fork.session_id()];
        let statements = &self.statements.fork;
        let lease = self.connections.lease().await?;
        let now = self.now();
        let locks = [BoundStatement::new(&statements.lock, [param(&app), &user, &source, &now])];
        let locked = lease.begin_with(&locks).await?.pop().unwrap_or_default();
        let of = || format!("the session {key}");
        let row = locked.first().ok_or_else(|| no_session(key))?;
        let source_at = Source { last: column(row, 0, of)?, position: column(row, 1, of)? };
        let last = rows::number(source_at.last, of)?;
        let at = at.unwrap_or(last);
        if at > last {
            check_event_number(key, at, 0, last)?;
        }
        // The values of keys that were written after the event are computed by a fold; all other keys are unchanged.
        let mut past = self.read_past_on(&lease, key, at, PastScopes::Own).await?;
        let folded = if at < last { Some(FoldColumns::new(&past.fold(key, at)?)?) } else { None };
        let seq = i64::try_from(at).unwrap_or(i64::MAX);
        let times = lease.query(&statements.time, &[&app, &user, &source, &seq]).await?;
        let time: Option<f64> = times.first().map(|row| column(row, 0, of)).transpose()?;
        let metadata = TextMetadata { title: column(row, 2, of)?, labels: column(row, 3, of)? };
        let row = SessionRow {
            key: fork,
            scope: IdScope::User,
            metadata: &metadata,
            seq,
            created: *created,
            micros: time.map_or(*created, micros_of_seconds),
            token,
            expires: None,
            position: source_at.position,
            now,
        };
        if !self.insert_session(&lease, &row).await? {
            return self.forked_before(lease, fork, token).await;
        }
        lease.query(&self.statements.delete.lock_user, &[&app, &user]).await?;
        lease.query(&statements.initial, &[&app, &user, &source, &id, &seq]).await?;
        for statement in &statements.copies {
            lease.query(statement, &[&app, &user, &source, &id, &seq]).await?;
        }
        if let Some(FoldColumns { names, values, seqs }) = &folded {
            lease.query(&statements.keys, &[&app, &user, &id, names, values, seqs]).await?;
        }
        lease.query(&statements.count, &[&app, &user, &id, &i64::MAX]).await?;
        let session = self.read_session_on(&lease, fork, EventQuery::None, &StateQuery::All, RowRoom::WHOLE).await?;
        lease.commit().await?;
        Ok(Some(made(session, fork)?))
    }
}

impl Postgres {
    async fn forked_before(
        &self,
        lease: super::lease::Lease<'_>,
        fork: &SessionKey,
        token: &str,
    ) -> Attempt<Option<Session>> {
        if !self.created_before(&lease, fork, IdScope::User, token).await? {
            return Ok(None);
        }
        let session = self.read_session_on(&lease, fork, EventQuery::None, &StateQuery::All, RowRoom::WHOLE).await?;
        Ok(Some(made(session, fork)?))
    }
}

fn made(session: Option<Session>, fork: &SessionKey) -> Result<Session> {
    session.ok_or_else(|| Error::not_found(format!("the session {fork} was made, and was deleted at once")))
}
