//! Removals, which the feed shows.

use std::collections::BTreeMap;

use mysql_async::Value;

use super::MySql;
use super::batch::json;
use super::events::sql_limit;
use super::pool::{Care, Lease};
use super::row::Cells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{Removal, RemovalKind, SessionKey};
use scratchbook_database::Attempt;

impl MySql {
    /// Writes that a session was removed, or events of it up to a number; in place of an earlier removal of the same kind.
    /// Its row is locked.
    pub(super) async fn record(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        kind: RemovalKind,
        last: i64,
    ) -> Attempt<()> {
        let address = [key.app_name(), key.user_id(), key.session_id()].map(Value::from);
        if kind != RemovalKind::Pruned {
            let pruned = self.sql(
                "DELETE FROM `{prefix}removals` WHERE app_name = ? AND user_id = ? AND session_id = ? AND pruned = 1",
            );
            lease.renew();
            lease.rows(&pruned, address.to_vec()).await?;
        }
        self.insert(lease, address, kind, last).await
    }

    /// Writes that a user was removed, in place of all removals of the user's sessions. The user's row is locked.
    pub(super) async fn record_user(&self, lease: &mut Lease<'_>, user: &[Value; 2], sessions: usize) -> Attempt<()> {
        self.delete(lease, "removals", "WHERE app_name = ? AND user_id = ?", user).await?;
        let [app, user] = user.clone();
        self.insert(lease, [app, user, "".into()], RemovalKind::Erased, i64::try_from(sessions).unwrap_or(i64::MAX))
            .await
    }

    async fn insert(&self, lease: &mut Lease<'_>, address: [Value; 3], kind: RemovalKind, count: i64) -> Attempt<()> {
        let is = |wanted| i64::from(kind == wanted);
        let [app, user, _] = &address;
        // The log of a user who is removed begins again, before anything of a user of that name.
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

    /// Lets the oldest removals of sessions and users go that are older than a time, in microseconds: this many at most.
    /// Says how many.
    pub(super) async fn let_go(&self, before: i64, limit: usize) -> Attempt<u64> {
        let values = vec![Value::from(before), sql_limit(limit)];
        let sql = self.sql(
            "SELECT DISTINCT app_name FROM (
                 SELECT app_name, feed_position FROM `{prefix}removals` FORCE INDEX (removals_by_time)
                 WHERE pruned = 0 AND time < ? ORDER BY time LIMIT ?
             ) AS old WHERE feed_position < 0",
        );
        let mut lease = self.connections.lease(Care::Again).await?;
        let rows = lease.rows(&sql, values.clone()).await?;
        drop(lease);
        let place = || "an app with old removals".to_owned();
        let apps = rows.into_iter().map(|row| Cells::from(row).text(0, place)).collect::<Result<Vec<_>>>()?;
        for app in apps {
            // All have a place then, which is kept.
            self.number_all(&app).await?;
        }
        self.let_placed_go(values).await
    }

    /// The same of those that have a place in the feed.
    async fn let_placed_go(&self, values: Vec<Value>) -> Attempt<u64> {
        let sql = self.sql(
            "SELECT app_name, user_id, session_id, feed_position FROM `{prefix}removals` FORCE INDEX (removals_by_time)
             WHERE pruned = 0 AND time < ? AND feed_position > 0 ORDER BY time LIMIT ?",
        );
        let place = || "an old removal".to_owned();
        let mut lease = self.connections.lease(Care::Again).await?;
        lease.begin().await?;
        let mut old = Vec::new();
        for row in lease.rows(&sql, values).await? {
            let mut cells = Cells::from(row);
            let [app, user, session] = [cells.text(0, place)?, cells.text(1, place)?, cells.text(2, place)?];
            old.push((app, user, session, cells.integer(3, place)?));
        }
        // Everybody locks in this order.
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
        // One that was recorded again meanwhile has another place, and stays.
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

/// Reads a removal from a row of the feed.
pub(super) fn removal(app: &str, cells: &mut Cells) -> Result<Removal> {
    let place = || format!("a removal in the feed of {app}");
    let (user, session, kind) = (cells.text(3, place)?, cells.text(4, place)?, cells.text(8, place)?);
    let (count, time) =
        (cells.integer(5, place)?, scratchbook_core::session::seconds_of_micros(cells.integer(7, place)?));
    rows::removal(app, [&user, &session, &kind], rows::number(count, place)?, time)
}
