//! Expiry and pruning: expired sessions, old events and old changes of logs.

use async_trait::async_trait;

use super::Postgres;
use super::lease::BoundStatement;
use super::locks::param;
use super::read::{column, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::json;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{RemovalKind, SessionKey, StateOwner};
pub(crate) use scratchbook_database::{Attempt, PastScopes, Retention};

#[async_trait]
impl Retention for Postgres {
    async fn expired(&self, limit: usize) -> Attempt<Vec<SessionKey>> {
        let rows = self.read(&self.statements.retention.expired, &[&self.now(), &sql_limit(limit)]).await?;
        let key = |row| {
            let place = || "a row of the expired sessions".to_owned();
            rows::stored_key(column(row, 0, place)?, column(row, 1, place)?, column(row, 2, place)?)
        };
        Ok(rows.iter().map(key).collect::<Result<_>>()?)
    }

    async fn delete_expired(&self, key: &SessionKey) -> Attempt<bool> {
        let lease = self.connections.lease().await?;
        lease.begin().await?;
        let was_there = self.remove_expired_on(&lease, key).await?;
        lease.commit().await?;
        Ok(was_there)
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Attempt<u64> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let statements = &self.statements.retention;
        let now = self.now();
        let of = || format!("the session {key}");
        let steps = [
            BoundStatement::new(&statements.lock, [param(&app), &user, &session, &now]),
            BoundStatement::new(&statements.base, [param(&app), &user, &session]),
        ];
        let lease = self.connections.lease().await?;
        let answers = lease.begin_with(&steps).await?;
        let Some(row) = answers.first().and_then(|locked| locked.first()) else {
            return Ok(0);
        };
        let last = rows::number(column(row, 0, of)?, of)?;
        let base = answers.get(1).and_then(|base| base.first()).map(|row| column(row, 0, of)).transpose()?;
        let base = rows::number(base.unwrap_or_default(), of)?;
        let end = last.min(before.saturating_sub(1));
        let until = end.min(base.saturating_add(limit as u64));
        if until <= base {
            return Ok(0);
        }
        let state = self.read_past_on(&lease, key, until, PastScopes::Own).await?.fold(key, until)?;
        let (state, seq) =
            (json::to_text(&state.into_state()?, "the state")?, i64::try_from(until).unwrap_or(i64::MAX));
        let begins = if state == "{}" { 0 } else { sql_limit(state.len()) };
        lease.query(&statements.take_off, &[&app, &user, &session, &seq, &begins]).await?;
        lease.query(&statements.set_base, &[&app, &user, &session, &seq, &state]).await?;
        for statement in &statements.prune {
            lease.query(statement, &[&app, &user, &session, &seq]).await?;
        }
        self.record(&lease, [app, user, session], RemovalKind::Pruned, seq).await?;
        lease.commit().await?;
        Ok(until - base)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64> {
        if limit == 0 {
            return Ok(0);
        }
        let app = owner.app_name();
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let statements = &self.statements.retention;
        let lease = self.connections.lease().await?;
        let (scope, user) = owner.user_id().map_or(("app", ""), |user| ("user", user));
        let lock = match owner.user_id() {
            Some(_) => BoundStatement::new(&statements.lock_user, [param(&app), &user]),
            None => BoundStatement::new(&statements.lock_app, [param(&app)]),
        };
        let steps = [lock, BoundStatement::new(&statements.last_position, [param(&app), &scope, &user])];
        let answers = lease.begin_with(&steps).await?;
        let last = answers.get(1).and_then(|last| last.first());
        let Some(last) = last.filter(|_| answers.first().is_some_and(|locked| !locked.is_empty())) else {
            return Ok(0);
        };
        // Changes that are written from now on are not pruned, whatever position was requested.
        let last: i64 = column(last, 0, || format!("the last position in the log of {app}/{user}"))?;
        let before = before.min(last.saturating_add(1));
        // Reads report the log as pruned as soon as the first step of pruning has run.
        match owner.user_id() {
            Some(user) => lease.query(&statements.mark_user, &[&app, &user, &before]).await?,
            None => lease.query(&statements.mark_app, &[&app, &before]).await?,
        };
        let gone = lease.query(&statements.prune_log, &[&app, &scope, &user, &before, &sql_limit(limit)]).await?;
        lease.commit().await?;
        Ok(gone.len() as u64)
    }

    async fn let_removals_go(&self, before: i64, limit: usize) -> Attempt<u64> {
        let of = || "the removals that were let go".to_owned();
        let lease = self.connections.lease().await?;
        let rows = lease.query(&self.statements.retention.let_removals_go, &[&before, &sql_limit(limit)]).await?;
        let row = rows.first().ok_or_else(|| rows::damaged(of()))?;
        Ok(rows::number(column(row, 0, of)?, of)?)
    }
}
