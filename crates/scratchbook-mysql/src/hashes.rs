//! The hashes of events, for seals.

use async_trait::async_trait;

use super::MySql;
use super::events::{number, sql_limit};
use super::row::{RowCells, address};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{EventHash, EventHashes, SessionKey};
use scratchbook_database::{Attempt, Hashes};

/// Reads the hashes of a session's events after a number. The result has one row for each of these events, or one row
/// without an event if there are no such events.
const READ: &str = "SELECT s.seq, COALESCE(i.seq, 0), e.seq, e.id, e.hash, e.text_hash
     FROM `{prefix}sessions` AS s
     LEFT JOIN `{prefix}initial_states` AS i
         ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
     LEFT JOIN (
         SELECT seq, id, hash, UNHEX(SHA2(event, 256)) AS text_hash
         FROM `{prefix}events` FORCE INDEX (PRIMARY)
         WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq > ? ORDER BY seq LIMIT ?
     ) AS e ON TRUE
     WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? AND (s.expire_time IS NULL OR s.expire_time > ?)
     ORDER BY e.seq";

#[async_trait]
impl Hashes for MySql {
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>> {
        let here = address(key);
        let values = [&here[..], &[number(after), sql_limit(limit)], &here, &[self.now().into()]].concat();
        let mut page = None;
        let mut events = Vec::new();
        for row in self.read(READ, values).await? {
            let mut cells = RowCells::from(row);
            let place = || format!("the session {key}");
            if page.is_none() {
                let last = rows::number(cells.integer(0, place)?, place)?;
                page = Some(EventHashes::new(rows::number(cells.integer(1, place)?, place)?, last));
            }
            let Some(seq) = cells.optional_integer(2, place)? else { continue };
            let place = || format!("the event {seq} of {key}");
            let text = cells.bytes(5).try_into().map_err(|_| rows::damaged(place()))?;
            let id = cells.text(3, place)?;
            events.push(EventHash::new(rows::number(seq, place)?, id, cells.bytes(4), text));
        }
        Ok(page.map(|page| page.with_events(events)))
    }
}
