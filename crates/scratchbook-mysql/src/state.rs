//! The state of users and apps as it is now.

use async_trait::async_trait;
use mysql_async::Value;
use serde_json::Map;

use super::MySql;
use super::batch;
use super::events::sql_limit;
use super::procedure::{AssignedNumbers, ProcedureRow, strange};
use super::read::{UNION, add_state, insert};
use super::row::RowCells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::query::StateQuery;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::{TextChange, prefix_end};
use scratchbook_core::session::{ListStateConfig, StateBytes, StateOwner, StatePage};
use scratchbook_core::state::{Scope, ScopeMap};
use scratchbook_database::{Attempt, Idempotency, RowRoom, States};

#[async_trait]
impl States for MySql {
    async fn state(&self, owner: &StateOwner) -> Attempt<Map<String, serde_json::Value>> {
        let (scope, address) = match owner.user_id() {
            Some(user) => (Scope::User, vec![owner.app_name(), user]),
            None => (Scope::App, vec![owner.app_name()]),
        };
        let mut sql = String::new();
        let mut values = Vec::new();
        add_state(&mut sql, &mut values, &address, scope, &StateQuery::All);
        let sql = sql.trim_start_matches(UNION);
        let rows = self.read_within(sql, values, RowRoom::WHOLE, |_| false).await?;
        let mut state = ScopeMap::new();
        for row in rows {
            insert(&mut state, scope, &address, RowCells::from(row))?;
        }
        Ok(state.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect())
    }

    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Attempt<StateBytes> {
        let (app, user, session) =
            (owner.app_name(), owner.user_id().unwrap_or_default(), session_id.unwrap_or_default());
        let sum_of = |table: &str, of: &str| {
            format!(
                "(SELECT CAST(COALESCE(SUM(LENGTH(`key`) + LENGTH(value)), 0) AS SIGNED) FROM `{{prefix}}{table}`
                 FORCE INDEX (PRIMARY) WHERE {of} AND value IS NOT NULL)"
            )
        };
        let sql = format!(
            "SELECT {}, {}, {}",
            sum_of("session_states", "app_name = ? AND user_id = ? AND session_id = ?"),
            sum_of("user_states", "app_name = ? AND user_id = ?"),
            sum_of("app_states", "app_name = ?"),
        );
        // No user and no session has an empty id.
        let row = self.read(&sql, [app, user, session, app, user, app].map(Value::from).to_vec()).await?;
        let place = || format!("the size of the state of {app}/{user}");
        let cells = RowCells::from(row.into_iter().next().ok_or_else(|| rows::damaged(place()))?);
        let read = |column| -> Result<u64> { rows::number(cells.integer(column, place)?, place) };
        Ok(StateBytes { session: read(0)?, user: read(1)?, app: read(2)? })
    }

    async fn put_state(
        &self,
        owner: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        let answers = self.call(batch::state(owner, changes, author, time)?, Idempotency::NotIdempotent).await?;
        if matches!(answers.as_slice(), [ProcedureRow::Full(_)]) {
            return self.put_counted(owner, changes, limits, author, time).await;
        }
        Ok(position(&answers)?)
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig, room: RowRoom) -> Attempt<StatePage> {
        let (scope, table, address) = match owner.user_id() {
            Some(user) => (Scope::User, "user_states", vec![owner.app_name(), user]),
            None => (Scope::App, "app_states", vec![owner.app_name()]),
        };
        let of_user = if scope == Scope::User { "AND user_id = ?" } else { "" };
        let mut values: Vec<_> = address.iter().map(|id| Value::from(*id)).collect();
        let mut bounds = String::from("`key` >= ?");
        values.push((&config.prefix).into());
        if let Some(end) = prefix_end(&config.prefix) {
            bounds += " AND `key` < ?";
            values.push(end.into());
        }
        if let Some(after) = &config.after {
            bounds += " AND `key` > ?";
            values.push(after.into());
        }
        values.push(sql_limit(config.page_size + 1));
        let sql = format!(
            "SELECT 0, `key`, value FROM `{{prefix}}{table}` FORCE INDEX (PRIMARY)
             WHERE app_name = ? {of_user} AND {bounds} AND value IS NOT NULL ORDER BY `key` LIMIT ?"
        );
        let rows = self.read_within(&sql, values, room, |_| true).await?;
        let more = rows.len() > config.page_size;
        let mut page = ScopeMap::new();
        for row in rows.into_iter().take(config.page_size) {
            insert(&mut page, scope, &address, RowCells::from(row))?;
        }
        let values: Map<_, _> = page.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect();
        let next = values.keys().next_back().filter(|_| more).cloned();
        Ok(StatePage::new(values, next))
    }
}

/// Returns the position of a change to the state of one owner.
pub(super) fn position(answers: &[ProcedureRow]) -> Result<u64> {
    let [ProcedureRow::Done(AssignedNumbers { users, apps, .. })] = answers else {
        return Err(strange("no position"));
    };
    let position = users.get(&0).or_else(|| apps.get(&0)).ok_or_else(|| strange("no position"))?;
    rows::number(*position, || "the position of a change just made".to_owned())
}
