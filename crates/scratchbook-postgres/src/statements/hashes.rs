//! The statements for the running hash of events.

use super::{BYTES, Fill, NUMBER, NUMBERS, ONE_HASH, Statement, TEXT};
use scratchbook_core::plan::running_hash::EVENT;

statements! {
    /// The statements that read and write running hashes.
    Hashes(fill) {
        read: Statement =
            fill.statement(include_str!("../sql/event_hashes.sql"), &[TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER]),
        /// Finds sessions with events that have no running hash.
        unhashed: Statement = fill.statement(
            "SELECT app_name, user_id, id FROM {schema}.sessions WHERE hashed_seq < seq
             ORDER BY app_name, user_id, id LIMIT $1",
            &[NUMBER],
        ),
        /// Locks the session as an append does.
        lock: Statement = fill.locking(
            "hashed_seq, coalesce((
                 SELECT i.seq FROM {schema}.initial_states AS i
                 WHERE i.app_name = $1 AND i.user_id = $2 AND i.session_id = $3
             ), 0)",
            "NO KEY UPDATE",
        ),
        set_start: Statement = fill.statement(
            "UPDATE {schema}.initial_states SET running_hash = $4, hashed_seq = seq
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
            &[TEXT, TEXT, TEXT, ONE_HASH],
        ),
        // Each event is found by the primary key, whatever plan the planner prefers.
        set_events: Statement = fill.statement(
            "UPDATE {schema}.events AS e SET running_hash = t.hash
             FROM unnest($4::bigint[], $5::bytea[]) AS t (seq, hash)
             WHERE e.app_name = $1 AND e.user_id = $2 AND e.session_id = $3 AND e.seq = t.seq",
            &[TEXT, TEXT, TEXT, NUMBERS, BYTES],
        ),
        // The row exists, and the upsert uses the primary key.
        set_head: Statement = fill.statement(
            "INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position,
                 hashed_seq, running_hash)
             VALUES ($1, $2, $3, 0, 0, 0, '', 0, $4, $5)
             ON CONFLICT (app_name, user_id, id)
                 DO UPDATE SET hashed_seq = excluded.hashed_seq, running_hash = excluded.running_hash",
            &[TEXT, TEXT, TEXT, NUMBER, ONE_HASH],
        ),
        /// Stores the running hash up to the event $4 as the running hash before the first remaining event.
        set_base: Statement = fill.statement(
            "UPDATE {schema}.initial_states AS i SET running_hash = e.running_hash, hashed_seq = e.seq
             FROM (
                 SELECT f.seq, f.running_hash FROM {schema}.events AS f
                 WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3 AND f.seq >= $4 AND f.seq <= $4
                 ORDER BY f.seq LIMIT 1
             ) AS e
             WHERE i.app_name = $1 AND i.user_id = $2 AND i.session_id = $3 AND e.running_hash IS NOT NULL",
            &[TEXT, TEXT, TEXT, NUMBER],
        ),
    }
}

/// Returns the running hash after an event, as `RunningHash::next` computes it: from the running hash before it,
/// followed by the event's number, the event's hash and the hash of its text.
pub(super) fn next(before: &str, event: &str) -> String {
    format!("pg_catalog.sha256('{EVENT}'::bytea || {before} || {event})")
}
