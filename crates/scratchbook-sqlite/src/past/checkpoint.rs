//! Makes checkpoints in the background, after appends: a reader computes them, and a small write that no caller
//! waits for stores them.

use std::path::Path;
use std::sync::{Arc, Weak};

use rusqlite::{Connection, params};

use super::fold;
use super::last_checkpoint::{self, LastCheckpoint};
use crate::Queues;
use crate::error::Fallible;
use crate::read;
use crate::row::sql_number;
use crate::transaction::Tx;
use crate::write_queue::{QueuedWrite, WriteJob};
use scratchbook_core::error::Result;
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::session::SessionKey;

/// The maximum number of events that one read folds, so that other reads do not wait for long. A read that has not
/// computed a checkpoint by then continues.
const EVENTS_AT_ONCE: u64 = 16 * CHECKPOINT_EVENTS;

/// A checkpoint that is not stored yet.
#[derive(Debug)]
pub(crate) struct NewCheckpoint {
    pub(crate) seq: u64,
    /// The feed position of the event. No other event ever has this position.
    pub(crate) position: i64,
    pub(crate) state: String,
}

/// Starts making the checkpoints that a session lacks.
pub(crate) fn make_checkpoints(queues: &Arc<Queues>, key: SessionKey) {
    let from = Arc::downgrade(queues);
    let read = read::without_answer(move |connection, path| find_missing(connection, path, &from, key));
    if queues.reads.push(read).is_err() {
        tracing::debug!("no checkpoint was made: the store was closed");
    }
}

/// Starts storing checkpoints that a read has computed.
pub(crate) fn keep_checkpoints(queues: &Arc<Queues>, key: SessionKey, new: Vec<NewCheckpoint>) {
    write(queues, StoreCheckpoints { key, new, then: None });
}

fn find_missing(connection: &Connection, path: &Path, queues: &Weak<Queues>, key: SessionKey) {
    let found = read::snapshot(connection, |connection| missing(connection, &key)).map_err(|e| e.into_error(path));
    match (found, queues.upgrade()) {
        (Ok((new, _)), _) if new.is_empty() => {}
        (Ok((new, done)), Some(open)) => {
            write(&open, StoreCheckpoints { key, new, then: (!done).then(|| Weak::clone(queues)) });
        }
        (Ok(_), None) => {}
        (Err(error), _) => tracing::debug!(%key, %error, "no checkpoint was made"),
    }
}

/// Returns the checkpoints that a session lacks, the earliest first, and whether these are all.
fn missing(connection: &Connection, key: &SessionKey) -> Fallible<(Vec<NewCheckpoint>, bool)> {
    // This also finds an expired session.
    let Some(stored) = fold::find(connection, key, i64::MIN)? else {
        return Ok((Vec::new(), true));
    };
    let last = stored.last - stored.last % CHECKPOINT_EVENTS;
    let before = stored.checkpoint_before(connection, last)?;
    if last <= before {
        return Ok((Vec::new(), true));
    }
    if stored.last == last {
        match last_checkpoint::find(connection, &stored, before)? {
            LastCheckpoint::Checkpoint(new) => return Ok((vec![new], true)),
            LastCheckpoint::TooLarge => return Ok((Vec::new(), true)),
            LastCheckpoint::Behind => {}
        }
    }
    let fold = stored.fold(connection, last, |count, new| count >= EVENTS_AT_ONCE && !new.is_empty())?;
    Ok((fold.missing, fold.folded.seq == last))
}

fn write(queues: &Arc<Queues>, keep: StoreCheckpoints) {
    let bytes = keep.new.iter().map(|new| new.state.len()).sum();
    // If the queue is full, the checkpoints are dropped: other writes are more important.
    queues.writes.submit_or_drop(QueuedWrite::without_answer(bytes, keep));
}

/// Stores checkpoints of a session.
struct StoreCheckpoints {
    key: SessionKey,
    new: Vec<NewCheckpoint>,
    /// The queues to continue with, if more checkpoints are missing.
    then: Option<Weak<Queues>>,
}

impl WriteJob for StoreCheckpoints {
    fn run(&mut self, tx: &Tx<'_>) -> Fallible<()> {
        self.new.iter().try_for_each(|new| store(tx, &self.key, new))
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                if let Some(queues) = self.then.and_then(|queues| queues.upgrade()) {
                    make_checkpoints(&queues, self.key);
                }
            }
            Err(error) => tracing::debug!(key = %self.key, %error, "a checkpoint was not stored"),
        }
    }
}

/// Stores a checkpoint if its event still exists: the session may have been deleted and created again.
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rusqlite::Connection;
    use serde_json::json;

    use super::{NewCheckpoint, keep_checkpoints, make_checkpoints};
    use crate::{SqliteOptions, SqliteSessionService};
    use scratchbook_core::event::Event;
    use scratchbook_core::session::CommitScope;
    use scratchbook_core::session::{CreateSessionConfig, SessionKey, SessionService};
    use scratchbook_core::state::StateDelta;

    fn config(life: &str) -> CreateSessionConfig {
        let event = |n| {
            let delta = StateDelta::new().with("n", format!("{life} {n}")).unwrap();
            Event::new("agent").with_id(format!("e{n}")).with_state_delta(delta)
        };
        CreateSessionConfig::default().with_session_id("s").with_events((1..=600).map(event).collect())
    }

    async fn stored(service: &SqliteSessionService) -> i64 {
        let sql = "SELECT count(*) FROM checkpoints";
        service.read(move |c: &Connection| Ok(c.query_row(sql, [], |row| row.get(0))?)).await.unwrap()
    }

    async fn until_one_is_stored(service: &SqliteSessionService) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while stored(service).await != 1 {
            assert!(Instant::now() < deadline, "none was made");
        }
    }

    #[tokio::test]
    async fn a_checkpoint_of_a_session_that_was_created_again_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let service = SqliteSessionService::open(folder.path().join("a.db"), SqliteOptions::default()).await.unwrap();
        let key = SessionKey::new("app", "alice", "s").unwrap();
        let created = |life| service.create_session("app", "alice", config(life));
        created("first").await.unwrap();
        let sql = "SELECT position FROM events WHERE seq = 512";
        let position = service.read(move |c| Ok(c.query_row(sql, [], |row| row.get(0))?)).await.unwrap();
        service.delete_session(&key).await.unwrap();
        created("second").await.unwrap();
        until_one_is_stored(&service).await;
        service.write(CommitScope::Nothing, 0, |tx| tx.execute("DELETE FROM checkpoints", [])).await.unwrap();
        // This checkpoint comes late: its address now belongs to another session, whose events have the same
        // numbers and ids.
        let state = json!({"n": [512, "first 512"]}).to_string();
        let queues = service.queues().unwrap();
        keep_checkpoints(&queues, key.clone(), vec![NewCheckpoint { seq: 512, position, state }]);
        // This write comes after the checkpoint's in the queue.
        service.write(CommitScope::Nothing, 0, |_| Ok(())).await.unwrap();
        assert_eq!(stored(&service).await, 0);
        let kept = service.get_state_at(&key, 512).await.unwrap();
        assert_eq!(json!(kept), json!({"n": "second 512"}));
        make_checkpoints(&queues, key.clone());
        until_one_is_stored(&service).await;
        let kept = service.get_state_at(&key, 513).await.unwrap();
        assert_eq!(json!(kept), json!({"n": "second 513"}));
    }
}
