//! The list of apps and users.

use std::collections::BTreeSet;

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::events::sql_limit;
use super::row::RowCells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::session::StateOwner;
use scratchbook_database::{Attempt, Owners};

#[async_trait]
impl Owners for MySql {
    /// Lists owners. Not every user has a row, so sessions and artifacts are searched as well.
    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>> {
        let (apps, users) = match after {
            None => (">=", ">="),
            Some(StateOwner::App { .. }) => (">", ">="),
            Some(StateOwner::User { .. }) => (">", ">"),
        };
        let app = after.map_or("", StateOwner::app_name);
        let user = after.and_then(StateOwner::user_id).unwrap_or_default();
        let mut sql = format!(
            "(SELECT app_name, NULL AS user_id FROM `{{prefix}}apps` WHERE app_name {apps} ? ORDER BY app_name LIMIT ?)"
        );
        let mut values = vec![Value::from(app), sql_limit(limit)];
        for table in ["users", "sessions", "artifacts"] {
            // The columns are not compared as a pair, because no index is used for that.
            sql += &format!(
                " UNION ALL (SELECT DISTINCT app_name, user_id FROM `{{prefix}}{table}`
                 WHERE app_name > ? OR (app_name = ? AND user_id {users} ?) ORDER BY app_name, user_id LIMIT ?)"
            );
            values.extend([app.into(), app.into(), user.into(), sql_limit(limit)]);
        }
        let rows = self.read(&sql, values).await?;
        let mut owners = BTreeSet::new();
        for row in rows {
            let found = owner(row)?;
            owners.insert(StateOwner::App { app_name: found.app_name().into() });
            owners.insert(found);
        }
        // The app in which the page begins was returned by the previous page.
        Ok(owners.into_iter().filter(|owner| after.is_none_or(|after| owner > after)).take(limit).collect())
    }
}

fn owner(row: Row) -> Result<StateOwner> {
    let place = || "a row of the apps and users".to_owned();
    let mut cells = RowCells::from(row);
    let app = cells.text(0, place)?;
    let user = cells.optional_text(1, place)?;
    let owner = user.map_or_else(|| StateOwner::app(&app), |user| StateOwner::user(&app, &user));
    owner.map_err(|e| damaged(place()).with_source(e))
}
