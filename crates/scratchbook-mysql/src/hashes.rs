//! The hashes of stored events, for a verification.

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::events::{number, sql_limit};
use super::row::{RowCells, address};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{EventHash, EventHashes, SessionKey};
use scratchbook_database::{Attempt, Hashes};

#[async_trait]
impl Hashes for MySql {
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>> {
        // One row for each event, or one row without an event if there are none.
        let sql = "SELECT s.seq, COALESCE(i.seq, 0), e.seq, e.id, e.hash, e.text_hash
             FROM `{prefix}sessions` AS s
             LEFT JOIN `{prefix}initial_states` AS i
                 ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
             LEFT JOIN (
                 SELECT seq, id, hash, UNHEX(SHA2(event, 256)) AS text_hash FROM `{prefix}events` FORCE INDEX (PRIMARY)
                 WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq > ? ORDER BY seq LIMIT ?
             ) AS e ON TRUE
             WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? AND (s.expire_time IS NULL OR s.expire_time > ?)
             ORDER BY e.seq";
        let here = address(key);
        let now = Value::from(self.now());
        let values = [&here[..], &[number(after), sql_limit(limit)], &here, &[now]].concat();
        let place = || format!("the session {key}");
        let mut page = None;
        let mut events = Vec::new();
        for row in self.read(sql, values).await? {
            let mut cells = RowCells::from(row);
            let last = rows::number(cells.integer(0, place)?, place)?;
            page = Some(EventHashes::new(rows::number(cells.integer(1, place)?, place)?, last));
            let Some(seq) = cells.optional_integer(2, place)? else { continue };
            let place = || format!("the event {seq} of {key}");
            let id = cells.text(3, place)?;
            let text = cells.bytes(5).try_into().map_err(|_| rows::damaged(place()))?;
            events.push(EventHash::new(rows::number(seq, place)?, id, cells.bytes(4), text));
        }
        Ok(page.map(|page: EventHashes| page.with_events(events)))
    }
}
