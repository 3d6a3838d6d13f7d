//! The running hash of events: reading it for verification, and computing it for events that have none.

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::events::{number, sql_limit};
use super::lease::Lease;
use super::row::{RowCells, address};
use scratchbook_core::error::Result;
use scratchbook_core::plan::running_hash::{StoredStart, Unhashed};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{EventHash, EventHashes, RunningHash, SessionKey};
use scratchbook_database::{Attempt, HashedSession, Hashes, Idempotency};

/// Reads the running hashes of a session and of its initial state, and the hashes of the events after a number. The
/// result has one row for each of these events, or one row without an event if there are no such events.
const READ: &str = "SELECT s.seq, s.hashed_seq, s.running_hash, COALESCE(i.seq, 0), i.running_hash,
         COALESCE(i.hashed_seq, 0), e.seq, e.hash, e.text_hash, e.running_hash
     FROM `{prefix}sessions` AS s
     LEFT JOIN `{prefix}initial_states` AS i
         ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
     LEFT JOIN (
         SELECT seq, hash, UNHEX(SHA2(event, 256)) AS text_hash, running_hash
         FROM `{prefix}events` FORCE INDEX (PRIMARY)
         WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq > ? ORDER BY seq LIMIT ?
     ) AS e ON TRUE
     WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? AND (s.expire_time IS NULL OR s.expire_time > ?)
     ORDER BY e.seq";

#[async_trait]
impl Hashes for MySql {
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>> {
        let rows = self.read(READ, parameters(key, after, limit, self.now())).await?;
        Ok(session_of(key, rows)?.map(|session| session.page(key)))
    }

    async fn unhashed(&self, limit: usize) -> Attempt<Vec<SessionKey>> {
        let sql = "SELECT app_name, user_id, id FROM `{prefix}sessions` FORCE INDEX (sessions_unhashed)
             WHERE is_unhashed = 1 LIMIT ?";
        let key = |row| {
            let (mut cells, place) = (RowCells::from(row), || "a session without a running hash".to_owned());
            rows::stored_key(&cells.text(0, place)?, &cells.text(1, place)?, &cells.text(2, place)?)
        };
        Ok(self.read(sql, vec![sql_limit(limit)]).await?.into_iter().map(key).collect::<Result<_>>()?)
    }

    async fn fill_hashes(&self, key: &SessionKey, limit: usize) -> Attempt<u64> {
        let here = address(key);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let lock = self.sql(
            "SELECT s.hashed_seq, COALESCE((
                 SELECT i.seq FROM `{prefix}initial_states` AS i
                 WHERE i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
             ), 0)
             FROM `{prefix}sessions` AS s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? FOR UPDATE",
        );
        let place = || format!("the session {key}");
        let Some(row) = lease.rows(&lock, here.to_vec()).await?.into_iter().next() else {
            lease.rollback().await?;
            return Ok(0);
        };
        let cells = RowCells::from(row);
        // The column is -1 in a session without a running hash. Such a session may have no events.
        let hashed = cells.integer(0, place)?;
        let after = rows::number(hashed.max(cells.integer(1, place)?), place)?;
        let found = lease.rows(&self.sql(READ), parameters(key, after, limit, i64::MIN)).await?;
        let Some(found) = session_of(key, found)?.filter(|found| hashed < found.last_number()) else {
            lease.rollback().await?;
            return Ok(0);
        };
        let Unhashed { after, hash, is_start } = Unhashed::find(key, found.hashed, found.head, found.start);
        if is_start {
            let sql = self.sql(
                "UPDATE `{prefix}initial_states` SET running_hash = ?, hashed_seq = seq
                 WHERE app_name = ? AND user_id = ? AND session_id = ?",
            );
            lease.rows(&sql, [&[bytes(hash)][..], &here].concat()).await?;
        }
        let (mut reached, mut running, mut hashes, mut count) = (after, hash, String::new(), 0);
        let first = found.events.first().map_or(0, |event| event.seq);
        // One statement writes the hashes of events without a gap between them.
        let without_gap = found.events.iter().zip(first..).take_while(|(event, seq)| event.seq == *seq);
        for (event, _) in without_gap {
            (reached, running) = (event.seq, running.next(event.seq, &event.sent, &event.text));
            hashes.push_str(&running.to_string());
            count += 1;
        }
        if count > 0 {
            let sql = self.sql(
                "UPDATE `{prefix}events` SET running_hash = UNHEX(SUBSTRING(?, 64 * (seq - ?) + 1, 64))
                 WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq >= ? AND seq <= ?",
            );
            let values = [&[Value::from(hashes), number(first)][..], &here, &[number(first), number(reached)]].concat();
            lease.rows(&sql, values).await?;
        }
        // The last events may be missing.
        let reached = if count == found.events.len() && count < limit { found.last } else { reached };
        let head = self.sql(
            "UPDATE `{prefix}sessions` SET hashed_seq = ?, running_hash = ? WHERE app_name = ? AND user_id = ? AND id = ?",
        );
        lease.rows(&head, [&[number(reached), bytes(running)][..], &here].concat()).await?;
        lease.commit().await?;
        Ok((count as u64).max(1))
    }
}

impl MySql {
    /// Stores the running hash up to an event, the last to be pruned, as the hash before the first remaining event.
    pub(super) async fn set_base_hash(&self, lease: &mut Lease<'_>, key: &SessionKey, seq: u64) -> Attempt<()> {
        let (here, seq) = (address(key), [number(seq)]);
        let sql = self.sql(
            "SELECT running_hash FROM `{prefix}events`
             WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq = ? AND running_hash IS NOT NULL",
        );
        let Some(row) = lease.rows(&sql, [&here[..], &seq].concat()).await?.into_iter().next() else {
            return Ok(());
        };
        let hash = Value::from(RowCells::from(row).bytes(0));
        let sql = self.sql(
            "UPDATE `{prefix}initial_states` SET running_hash = ?, hashed_seq = ?
             WHERE app_name = ? AND user_id = ? AND session_id = ?",
        );
        lease.rows(&sql, [&[hash][..], &seq, &here].concat()).await.map(drop)
    }
}

fn parameters(key: &SessionKey, after: u64, limit: usize, now: i64) -> Vec<Value> {
    let here = address(key);
    [&here[..], &[number(after), sql_limit(limit)], &here, &[now.into()]].concat()
}

fn bytes(hash: RunningHash) -> Value {
    hash.as_bytes().to_vec().into()
}

/// Reads what a session's rows contain about its running hash, and a page of its events.
fn session_of(key: &SessionKey, rows: Vec<Row>) -> Result<Option<HashedSession>> {
    let (mut session, mut events) = (None, Vec::with_capacity(rows.len()));
    let place = || format!("the session {key}");
    for row in rows {
        let mut cells = RowCells::from(row);
        if session.is_none() {
            let number = |at| rows::number(cells.integer(at, place)?, place);
            let (last, base, start) = (number(0)?, number(3)?, number(5)?);
            // The column is -1 in a session without a running hash.
            let hashed = cells.integer(1, place)?.max(0).unsigned_abs();
            let head = running(&mut cells, 2, place)?;
            let start = StoredStart { base, hash: running(&mut cells, 4, place)?, hashed: start };
            session = Some((last, hashed, head, start));
        }
        let Some(seq) = cells.optional_integer(6, place)? else { continue };
        let place = || format!("the event {seq} of {key}");
        let text = cells.bytes(8).try_into().map_err(|_| rows::damaged(place()))?;
        let (sent, running) = (cells.bytes(7), running(&mut cells, 9, place)?);
        events.push(EventHash::new(rows::number(seq, place)?, sent, text, running));
    }
    Ok(session.map(|(last, hashed, head, start)| HashedSession { last, hashed, head, start, events }))
}

/// Reads a running hash; NULL has no bytes.
fn running(cells: &mut RowCells, at: usize, place: impl Fn() -> String) -> Result<Option<RunningHash>> {
    let bytes = cells.bytes(at);
    RunningHash::stored((!bytes.is_empty()).then_some(bytes.as_slice()), place)
}
