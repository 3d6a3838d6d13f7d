//! The log of a user's or an app's state: its changes page by page, and the changes to one key.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::owner;
use super::read::{column, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{StateChange, StateOwner};
use scratchbook_core::state::Scope;
pub(crate) use scratchbook_database::{Attempt, RowRoom, StateLogs};

#[async_trait]
impl StateLogs for Postgres {
    async fn state_changes(
        &self,
        of: &StateOwner,
        after: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let [app, user, _] = owner(of);
        let scope = of.scope();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = sql_limit(limit);
        let params: [&(dyn ToSql + Sync); 5] = [&app, &scope.as_str(), &user, &after, &limit];
        let rows = self.read_within(&self.statements.state_changes, &params, room, |_| true).await?;
        Ok(rows.iter().map(|row| change(row, app, user, scope)).collect::<Result<_>>()?)
    }

    async fn key_changes(
        &self,
        of: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        let [app, user, _] = owner(of);
        let scope = of.scope();
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let limit = sql_limit(limit);
        if name.contains('\0') {
            return Ok(Vec::new());
        }
        let params: [&(dyn ToSql + Sync); 6] = [&app, &scope.as_str(), &user, &name, &before, &limit];
        let rows = self.read_within(&self.statements.key_changes, &params, room, |_| true).await?;
        Ok(rows.iter().map(|row| change(row, app, user, scope)).collect::<Result<_>>()?)
    }
}

pub(super) fn change(row: &Row, app: &str, user: &str, scope: Scope) -> Result<StateChange> {
    let of_log = || format!("the log of {app}/{user}");
    let position: i64 = column(row, 0, of_log)?;
    let name: String = column(row, 1, of_log)?;
    let place = || format!("the log of {}key '{name}' of {app}/{user} at position {position}", scope.prefix());
    let value: Option<&str> = column(row, 3, place)?;
    let session_user: Option<&str> = column(row, 4, place)?;
    let session: Option<&str> = column(row, 5, place)?;
    let origin = match session_user.zip(session) {
        Some((user, session)) => Some((stored_key(app, user, session)?, rows::number(column(row, 6, place)?, place)?)),
        None => None,
    };
    Ok(StateChange {
        position: rows::number(position, place)?,
        version: rows::number(column(row, 2, place)?, place)?,
        value: value.map(|text| rows::json(text, place)).transpose()?,
        origin,
        event_id: column(row, 7, place)?,
        author: column(row, 8, place)?,
        time: column(row, 9, place)?,
        name,
    })
}
