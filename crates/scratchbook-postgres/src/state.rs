//! The state of users and apps as it is now.

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::changes::{ChangeColumns, owner};
use super::growth::StateLimit;
use super::lease::{BoundStatement, Lease};
use super::locks::KeyOwner;
use super::read::{column, sql_limit};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::plan::sql::text::{TextChange, prefix_end};
use scratchbook_core::session::{ListStateConfig, StateBytes, StateOwner, StatePage};
use scratchbook_core::state::MAX_KEY_BYTES;
pub(crate) use scratchbook_database::{Attempt, RowRoom, States};

#[async_trait]
impl States for Postgres {
    async fn state(&self, of: &StateOwner) -> Attempt<Map<String, Value>> {
        let [app, user, _] = owner(of);
        let rows = match of {
            StateOwner::User { .. } => {
                self.read_within(&self.statements.user_state, &[&app, &user], RowRoom::WHOLE, |_| false).await?
            }
            StateOwner::App { .. } => {
                self.read_within(&self.statements.app_state, &[&app], RowRoom::WHOLE, |_| false).await?
            }
        };
        Ok(values(of, &rows)?)
    }

    async fn state_bytes(&self, of: &StateOwner, session_id: Option<&str>) -> Attempt<StateBytes> {
        let [app, user, _] = owner(of);
        // No user and no session has an empty id.
        let rows = self.read(&self.statements.usage.of_state, &[&app, &user, &session_id.unwrap_or_default()]).await?;
        let place = || format!("the size of the state of {app}/{user}");
        let row = rows.first().ok_or_else(|| damaged(place()))?;
        let read = |index| rows::number(column(row, index, place)?, place);
        Ok(StateBytes { session: read(0)?, user: read(1)?, app: read(2)? })
    }

    async fn put_state(
        &self,
        of: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        let lease = self.connections.lease().await?;
        let write = StateWrite { changes, most: StateLimit::Enforced.most(limits), author, time };
        if let Some(position) = self.put_on(&lease, of, &write).await? {
            return Ok(position);
        }
        let owner = KeyOwner::of_state(of);
        lease.begin_with(&owner.locks(self, [of.scope()].into_iter())).await?;
        self.check_growth(&lease, &owner, limits, &[changes]).await?;
        let write = StateWrite { most: StateLimit::Checked.most(limits), ..write };
        let position = self.put_on(&lease, of, &write).await?;
        Ok(position.ok_or_else(|| Error::internal("a change that fits was not written"))?)
    }

    async fn list_state(&self, of: &StateOwner, config: &ListStateConfig, room: RowRoom) -> Attempt<StatePage> {
        let [app, user, _] = owner(of);
        let prefix = config.prefix.as_str();
        let after = config.after.as_deref();
        // Names with U+0000 are refused when they are written, so no name lies between this bound and the requested
        // one.
        let from = after.map_or(prefix, |after| after.max(prefix)).split('\0').next().unwrap_or_default();
        let upper = prefix_end(prefix).unwrap_or_else(after_all_keys);
        let limit = sql_limit(config.page_size + 1);
        let of_user = &self.statements.user_page;
        let of_app = &self.statements.app_page;
        let rows = match of {
            StateOwner::User { .. } => {
                let params: [&(dyn ToSql + Sync); 6] = [&app, &user, &from, &upper, &after, &limit];
                self.read_within(of_user, &params, room, |_| true).await?
            }
            StateOwner::App { .. } => {
                let params: [&(dyn ToSql + Sync); 5] = [&app, &from, &upper, &after, &limit];
                self.read_within(of_app, &params, room, |_| true).await?
            }
        };
        let values = values(of, &rows[..rows.len().min(config.page_size)])?;
        let next = if rows.len() > config.page_size { values.keys().next_back().cloned() } else { None };
        Ok(StatePage::new(values, next))
    }
}

impl Postgres {
    /// Changes keys on a connection that may be in a transaction, and commits the transaction. Returns `None` if the keys
    /// may not fit, and nothing was written.
    pub(super) async fn put_on(
        &self,
        lease: &Lease<'_>,
        of: &StateOwner,
        write: &StateWrite<'_>,
    ) -> Attempt<Option<u64>> {
        let StateWrite { changes, most: (most_keys, most_bytes), author, time } = write;
        let [app, user, _] = owner(of);
        let owner_row = KeyOwner::of_state(of);
        let mut steps = owner_row.locks(self, [of.scope()].into_iter());
        let statement = match of {
            StateOwner::User { .. } => &self.statements.put_user_state,
            StateOwner::App { .. } => &self.statements.put_app_state,
        };
        let mut columns = ChangeColumns::default();
        columns.add(0, owner(of), changes);
        let [ord, scope, slot, key, value] = columns.params();
        let added = columns.added(of.scope());
        let params =
            [ord, scope, slot, key, value, &app, &user, author, time, most_keys, &added.keys, &added.bytes, most_bytes];
        steps.push(BoundStatement::new(statement, params));
        let answers = lease.last_of(&steps).await?;
        let place = || format!("the position of a change just made to the state of {app}/{user}");
        let row = answers.last().and_then(|rows| rows.first()).ok_or_else(|| rows::damaged(place()))?;
        self.learn_listeners(row, 2);
        if column(row, 1, place)? {
            return Ok(None);
        }
        Ok(Some(rows::number(column(row, 0, place)?, place)?))
    }
}

/// Reads keys and their values.
fn values(of: &StateOwner, rows: &[Row]) -> Result<Map<String, Value>> {
    let [app, user, _] = owner(of);
    let scope = of.scope();
    let value = |row| {
        let name: String = column(row, 0, || format!("a key of {app}/{user}"))?;
        let place = || format!("the value of key '{}' of {app}/{user}", scope.key(&name));
        let value = rows::json(column(row, 1, place)?, place)?;
        Ok((name, value))
    };
    rows.iter().map(value).collect()
}

/// Returns a text that sorts after all keys: it repeats the greatest character and is longer than any key.
fn after_all_keys() -> String {
    char::MAX.to_string().repeat(MAX_KEY_BYTES / char::MAX.len_utf8() + 1)
}

/// Changes to a user's or an app's keys.
pub(super) struct StateWrite<'a> {
    pub(super) changes: &'a [TextChange],
    /// The maximum number of keys and bytes.
    pub(super) most: (i64, i64),
    pub(super) author: &'a str,
    pub(super) time: f64,
}
