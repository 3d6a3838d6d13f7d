//! The log of a user's or an app's state: its changes page by page, and the changes to one key.

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::events::{number, sql_limit};
use super::row::RowCells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{StateChange, StateOwner};
use scratchbook_core::state::Scope;
use scratchbook_database::{Attempt, RowRoom, StateLogs};

/// The rows of one owner.
const OF_OWNER: &str = "app_name = ? AND scope = ? AND user_id = ?";

/// The columns of a change.
pub(super) const COLUMNS: &str =
    "l.position, l.`key`, l.version, l.value, l.session_user, l.session_id, l.seq, l.event_id, l.author, l.time";

#[async_trait]
impl StateLogs for MySql {
    async fn state_changes(
        &self,
        owner: &StateOwner,
        after: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        let Some(before_last) = limit.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let scope = owner.scope();
        let here = [owner.app_name(), scope.as_str(), owner.user_id().unwrap_or_default()].map(Value::from);
        let sql = format!(
            "(SELECT {COLUMNS} FROM `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
              WHERE {OF_OWNER} AND position > ? ORDER BY position, `key` LIMIT ?)
             UNION ALL SELECT {COLUMNS} FROM (
                 SELECT position, `key` FROM `{{prefix}}state_log` FORCE INDEX (PRIMARY)
                 WHERE {OF_OWNER} AND position > ? ORDER BY position, `key` LIMIT ?, 1
             ) AS last
             STRAIGHT_JOIN `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
                 ON l.app_name = ? AND l.scope = ? AND l.user_id = ? AND l.position = last.position
                     AND l.`key` > last.`key`"
        );
        let first = [&here[..], &[number(after), sql_limit(limit)]].concat();
        let last = [&here[..], &[number(after), sql_limit(before_last)]].concat();
        let rows = self.read_within(&sql, [&first[..], &last, &here].concat(), room, |_| true).await?;
        let mut changes = rows.into_iter().map(|row| change(owner, scope, row)).collect::<Result<Vec<_>>>()?;
        changes.sort_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
        Ok(changes)
    }

    async fn key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        let scope = owner.scope();
        let sql = format!(
            "SELECT {COLUMNS} FROM `{{prefix}}state_log` AS l FORCE INDEX (state_log_by_key)
             WHERE {OF_OWNER} AND `key` = ? AND position < ? ORDER BY position DESC LIMIT ?"
        );
        let here = [owner.app_name(), scope.as_str(), owner.user_id().unwrap_or_default(), name].map(Value::from);
        let values = [&here[..], &[number(before), sql_limit(limit)]].concat();
        let rows = self.read_within(&sql, values, room, |_| true).await?;
        Ok(rows.into_iter().map(|row| change(owner, scope, row)).collect::<Result<_>>()?)
    }
}

fn change(owner: &StateOwner, scope: Scope, row: Row) -> Result<StateChange> {
    change_of(owner, scope, &mut RowCells::from(row), 0)
}

/// Reads a change from the columns [`COLUMNS`], which begin at column `first` of the row.
pub(super) fn change_of(owner: &StateOwner, scope: Scope, cells: &mut RowCells, first: usize) -> Result<StateChange> {
    let app = owner.app_name();
    let user = owner.user_id().unwrap_or_default();
    let log = || format!("the log of {app}/{user}");
    let position = rows::number(cells.integer(first, log)?, log)?;
    let name = cells.text(first + 1, log)?;
    let place = || format!("the log of {}key '{name}' of {app}/{user} at position {position}", scope.prefix());
    let value = cells.optional_text(first + 3, place)?.map(|text| rows::json(&text, place)).transpose()?;
    let origin = match (cells.optional_text(first + 4, place)?, cells.optional_text(first + 5, place)?) {
        (Some(user), Some(session)) => {
            Some((stored_key(app, &user, &session)?, rows::number(cells.integer(first + 6, place)?, place)?))
        }
        _ => None,
    };
    Ok(StateChange {
        position,
        version: rows::number(cells.integer(first + 2, place)?, place)?,
        value,
        origin,
        event_id: cells.text(first + 7, place)?,
        author: cells.text(first + 8, place)?,
        time: cells.double(first + 9, place)?,
        name,
    })
}
