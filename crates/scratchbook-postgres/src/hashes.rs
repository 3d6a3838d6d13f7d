//! The running hash of events: reading it for verification, and computing it for events that have none.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::Postgres;
use super::lease::{BoundStatement, Lease};
use super::locks::param;
use super::read::{column, sql_limit};
use scratchbook_core::error::Result;
use scratchbook_core::plan::running_hash::{StoredStart, Unhashed};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{EventHash, EventHashes, RunningHash, SessionKey};
pub(crate) use scratchbook_database::{Attempt, HashedSession, Hashes};

#[async_trait]
impl Hashes for Postgres {
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let (after, limit, now) = (i64::try_from(after).unwrap_or(i64::MAX), sql_limit(limit), self.now());
        let statement = &self.statements.hashes.read;
        let rows = self.read(statement, &[&app, &user, &session, &after, &limit, &now]).await?;
        Ok(session_of(key, &rows)?.map(|session| session.page(key)))
    }

    async fn unhashed(&self, limit: usize) -> Attempt<Vec<SessionKey>> {
        let place = || "a session without a running hash".to_owned();
        let key = |row: &Row| rows::stored_key(column(row, 0, place)?, column(row, 1, place)?, column(row, 2, place)?);
        let rows = self.read(&self.statements.hashes.unhashed, &[&sql_limit(limit)]).await?;
        Ok(rows.iter().map(key).collect::<Result<_>>()?)
    }

    async fn fill_hashes(&self, key: &SessionKey, limit: usize) -> Attempt<u64> {
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let statements = &self.statements.hashes;
        let (any_time, count) = (i64::MIN, sql_limit(limit));
        let lease: Lease<'_> = self.connections.lease().await?;
        let locks = [BoundStatement::new(&statements.lock, [param(&app), &user, &session, &any_time])];
        let locked = lease.begin_with(&locks).await?.pop().unwrap_or_default();
        let Some(row) = locked.first() else {
            return Ok(0);
        };
        // The locked row and the row of the initial state say where the events without a running hash begin.
        let place = || format!("the session {key}");
        // The column is -1 in a session without a running hash. Such a session may have no events.
        let hashed: i64 = column(row, 0, place)?;
        let base: i64 = column(row, 1, place)?;
        let after = hashed.max(base);
        let rows = lease.query(&statements.read, &[&app, &user, &session, &after, &count, &any_time]).await?;
        let Some(found) = session_of(key, &rows)?.filter(|found| hashed < found.last_number()) else {
            return Ok(0);
        };
        let Unhashed { after, mut hash, is_start } = Unhashed::find(key, found.hashed, found.head, found.start);
        if is_start {
            lease.query(&statements.set_start, &[&app, &user, &session, &hash.as_bytes().as_slice()]).await?;
        }
        let (mut seqs, mut hashes) = (Vec::with_capacity(limit), Vec::with_capacity(limit));
        for event in &found.events {
            hash = hash.next(event.seq, &event.sent, &event.text);
            seqs.push(i64::try_from(event.seq).unwrap_or(i64::MAX));
            hashes.push(hash.as_bytes().to_vec());
        }
        // The last events may be missing.
        let reached = match found.events.len() < limit {
            true => found.last_number(),
            false => seqs.last().copied().unwrap_or_else(|| i64::try_from(after).unwrap_or(i64::MAX)),
        };
        lease.query(&statements.set_events, &[&app, &user, &session, &seqs, &hashes]).await?;
        lease.query(&statements.set_head, &[&app, &user, &session, &reached, &hash.as_bytes().as_slice()]).await?;
        lease.commit().await?;
        Ok((seqs.len() as u64).max(1))
    }
}

/// Reads what a session's rows contain about its running hash, and a page of its events.
fn session_of(key: &SessionKey, rows: &[Row]) -> Result<Option<HashedSession>> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let place = || format!("the session {key}");
    let number = |at| rows::number(column(row, at, place)?, place);
    let start = StoredStart { base: number(3)?, hash: running(row, 4, place)?, hashed: number(5)? };
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let seq: Option<i64> = column(row, 6, place)?;
        let Some(seq) = seq else { continue };
        let place = || format!("the event {seq} of {key}");
        let text: Vec<u8> = column(row, 8, place)?;
        let text = text.try_into().map_err(|_| rows::damaged(place()))?;
        let (seq, sent) = (rows::number(seq, place)?, column(row, 7, place)?);
        events.push(EventHash::new(seq, sent, text, running(row, 9, place)?));
    }
    // The column is -1 in a session without a running hash.
    let hashed: i64 = column(row, 1, place)?;
    let hashed = hashed.max(0).unsigned_abs();
    Ok(Some(HashedSession { last: number(0)?, hashed, head: running(row, 2, place)?, start, events }))
}

/// Returns the running hash in a column.
pub(super) fn running(row: &Row, at: usize, place: impl Fn() -> String) -> Result<Option<RunningHash>> {
    let bytes: Option<&[u8]> = column(row, at, &place)?;
    RunningHash::stored(bytes, place)
}
