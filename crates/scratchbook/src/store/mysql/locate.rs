//! Sessions by their ids alone.

use super::MySql;
use super::pool::Care;
use super::row::Cells;
use crate::error::Result;
use crate::store::database::Attempt;

impl MySql {
    pub(super) async fn read_users_with(&self, app: &str, session: &str) -> Attempt<Vec<String>> {
        let sql = self.sql(
            "SELECT user_id FROM `{prefix}sessions`
             WHERE app_name = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?) LIMIT 2",
        );
        let mut lease = self.connections.lease(Care::Again).await?;
        let rows = lease.rows(&sql, vec![app.into(), session.into(), self.now().into()]).await?;
        drop(lease);
        let user = |row| Cells::from(row).text(0, || format!("the user of a session {session} of {app}"));
        Ok(rows.into_iter().map(user).collect::<Result<_>>()?)
    }
}
