//! How much is stored.

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::events::number;
use super::lease::Lease;
use super::row::{RowCells, address};
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{SessionKey, StateOwner};
use scratchbook_database::{Attempt, Usages};

/// The stored size of a session up to an event: `bytes` in the row of the session. The parameters are the session's
/// address, the event's number, and the address again.
pub(super) const STORED: &str = "(
        SELECT COALESCE(SUM(LENGTH(event)), 0) FROM `{prefix}events` FORCE INDEX (PRIMARY)
        WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq <= ?
    ) + COALESCE((
        SELECT LENGTH(state) FROM `{prefix}initial_states`
        WHERE app_name = ? AND user_id = ? AND session_id = ? AND state <> '{}'
    ), 0)";

#[async_trait]
impl Usages for MySql {
    async fn usage(&self, owner: &StateOwner) -> Attempt<Usage> {
        let of_user = if owner.user_id().is_some() { "AND user_id = ?" } else { "" };
        let sql = format!(
            "SELECT CAST(s.bytes + a.bytes AS SIGNED), s.many, a.many FROM (
                 SELECT COALESCE(SUM(bytes), 0) AS bytes, COUNT(*) AS many
                 FROM `{{prefix}}sessions` FORCE INDEX (PRIMARY) WHERE app_name = ? {of_user}
             ) AS s CROSS JOIN (
                 SELECT COALESCE(SUM(bytes), 0) AS bytes, COUNT(*) AS many
                 FROM `{{prefix}}artifacts` FORCE INDEX (artifacts_by_bytes) WHERE app_name = ? {of_user}
             ) AS a"
        );
        let here: Vec<_> = [Some(owner.app_name()), owner.user_id()].into_iter().flatten().map(Value::from).collect();
        self.read_usage(&sql, [&here[..], &here].concat()).await
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Attempt<Usage> {
        let sql = format!(
            "SELECT CAST({STORED} + a.bytes AS SIGNED), 1, a.many FROM (
                 SELECT COALESCE(SUM(bytes), 0) AS bytes, COUNT(*) AS many
                 FROM `{{prefix}}artifacts` FORCE INDEX (artifacts_by_bytes)
                 WHERE app_name = ? AND user_id = ? AND session_id = ?
             ) AS a"
        );
        let values = [stored(key, at.unwrap_or(u64::MAX)), address(key).to_vec()].concat();
        self.read_usage(&sql, values).await
    }
}

impl MySql {
    /// Subtracts the size of the events up to `end`, which are about to be pruned, and adds the size of `state`, which
    /// becomes the state with which the fold begins.
    pub(super) async fn take_off(&self, lease: &mut Lease<'_>, key: &SessionKey, end: u64, state: &str) -> Attempt<()> {
        let begins = if state == "{}" { 0 } else { state.len() as u64 };
        let sql = self.sql(&format!(
            "UPDATE `{{prefix}}sessions` SET bytes = GREATEST(bytes + ? - ({STORED}), 0)
             WHERE app_name = ? AND user_id = ? AND id = ?"
        ));
        lease.renew();
        lease.rows(&sql, [vec![number(begins)], stored(key, end), address(key).to_vec()].concat()).await.map(drop)
    }

    async fn read_usage(&self, sql: &str, values: Vec<Value>) -> Attempt<Usage> {
        let row = self.read(sql, values).await?.into_iter().next();
        let place = || "the size of what is stored".to_owned();
        let cells = RowCells::from(row.ok_or_else(|| damaged(place()))?);
        let number = |column| -> Result<u64> { rows::number(cells.integer(column, place)?, place) };
        Ok(Usage { bytes: number(0)?, sessions: number(1)?, artifacts: number(2)? })
    }
}

/// Returns the parameters of [`STORED`].
pub(super) fn stored(key: &SessionKey, until: u64) -> Vec<Value> {
    let here = address(key);
    [&here[..], &[number(until)], &here].concat()
}
