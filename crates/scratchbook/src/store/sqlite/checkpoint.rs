//! Checkpoints are made behind the appends: read by a reader, written by a small job that nobody waits for.

use std::path::Path;
use std::sync::{Arc, Weak};

use rusqlite::{Connection, params};

use super::Queues;
use super::error::Fallible;
use super::fold;
use super::read::sql_number;
use super::readers;
use super::transaction::Tx;
use super::writer::{Job, Queued};
use crate::error::Result;
use crate::session::SessionKey;
use crate::store::folded::CHECKPOINT_EVENTS;

/// How many events are folded in one go, where there is something to keep by then: other reads wait for it.
const EVENTS_AT_ONCE: u64 = 16 * CHECKPOINT_EVENTS;

/// A checkpoint that is not stored yet.
#[derive(Debug)]
pub(super) struct NewCheckpoint {
    pub(super) seq: u64,
    /// The feed position of the event, which no other event ever has.
    pub(super) position: i64,
    pub(super) state: String,
}

/// Has the checkpoints made that a session lacks, some time later.
pub(super) fn make(queues: &Arc<Queues>, key: SessionKey) {
    let from = Arc::downgrade(queues);
    let read = readers::unasked(move |connection, path| find_missing(connection, path, &from, key));
    if queues.reads.push(read).is_err() {
        tracing::debug!("no checkpoint was made: the store was closed");
    }
}

/// Has checkpoints written that somebody has come by, some time later.
pub(super) fn keep(queues: &Arc<Queues>, key: SessionKey, new: Vec<NewCheckpoint>) {
    write(queues, Keep { key, new, then: None });
}

fn find_missing(connection: &Connection, path: &Path, queues: &Weak<Queues>, key: SessionKey) {
    let found = readers::snapshot(connection, |connection| missing(connection, &key)).map_err(|e| e.into_error(path));
    match (found, queues.upgrade()) {
        (Ok((new, _)), _) if new.is_empty() => {}
        (Ok((new, done)), Some(open)) => write(&open, Keep { key, new, then: (!done).then(|| Weak::clone(queues)) }),
        (Ok(_), None) => {}
        (Err(error), _) => tracing::debug!(%key, %error, "no checkpoint was made"),
    }
}

/// What a session lacks, the earlier ones first, and whether that is all.
fn missing(connection: &Connection, key: &SessionKey) -> Fallible<(Vec<NewCheckpoint>, bool)> {
    // Whether it has expired is of no matter here.
    let Some(stored) = fold::find(connection, key, i64::MIN)? else {
        return Ok((Vec::new(), true));
    };
    let last = stored.last - stored.last % CHECKPOINT_EVENTS;
    if last <= stored.base {
        return Ok((Vec::new(), true));
    }
    let fold = stored.fold(connection, last, |count, new| count >= EVENTS_AT_ONCE && !new.is_empty())?;
    Ok((fold.missing, fold.folded.seq == last))
}

fn write(queues: &Arc<Queues>, keep: Keep) {
    let bytes = keep.new.iter().map(|new| new.state.len()).sum();
    // Where the queue is full there is more important work.
    let Ok(place) = queues.room.try_acquire() else {
        return;
    };
    if queues.writes.push(Queued::unasked(bytes, keep)).is_ok() {
        place.forget();
    }
}

/// Writes checkpoints of a session.
struct Keep {
    key: SessionKey,
    new: Vec<NewCheckpoint>,
    /// Whom to ask for those that follow.
    then: Option<Weak<Queues>>,
}

impl Job for Keep {
    fn run(&mut self, tx: &Tx<'_>) -> Fallible<()> {
        self.new.iter().try_for_each(|new| store(tx, &self.key, new))
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                if let Some(queues) = self.then.and_then(|queues| queues.upgrade()) {
                    make(&queues, self.key);
                }
            }
            Err(error) => tracing::debug!(key = %self.key, %error, "a checkpoint was not stored"),
        }
    }
}

/// Stores a checkpoint, unless its event is not there any more: the session may have been deleted and made anew.
fn store(tx: &Tx<'_>, key: &SessionKey, new: &NewCheckpoint) -> Fallible<()> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    tx.execute(
        "INSERT INTO checkpoints (app_name, user_id, session_id, seq, state)
         SELECT app_name, user_id, session_id, seq, ?6 FROM events
         WHERE position = ?5 AND app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4
         ON CONFLICT DO NOTHING",
        params![app, user, session, sql_number(new.seq), new.position, new.state],
    )?;
    Ok(())
}
