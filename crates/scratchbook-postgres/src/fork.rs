//! Forks of sessions, copied inside the database.

use async_trait::async_trait;

use super::Postgres;
use super::lease::{BoundStatement, Lease};
use super::locks::param;
use super::past::FoldColumns;
use super::read::column;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_core::plan::fork::check_event_number;
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{RemovalKind, Session, SessionKey, micros_of_seconds, no_session};
pub(crate) use scratchbook_database::{Attempt, CommitFate, Failure, Forks, NewFork, PastScopes, RowRoom};

#[async_trait]
impl Forks for Postgres {
    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        let NewFork { source: key, at, key: fork, created } = new;
        let [app, user, source, id] = [key.app_name(), key.user_id(), key.session_id(), fork.session_id()];
        let statements = &self.statements.fork;
        let lease = self.connections.lease().await?;
        let now = self.now();
        // The row of the source session is locked as by an append, so that the session does not change during the copy.
        let locks = [
            BoundStatement::new(&statements.lock, [param(&app), &user, &source, &now]),
            BoundStatement::new(&self.statements.holder, [param(&app), &user, &id, &now]),
        ];
        let mut answers = lease.begin_with(&locks).await?;
        let holder = answers.pop().unwrap_or_default();
        let locked = answers.pop().unwrap_or_default();
        let of = || format!("the session {key}");
        let row = locked.first().ok_or_else(|| no_session(key))?;
        let last = rows::number(column(row, 0, of)?, of)?;
        let position: i64 = column(row, 1, of)?;
        let title: Option<&str> = column(row, 2, of)?;
        let labels: Option<&str> = column(row, 3, of)?;
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
        let updated = time.map_or(*created, micros_of_seconds);
        let keys = folded.as_ref().map(|folded| folded.names.len() as i64);
        let state_bytes = folded.as_ref().map(FoldColumns::bytes);
        if let Some(holder) = holder.first() {
            let of_fork = || format!("the session {fork}");
            let is_expired: Option<bool> = column(holder, 2, of_fork)?;
            if is_expired != Some(true) {
                // The id is taken, perhaps by an earlier attempt of this call.
                if column::<&str>(holder, 0, of_fork)? != token {
                    return Ok(None);
                }
                return self.read_fork(&lease, fork).await;
            }
            let last_of_holder = column(holder, 1, of_fork)?;
            self.remove_locked(&lease, [app, user, id], RemovalKind::Expired, last_of_holder).await?;
        }
        lease.query(&self.statements.delete.lock_user, &[&app, &user]).await?;
        let mut row = vec![param(&app), &user, &source, &seq, &id, &keys, created, &updated];
        row.extend([param(&title), &labels, &token, &position, &state_bytes]);
        if lease.query(&statements.insert, &row).await?.is_empty() {
            let message = format!("the session {fork} was created just now by another call; try again");
            return Err(Failure { fate: CommitFate::RolledBack, error: Error::new(ErrorKind::Unavailable, message) });
        }
        lease.query(&statements.initial, &[&app, &user, &source, &id, &seq]).await?;
        for statement in &statements.copies {
            lease.query(statement, &[&app, &user, &source, &id, &seq]).await?;
        }
        if let Some(FoldColumns { names, values, seqs }) = &folded {
            lease.query(&statements.keys, &[&app, &user, &id, names, values, seqs]).await?;
        }
        self.read_fork(&lease, fork).await
    }
}

impl Postgres {
    /// Reads a fork in the transaction that made or found it, and commits.
    async fn read_fork(&self, lease: &Lease<'_>, fork: &SessionKey) -> Attempt<Option<Session>> {
        let session = self.read_session_on(lease, fork, EventQuery::None, &StateQuery::All, RowRoom::WHOLE).await?;
        lease.commit().await?;
        Ok(session)
    }
}
