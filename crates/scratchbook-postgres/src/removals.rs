//! Removing sessions and users, and the record of it that feeds show.

use futures_util::future::join;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::Lease;
use super::read::{column, sql_limit};
use scratchbook_core::session::{RemovalKind, SessionKey};
pub(crate) use scratchbook_database::Attempt;

impl Postgres {
    pub(super) async fn remove_session(&self, key: &SessionKey) -> Attempt<()> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let statements = &self.statements.delete;
        let lease = self.connections.lease().await?;
        // Locked first, removed by later statements: an append that we waited for is seen by them.
        let (begun, locked) =
            join(lease.begin(), lease.query(&statements.lock_session, &[&app, &user, &session])).await;
        begun?;
        let locked = locked?;
        let Some(row) = locked.first() else {
            // It may have been this call's earlier try that removed it, whose commit waits for a synchronous standby
            // still. A commit of our own that has something to tell the standby waits behind it.
            lease.query(&statements.touch_app, &[&app]).await?;
            return lease.commit().await;
        };
        let last = column(row, 0, || format!("the session {key}"))?;
        self.remove_locked(&lease, [app, user, session], RemovalKind::Deleted, last).await?;
        lease.commit().await
    }

    /// Removes a session, whose row is locked and has this last number.
    pub(super) async fn remove_locked(
        &self,
        lease: &Lease<'_>,
        address: [&str; 3],
        kind: RemovalKind,
        last: i64,
    ) -> Attempt<()> {
        let [app, user, session] = address;
        for statement in &self.statements.delete.of_session {
            lease.query(statement, &[&app, &user, &session]).await?;
        }
        self.record(lease, address, kind, last).await
    }

    /// Writes that something was removed.
    pub(super) async fn record(
        &self,
        lease: &Lease<'_>,
        address: [&str; 3],
        kind: RemovalKind,
        count: i64,
    ) -> Attempt<()> {
        let ([app, user, session], kind) = (address, kind.as_str());
        let values: [&(dyn ToSql + Sync); 6] = [&app, &user, &session, &kind, &count, &self.now()];
        lease.query(&self.statements.delete.record, &values).await.map(drop)
    }

    /// Removes a session that has expired, in a transaction; `false` where there is none.
    pub(super) async fn remove_expired_on(&self, lease: &Lease<'_>, key: &SessionKey) -> Attempt<bool> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let lock = &self.statements.delete.lock_expired;
        let locked = lease.query(lock, &[&app, &user, &session, &self.now()]).await?;
        let Some(row) = locked.first() else {
            return Ok(false);
        };
        let last = column(row, 0, || format!("the session {key}"))?;
        self.remove_locked(lease, [app, user, session], RemovalKind::Expired, last).await?;
        Ok(true)
    }

    pub(super) async fn remove_user(&self, app: &str, user: &str) -> Attempt<()> {
        let statements = &self.statements.delete;
        let lease = self.connections.lease().await?;
        lease.begin().await?;
        lease.query(&statements.lock_sessions, &[&app, &user]).await?;
        // Made where it is missing: a user who is made meanwhile would be removed without a lock.
        let was_there = lease.query(&statements.lock_user, &[&app, &user]).await?.is_empty();
        // Asked under the lock: another may have removed the user meanwhile, and its entry says how many sessions went.
        let has_more = was_there || !lease.query(&statements.has_more, &[&app, &user]).await?.is_empty();
        // Sessions made while we waited for the user come out of the order of locks. Where one of them is in use, all
        // this is given up and begun again.
        let sessions = sql_limit(lease.query(&statements.lock_new_sessions, &[&app, &user]).await?.len());
        for statement in &statements.of_user {
            lease.query(statement, &[&app, &user]).await?;
        }
        if sessions > 0 || has_more {
            self.record(&lease, [app, user, ""], RemovalKind::Erased, sessions).await?;
        }
        lease.commit().await
    }
}
