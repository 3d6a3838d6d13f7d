//! Expiry and pruning: expired sessions, old events, old changes of logs, and old records of removals.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::batch::json;
use super::events::{number, sql_limit};
use super::lease::Lease;
use super::row::{RowCells, address};
use scratchbook_core::error::Result;
use scratchbook_core::json;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{RemovalKind, SessionKey, StateOwner};
use scratchbook_database::{Attempt, Idempotency, PastScopes, Retention};

/// The maximum number of changes of a log that one statement removes, so that each statement ends well within the
/// timeout.
const AT_ONCE: usize = 5000;

#[async_trait]
impl Retention for MySql {
    async fn expired(&self, limit: usize) -> Attempt<Vec<SessionKey>> {
        let sql = "SELECT app_name, user_id, id FROM `{prefix}sessions` FORCE INDEX (sessions_by_expiry)
             WHERE expire_time <= ? ORDER BY expire_time LIMIT ?";
        let rows = self.read(sql, vec![self.now().into(), sql_limit(limit)]).await?;
        let key = |row| {
            let mut cells = RowCells::from(row);
            let place = || "a session that has expired".to_owned();
            stored_key(&cells.text(0, place)?, &cells.text(1, place)?, &cells.text(2, place)?)
        };
        Ok(rows.into_iter().map(key).collect::<Result<_>>()?)
    }

    async fn delete_expired(&self, key: &SessionKey) -> Attempt<bool> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let removed = self.make_room(&mut lease, key).await?;
        lease.commit().await?;
        Ok(removed)
    }

    /// Removes the oldest events of a session. The state just after them becomes the session's initial state.
    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Attempt<u64> {
        let here = address(key);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let base = match self.lock_session(&mut lease, key).await? {
            Some(last) => self.base(&mut lease, key).await?.map_or((0, last), |base| (base, last)),
            None => (0, 0),
        };
        let (base, last) = base;
        let end = last.min(before.saturating_sub(1)).min(base.saturating_add(limit as u64));
        if end <= base {
            lease.rollback().await?;
            return Ok(0);
        }
        let Some(head) = self.head(&mut lease, key, end).await? else {
            lease.rollback().await?;
            return Ok(0);
        };
        let positions = [Value::from(head.user_position), Value::from(head.app_position)];
        lease.renew();
        let mut past = self.past_from(&mut lease, key, end, head, PastScopes::Own).await?;
        let state = json::to_text(&past.fold(key, end)?.into_state()?, "the state")?;
        self.check_size(state.len() + 4096)?;
        // The feed position 0 keeps this row out of feeds, which do not report the creation of a session without state.
        let beginning = self.sql(
            "INSERT INTO `{prefix}initial_states` (app_name, user_id, session_id, state, seq, user_position,
                 app_position, feed_position) VALUES (?, ?, ?, ?, ?, ?, ?, 0)
             ON DUPLICATE KEY UPDATE state = VALUES(state), seq = VALUES(seq)",
        );
        let values = [&here[..], &[(&state).into(), number(end)], &positions].concat();
        // The size is subtracted first, while the state from which the fold begins is still stored.
        self.take_off(&mut lease, key, end, &state).await?;
        lease.renew();
        lease.rows(&beginning, values).await?;
        let session = self.sql(
            "UPDATE `{prefix}sessions` SET user_position = ?, app_position = ?
             WHERE app_name = ? AND user_id = ? AND id = ?",
        );
        lease.rows(&session, [&positions[..], &here].concat()).await?;
        let old = "WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq <= ?";
        for table in ["events", "checkpoints"] {
            self.delete(&mut lease, table, old, &[&here[..], &[number(end)]].concat()).await?;
        }
        self.record(&mut lease, key, RemovalKind::Pruned, i64::try_from(end).unwrap_or(i64::MAX)).await?;
        lease.commit().await?;
        Ok(end - base)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64> {
        let scope = owner.scope();
        let (table, of_owner) = match owner.user_id() {
            Some(_) => ("users", "app_name = ? AND user_id = ?"),
            None => ("apps", "app_name = ?"),
        };
        let own: Vec<_> = [Some(owner.app_name()), owner.user_id()].into_iter().flatten().map(Value::from).collect();
        let here = [owner.app_name(), scope.as_str(), owner.user_id().unwrap_or_default()].map(Value::from);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let lock = self.sql(&format!("SELECT position FROM `{{prefix}}{table}` WHERE {of_owner} FOR UPDATE"));
        let Some(row) = lease.rows(&lock, own.clone()).await?.into_iter().next() else {
            lease.rollback().await?;
            return Ok(0);
        };
        let place = || format!("the row of {}/{}", owner.app_name(), owner.user_id().unwrap_or_default());
        let position = rows::number(RowCells::from(row).integer(0, place)?, place)?;
        // Changes after the log's last position are not pruned.
        let before = number(before.min(position + 1));
        let mark = self.sql(&format!(
            "UPDATE `{{prefix}}{table}` SET pruned_position = GREATEST(pruned_position, ?) WHERE {of_owner}"
        ));
        lease.rows(&mark, [std::slice::from_ref(&before), &own[..]].concat()).await?;
        let mut removed = 0;
        while removed < limit {
            let now = self.remove_some(&mut lease, &here, &before, AT_ONCE.min(limit - removed)).await?;
            removed += now;
            if now == 0 {
                break;
            }
        }
        lease.commit().await?;
        Ok(removed as u64)
    }

    async fn let_removals_go(&self, before: i64, limit: usize) -> Attempt<u64> {
        let values = vec![Value::from(before), sql_limit(limit)];
        let sql = "SELECT DISTINCT app_name FROM (
                 SELECT app_name, feed_position FROM `{prefix}removals` FORCE INDEX (removals_by_time)
                 WHERE pruned = 0 AND time < ? ORDER BY time LIMIT ?
             ) AS old WHERE feed_position < 0";
        let rows = self.read(sql, values.clone()).await?;
        let place = || "an app with old removals".to_owned();
        let apps = rows.into_iter().map(|row| RowCells::from(row).text(0, place)).collect::<Result<Vec<_>>>()?;
        for app in apps {
            // After this, all old removals have a position in the feed, so the last deleted position can be recorded.
            self.number_all(&app).await?;
        }
        self.let_placed_go(values).await
    }
}

impl MySql {
    /// Removes at most `limit` overwritten changes. They are found first, because MySQL cannot read a table that it
    /// deletes from.
    async fn remove_some(
        &self,
        lease: &mut Lease<'_>,
        here: &[Value; 3],
        before: &Value,
        limit: usize,
    ) -> Attempt<usize> {
        let find = self.sql(
            "SELECT l.position, l.`key` FROM `{prefix}state_log` AS l FORCE INDEX (PRIMARY)
             WHERE l.app_name = ? AND l.scope = ? AND l.user_id = ? AND l.position < ? AND EXISTS (
                 SELECT 1 FROM `{prefix}state_log` AS later FORCE INDEX (state_log_by_key)
                 WHERE later.app_name = l.app_name AND later.scope = l.scope AND later.user_id = l.user_id
                     AND later.`key` = l.`key` AND later.position > l.position AND later.position < ?
             )
             ORDER BY l.position, l.`key` LIMIT ?",
        );
        let values = [&here[..], &[before.clone(), before.clone(), sql_limit(limit)]].concat();
        lease.renew();
        let found = lease.rows(&find, values).await?;
        let change = |row| {
            let mut cells = RowCells::from(row);
            let place = || "a change in a log".to_owned();
            Ok((cells.integer(0, place)?, cells.text(1, place)?))
        };
        let found = found.into_iter().map(change).collect::<Result<Vec<_>>>()?;
        if found.is_empty() {
            return Ok(0);
        }
        let delete = self.sql(
            "DELETE l FROM JSON_TABLE(?, '$[*]' COLUMNS (
                 position BIGINT PATH '$[0]' ERROR ON ERROR,
                 name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR
             )) AS j
             STRAIGHT_JOIN `{prefix}state_log` AS l FORCE INDEX (PRIMARY)
                 ON l.app_name = ? AND l.scope = ? AND l.user_id = ? AND l.position = j.position AND l.`key` = j.name",
        );
        lease.renew();
        lease.rows(&delete, [&[json(&found)?.into()], &here[..]].concat()).await?;
        Ok(found.len())
    }

    /// Locks a session that has not expired, and returns the number of its last event.
    async fn lock_session(&self, lease: &mut Lease<'_>, key: &SessionKey) -> Attempt<Option<u64>> {
        let place = || format!("the session {key}");
        let cells = self.lock_row(lease, key, "seq").await?;
        Ok(cells.map(|cells| rows::number(cells.integer(0, place)?, place)).transpose()?)
    }

    /// Returns the number of the event after which the fold of a session begins.
    async fn base(&self, lease: &mut Lease<'_>, key: &SessionKey) -> Attempt<Option<u64>> {
        let sql =
            self.sql("SELECT seq FROM `{prefix}initial_states` WHERE app_name = ? AND user_id = ? AND session_id = ?");
        let row = lease.rows(&sql, address(key).to_vec()).await?.into_iter().next();
        let place = || format!("the state where {key} begins");
        Ok(row.map(|row| rows::number(RowCells::from(row).integer(0, place)?, place)).transpose()?)
    }

    /// Deletes old records of removals that have a position in the feed.
    async fn let_placed_go(&self, values: Vec<Value>) -> Attempt<u64> {
        let sql = self.sql(
            "SELECT app_name, user_id, session_id, feed_position FROM `{prefix}removals` FORCE INDEX (removals_by_time)
             WHERE pruned = 0 AND time < ? AND feed_position > 0 ORDER BY time LIMIT ?",
        );
        let place = || "an old removal".to_owned();
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let mut old = Vec::new();
        for row in lease.rows(&sql, values).await? {
            let mut cells = RowCells::from(row);
            let [app, user, session] = [cells.text(0, place)?, cells.text(1, place)?, cells.text(2, place)?];
            old.push((app, user, session, cells.integer(3, place)?));
        }
        // All writers lock in this order.
        old.sort();
        let Some(rows) = json(&old)? else {
            lease.rollback().await?;
            return Ok(0);
        };
        let mut ends = BTreeMap::new();
        for (app, _, _, position) in &old {
            let end = ends.entry(app.as_str()).or_insert(*position);
            *end = (*end).max(*position);
        }
        let keep = self.sql(
            "INSERT INTO `{prefix}removal_ends` (app_name, position) VALUES (?, ?)
             ON DUPLICATE KEY UPDATE position = GREATEST(`{prefix}removal_ends`.position, VALUES(position))",
        );
        for (app, end) in ends {
            lease.renew();
            lease.rows(&keep, vec![app.into(), end.into()]).await?;
        }
        // A removal that was recorded again in the meantime has another position, and stays.
        let delete = self.sql(
            "DELETE r FROM JSON_TABLE(?, '$[*]' COLUMNS (
                 app VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                 user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                 id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                 n BIGINT PATH '$[3]' ERROR ON ERROR
             )) AS j
             STRAIGHT_JOIN `{prefix}removals` AS r FORCE INDEX (PRIMARY)
                 ON r.app_name = j.app AND r.user_id = j.user_id AND r.session_id = j.id AND r.pruned = 0
                 AND r.feed_position = j.n",
        );
        lease.renew();
        lease.rows(&delete, vec![rows.into()]).await?;
        lease.commit().await?;
        Ok(old.len() as u64)
    }
}
