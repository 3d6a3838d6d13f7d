//! Removing sessions and users, and the records of removals for feeds.

use async_trait::async_trait;
use futures_util::future::join;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::lease::Lease;
use super::read::{column, sql_limit};
use scratchbook_core::session::{RemovalKind, SessionKey};
pub(crate) use scratchbook_database::{Attempt, Removals};

#[async_trait]
impl Removals for Postgres {
    async fn delete_session(&self, key: &SessionKey) -> Attempt<()> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let statements = &self.statements.delete;
        let lease = self.connections.lease().await?;
        // The session is locked first. Later statements remove it, so that they see an append that the lock has waited
        // for.
        let (begun, locked) =
            join(lease.begin(), lease.query(&statements.lock_session, &[&app, &user, &session])).await;
        begun?;
        let locked = locked?;
        let Some(row) = locked.first() else {
            // An earlier attempt of this call may have removed the session, with a commit that still waits for a
            // synchronous standby. With this lock our own commit has to be replicated too, so it waits behind the
            // earlier one.
            lease.query(&statements.touch_app, &[&app]).await?;
            return lease.commit().await;
        };
        let last = column(row, 0, || format!("the session {key}"))?;
        self.remove_locked(&lease, [app, user, session], RemovalKind::Deleted, last).await?;
        lease.commit().await
    }

    async fn delete_user(&self, app: &str, user: &str) -> Attempt<()> {
        let statements = &self.statements.delete;
        let lease = self.connections.lease().await?;
        lease.begin().await?;
        lease.query(&statements.lock_sessions, &[&app, &user]).await?;
        // The row is inserted if it is missing. Otherwise a user who is created concurrently would be removed without a
        // lock.
        let was_there = lease.query(&statements.lock_user, &[&app, &user]).await?.is_empty();
        // This is read under the lock: another call may have removed the user in the meantime, and its record has the
        // number of sessions.
        let has_more = was_there || !lease.query(&statements.has_more, &[&app, &user]).await?.is_empty();
        // Sessions that were created while we waited for the user's row are locked out of order. If one of them is in
        // use, the transaction is rolled back and retried.
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

impl Postgres {
    /// Removes a session whose row is locked and whose last event has this number. The user's row is locked as well, so
    /// that a creation with the same id waits there, before it has a position in the feed.
    pub(super) async fn remove_locked(
        &self,
        lease: &Lease<'_>,
        address: [&str; 3],
        kind: RemovalKind,
        last: i64,
    ) -> Attempt<()> {
        let [app, user, session] = address;
        let statements = &self.statements.delete;
        lease.query(&statements.lock_user, &[&app, &user]).await?;
        // Each statement has the whole timeout.
        for statement in &statements.of_session {
            lease.query(statement, &[&app, &user, &session]).await?;
        }
        self.record(lease, address, kind, last).await
    }

    /// Records a removal.
    pub(super) async fn record(
        &self,
        lease: &Lease<'_>,
        address: [&str; 3],
        kind: RemovalKind,
        count: i64,
    ) -> Attempt<()> {
        let [app, user, session] = address;
        let kind = kind.as_str();
        let values: [&(dyn ToSql + Sync); 6] = [&app, &user, &session, &kind, &count, &self.now()];
        lease.query(&self.statements.delete.record, &values).await.map(drop)
    }

    /// Removes a session in a transaction if it has expired. Returns `false` if it has not.
    pub(super) async fn remove_expired_on(&self, lease: &Lease<'_>, key: &SessionKey) -> Attempt<bool> {
        let app = key.app_name();
        let user = key.user_id();
        let session = key.session_id();
        let lock = &self.statements.delete.lock_expired;
        let locked = lease.query(lock, &[&app, &user, &session, &self.now()]).await?;
        let Some(row) = locked.first() else {
            return Ok(false);
        };
        let last = column(row, 0, || format!("the session {key}"))?;
        self.remove_locked(lease, [app, user, session], RemovalKind::Expired, last).await?;
        Ok(true)
    }
}
