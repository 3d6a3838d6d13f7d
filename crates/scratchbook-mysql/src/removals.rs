//! Removing sessions and users. The locks come first, in the order of all writers.

use std::collections::BTreeSet;

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::lease::Lease;
use super::row::{RowCells, address};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{Removal, RemovalKind, SessionKey};
use scratchbook_database::{Attempt, CommitFate, Failure, Idempotency, Removals};

/// The tables with a session's own data.
const OF_SESSION: [&str; 5] = ["session_states", "initial_states", "events", "checkpoints", "artifacts"];

/// The maximum number of sessions that one statement removes.
const SESSIONS_AT_ONCE: usize = 1000;

/// The maximum number of rows of other tables that one statement changes, so that each statement ends well within the
/// timeout.
const ROWS_AT_ONCE: u64 = 5000;

/// Locks the row of a user, and inserts it if it is missing.
pub(super) const LOCK_USER: &str = "INSERT INTO `{prefix}users` (app_name, user_id, position) VALUES (?, ?, 0)
    ON DUPLICATE KEY UPDATE position = `{prefix}users`.position";

#[async_trait]
impl Removals for MySql {
    async fn delete_session(&self, key: &SessionKey) -> Attempt<()> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        self.remove_where(&mut lease, key, RemovalKind::Deleted).await?;
        lease.commit().await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Attempt<()> {
        let address = [app_name, user_id].map(Value::from);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let sessions = "SELECT id FROM `{prefix}sessions` FORCE INDEX (PRIMARY) WHERE app_name = ? AND user_id = ?";
        let locked = self.ids(&mut lease, &format!("{sessions} ORDER BY id FOR UPDATE"), &address).await?;
        // The user's row is inserted if it is missing, so that it can be locked. While it is locked, no session of this
        // user can be created.
        lease.rows(&self.sql(LOCK_USER), address.to_vec()).await?;
        let was_there = lease.affected_rows() != 1;
        // This is read under the lock: another call may have removed the user in the meantime, and its record has the
        // number of sessions.
        let more = "(SELECT 1 FROM `{prefix}artifacts` WHERE app_name = ? AND user_id = ? LIMIT 1)
            UNION ALL (
                SELECT 1 FROM `{prefix}removals` WHERE app_name = ? AND user_id = ? AND session_id > '' LIMIT 1
            )";
        let more = lease.rows(&self.sql(more), [&address[..], &address].concat()).await?;
        let all = self.ids(&mut lease, sessions, &address).await?;
        if all.iter().any(|id| !locked.contains(id)) {
            // Locking the new session now would violate the order of locks, so the call is retried.
            let what = format!("{}: a session of the user was made meanwhile", self.connections.place());
            return Err(Failure::new(CommitFate::RolledBack, Error::new(ErrorKind::Unavailable, what)));
        }
        let of_user = "WHERE app_name = ? AND user_id = ?";
        for table in OF_SESSION.into_iter().chain(["user_states"]) {
            self.delete(&mut lease, table, of_user, &address).await?;
        }
        let commits = "WHERE app_name = ? AND scope = 'user' AND user_id = ?";
        self.delete(&mut lease, "state_commits", commits, &address).await?;
        self.delete(&mut lease, "state_log", "WHERE app_name = ? AND scope = 'user' AND user_id = ?", &address).await?;
        self.forget_name(&mut lease, &address).await?;
        // The sessions are removed by their ids and not as a range: a range would wait for a session that is being
        // created, which itself waits for the user's row.
        for ids in all.iter().collect::<Vec<_>>().chunks(SESSIONS_AT_ONCE) {
            let sql = self.sql(
                "DELETE s FROM JSON_TABLE(?, '$[*]' COLUMNS (
                     id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$' ERROR ON ERROR
                 )) AS j
                 STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                     ON s.app_name = ? AND s.user_id = ? AND s.id = j.id",
            );
            let ids = Value::from(serde_json::json!(ids).to_string());
            lease.renew();
            lease.rows(&sql, [&[ids], &address[..]].concat()).await?;
        }
        if was_there || !all.is_empty() || !more.is_empty() {
            self.record_user(&mut lease, &address, all.len()).await?;
        }
        self.delete(&mut lease, "users", of_user, &address).await?;
        lease.commit().await
    }
}

impl MySql {
    /// Begins a transaction and removes a session that has expired; returns whether there was one.
    pub(super) async fn make_room(&self, lease: &mut Lease<'_>, key: &SessionKey) -> Attempt<bool> {
        lease.begin().await?;
        self.remove_expired_on(lease, key).await
    }

    /// Removes a session that has expired, in a transaction that has begun; returns whether there was one.
    pub(super) async fn remove_expired_on(&self, lease: &mut Lease<'_>, key: &SessionKey) -> Attempt<bool> {
        self.remove_where(lease, key, RemovalKind::Expired).await
    }

    /// Removes a session in the transaction; the kind `Expired` removes it only if it has expired. Returns whether
    /// there was one.
    async fn remove_where(&self, lease: &mut Lease<'_>, key: &SessionKey, kind: RemovalKind) -> Attempt<bool> {
        let address = address(key);
        let (which, now) = match kind {
            RemovalKind::Expired => ("AND expire_time <= ?", Some(Value::from(self.now()))),
            _ => ("", None),
        };
        let lock = format!(
            "SELECT seq FROM `{{prefix}}sessions` WHERE app_name = ? AND user_id = ? AND id = ? {which} FOR UPDATE"
        );
        let locked = lease.rows(&self.sql(&lock), [&address[..], now.as_slice()].concat()).await?;
        let Some(row) = locked.into_iter().next() else {
            return Ok(false);
        };
        let last = RowCells::from(row).integer(0, || format!("the session {key}"))?;
        // With the user's row locked, a creation with the same id waits there, before it knows its place in the feed.
        lease.rows(&self.sql(LOCK_USER), address[..2].to_vec()).await?;
        for table in OF_SESSION {
            self.delete(lease, table, "WHERE app_name = ? AND user_id = ? AND session_id = ?", &address).await?;
        }
        self.delete(lease, "sessions", "WHERE app_name = ? AND user_id = ? AND id = ?", &address).await?;
        self.record(lease, key, kind, last).await?;
        Ok(true)
    }

    async fn ids(&self, lease: &mut Lease<'_>, sql: &str, address: &[Value]) -> Attempt<BTreeSet<String>> {
        let rows = lease.rows(&self.sql(sql), address.to_vec()).await?;
        let ids = rows.into_iter().map(|row| RowCells::from(row).text(0, || "the id of a session".to_owned()));
        Ok(ids.collect::<Result<_>>()?)
    }

    /// Removes a user's name from the log of the app's keys.
    async fn forget_name(&self, lease: &mut Lease<'_>, address: &[Value; 2]) -> Attempt<()> {
        let session = "UPDATE `{prefix}state_log` FORCE INDEX (state_log_by_session_user)
             SET session_user = NULL, session_id = NULL, seq = NULL
             WHERE app_name = ? AND scope = 'app' AND session_user = ?";
        self.in_parts(lease, session, address).await?;
        // The index also finds names that differ in trailing spaces.
        let author = "UPDATE `{prefix}state_log` FORCE INDEX (state_log_by_author) SET author = ''
             WHERE app_name = ? AND scope = 'app' AND author = ? AND CAST(author AS BINARY) = ?";
        self.in_parts(lease, author, &[&address[..], &address[1..]].concat()).await
    }

    pub(super) async fn delete(
        &self,
        lease: &mut Lease<'_>,
        table: &str,
        which: &str,
        values: &[Value],
    ) -> Attempt<()> {
        self.in_parts(lease, &format!("DELETE FROM `{{prefix}}{table}` {which}"), values).await
    }

    /// Runs a statement on a limited number of rows at a time until none are left, all in one transaction.
    async fn in_parts(&self, lease: &mut Lease<'_>, sql: &str, values: &[Value]) -> Attempt<()> {
        let sql = self.sql(&format!("{sql} LIMIT {ROWS_AT_ONCE}"));
        loop {
            lease.renew();
            lease.rows(&sql, values.to_vec()).await?;
            if lease.affected_rows() < ROWS_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Records that a session was removed, or that its events up to a number were removed. A record of a pruning
    /// replaces only an earlier record of a pruning; any other record replaces all earlier records of the session. The
    /// caller has locked the session's row.
    pub(super) async fn record(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        kind: RemovalKind,
        last: i64,
    ) -> Attempt<()> {
        let address = address(key);
        if kind != RemovalKind::Pruned {
            let pruned = self.sql(
                "DELETE FROM `{prefix}removals` WHERE app_name = ? AND user_id = ? AND session_id = ? AND pruned = 1",
            );
            lease.renew();
            lease.rows(&pruned, address.to_vec()).await?;
        }
        self.insert(lease, address, kind, last).await
    }

    /// Records that a user was removed, which replaces all records of the user's sessions. The caller has locked the
    /// user's row.
    pub(super) async fn record_user(&self, lease: &mut Lease<'_>, user: &[Value; 2], sessions: usize) -> Attempt<()> {
        self.delete(lease, "removals", "WHERE app_name = ? AND user_id = ?", user).await?;
        let [app, user] = user.clone();
        self.insert(lease, [app, user, "".into()], RemovalKind::Erased, i64::try_from(sessions).unwrap_or(i64::MAX))
            .await
    }

    async fn insert(&self, lease: &mut Lease<'_>, address: [Value; 3], kind: RemovalKind, count: i64) -> Attempt<()> {
        let is = |wanted| i64::from(kind == wanted);
        let [app, user, _] = &address;
        // The log of a removed user starts again, before any entry of a new user with the same name.
        let sql = self.sql(
            "INSERT INTO `{prefix}removals` (app_name, user_id, session_id, kind, pruned, count, time, user_position,
                 app_position)
             VALUES (?, ?, ?, ?, ?, ?, ?,
                 COALESCE((SELECT IF(? = 1, 0, position) FROM `{prefix}users` WHERE app_name = ? AND user_id = ?), 0),
                 COALESCE((SELECT position FROM `{prefix}apps` WHERE app_name = ?), 0))
             ON DUPLICATE KEY UPDATE kind = VALUES(kind), count = VALUES(count), time = VALUES(time),
                 user_position = VALUES(user_position), app_position = VALUES(app_position), feed_position = -1",
        );
        let row = [kind.as_str().into(), is(RemovalKind::Pruned).into(), count.into(), self.now().into()];
        let positions = [is(RemovalKind::Erased).into(), app.clone(), user.clone(), app.clone()];
        lease.renew();
        lease.rows(&sql, [&address[..], &row, &positions].concat()).await.map(drop)
    }
}

/// Reads a removal from a row of the feed.
pub(super) fn removal(app: &str, cells: &mut RowCells) -> Result<Removal> {
    let place = || format!("a removal in the feed of {app}");
    let user = cells.text(3, place)?;
    let session = cells.text(4, place)?;
    let kind = cells.text(8, place)?;
    let (count, time) =
        (cells.integer(5, place)?, scratchbook_core::session::seconds_of_micros(cells.integer(7, place)?));
    rows::removal(app, [&user, &session, &kind], rows::number(count, place)?, time)
}
