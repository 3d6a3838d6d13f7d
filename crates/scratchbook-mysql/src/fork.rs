//! Forks of sessions, whose events are copied by the server.

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::batch::json;
use super::events::number;
use super::lease::Lease;
use super::past::PastHead;
use super::removals::LOCK_USER;
use super::row::{RowCells, address};
use super::usage::{STORED, stored};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::json;
use scratchbook_core::plan::fork::check_event_number;
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::TextMetadata;
use scratchbook_core::session::{Session, micros_of_seconds, no_session};
use scratchbook_database::{Attempt, CommitFate, Failure, Forks, Idempotency, NewFork, PastScopes, Reads, RowRoom};

/// The maximum number of events or keys that one statement copies, so that each statement ends well within the timeout.
const AT_ONCE: u64 = 5000;

/// The maximum size of the keys and values in one statement, unless a single one is larger.
const BYTES_AT_ONCE: usize = 4 << 20;

#[async_trait]
impl Forks for MySql {
    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let (at, created, metadata) = self.lock_source(&mut lease, new).await?;
        let head = self.head(&mut lease, &new.source, at).await?.ok_or_else(|| no_session(&new.source))?;
        check_event_number(&new.source, at, head.base, head.last)?;
        let updated = head.time.map_or(created, micros_of_seconds);
        if !self.insert_fork(&mut lease, new, &head, at, (updated, token), metadata).await? {
            lease.rollback().await?;
            drop(lease);
            return self.forked_before(new, token).await;
        }
        let source = address(&new.source);
        let target = address(&new.key);
        let to_at = [&target[2..], &source, &[number(at)]].concat();
        let events = (head.base, at);
        self.copy_events(&mut lease, &source, &target, events).await?;
        if at == head.last {
            let sql = "INSERT INTO `{prefix}session_states` (app_name, user_id, session_id, `key`, value, seq)
                SELECT app_name, user_id, ?, `key`, value, seq FROM `{prefix}session_states`
                WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq <= ?";
            lease.renew();
            lease.rows(&self.sql(sql), to_at.clone()).await?;
        } else {
            self.write_keys(&mut lease, new, at, head).await?;
        }
        let checkpoints = "INSERT INTO `{prefix}checkpoints` (app_name, user_id, session_id, seq, state)
            SELECT app_name, user_id, ?, seq, state FROM `{prefix}checkpoints`
            WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq <= ?";
        lease.renew();
        lease.rows(&self.sql(checkpoints), to_at).await?;
        let artifacts = "INSERT INTO `{prefix}artifacts` (app_name, user_id, session_id, filename, version, mime_type,
                custom_metadata, create_time, artifact)
            SELECT app_name, user_id, ?, filename, version, mime_type, custom_metadata, create_time, artifact
            FROM `{prefix}artifacts` WHERE app_name = ? AND user_id = ? AND session_id = ?";
        lease.renew();
        lease.rows(&self.sql(artifacts), [&target[2..], &source].concat()).await?;
        lease.commit().await?;
        drop(lease);
        self.session(&new.key, EventQuery::None, &StateQuery::All, RowRoom::WHOLE).await
    }
}

impl MySql {
    /// Locks the source session, so that it is not pruned or deleted in the meantime. Returns the event up to which the
    /// session is copied, and the session's creation time, title and labels.
    async fn lock_source(&self, lease: &mut Lease<'_>, new: &NewFork) -> Attempt<(u64, i64, TextMetadata)> {
        let key = &new.source;
        let place = || format!("the session {key}");
        let cells = self.lock_row(lease, key, "seq, create_time, title, labels").await?;
        let mut cells = cells.ok_or_else(|| no_session(key))?;
        let last = rows::number(cells.integer(0, place)?, place)?;
        let metadata = TextMetadata { title: cells.optional_text(2, place)?, labels: cells.optional_text(3, place)? };
        Ok((new.at.unwrap_or(last), cells.integer(1, place)?, metadata))
    }

    /// Writes the rows of the new session. As in every creation, the user is locked first. Returns `false` if the id is
    /// taken.
    async fn insert_fork(
        &self,
        lease: &mut Lease<'_>,
        new: &NewFork,
        head: &PastHead,
        at: u64,
        (updated, token): (i64, &str),
        TextMetadata { title, labels }: TextMetadata,
    ) -> Attempt<bool> {
        let source = address(&new.source);
        let target = address(&new.key);
        lease.rows(&self.sql(LOCK_USER), target[..2].to_vec()).await?;
        let values = [
            &target[..],
            &[number(at), new.created.into(), updated.into(), title.into(), labels.into(), token.into()],
            &[head.began.0.into(), head.began.1.into()],
            &stored(&new.source, at),
        ]
        .concat();
        let insert = self.sql(&format!(
            "INSERT IGNORE INTO `{{prefix}}sessions` (app_name, user_id, id, seq, create_time, update_time, title, labels,
                 token, user_position, app_position, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {STORED})"
        ));
        for _ in 0..2 {
            lease.rows(&insert, values.clone()).await?;
            if lease.affected_rows() > 0 {
                // The state from which the fold of the new session begins.
                let beginning = self.sql(
                    "INSERT INTO `{prefix}initial_states` (app_name, user_id, session_id, state, seq, forked_at,
                         user_position, app_position)
                     SELECT s.app_name, s.user_id, ?, COALESCE(i.state, '{}'), COALESCE(i.seq, 0), ?,
                         COALESCE(u.position, 0), COALESCE(a.position, 0)
                     FROM `{prefix}sessions` AS s
                     LEFT JOIN `{prefix}initial_states` AS i
                         ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
                     LEFT JOIN `{prefix}users` AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
                     LEFT JOIN `{prefix}apps` AS a ON a.app_name = s.app_name
                     WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?",
                );
                lease.rows(&beginning, [&target[2..], &[number(at)], &source].concat()).await?;
                return Ok(true);
            }
            if !self.remove_expired_on(lease, &new.key).await? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Copies the events after one number up to another. Feeds do not report them again.
    async fn copy_events(
        &self,
        lease: &mut Lease<'_>,
        source: &[Value; 3],
        target: &[Value; 3],
        (mut from, to): (u64, u64),
    ) -> Attempt<()> {
        let sql = self.sql(
            "INSERT INTO `{prefix}events` (app_name, user_id, session_id, seq, id, hash, invocation_id, author,
                 timestamp, event, user_position, app_position, feed_position)
             SELECT app_name, user_id, ?, seq, id, hash, invocation_id, author, timestamp, event, user_position,
                 app_position, 0
             FROM `{prefix}events` FORCE INDEX (PRIMARY)
             WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq > ? AND seq <= ?",
        );
        while from < to {
            let end = to.min(from + AT_ONCE);
            lease.renew();
            lease.rows(&sql, [&target[2..], source, &[number(from), number(end)]].concat()).await?;
            from = end;
        }
        Ok(())
    }

    /// Writes the session's keys with their values at an event.
    async fn write_keys(&self, lease: &mut Lease<'_>, new: &NewFork, at: u64, head: PastHead) -> Attempt<()> {
        let mut past = self.past_from(lease, &new.source, at, head, PastScopes::Own).await?;
        let folded = past.fold(&new.source, at)?;
        let keys = folded.keys.iter().map(|(name, (seq, value))| Ok((name, seq, json::to_text(value, "a value")?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let sql = self.sql(
            "INSERT INTO `{prefix}session_states` (app_name, user_id, session_id, `key`, value, seq)
             SELECT ?, ?, ?, j.name, j.value, j.seq FROM JSON_TABLE(?, '$[*]' COLUMNS (
                 name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                 seq BIGINT PATH '$[1]' ERROR ON ERROR,
                 value LONGTEXT CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR
             )) AS j",
        );
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(name, _, text): &&(&String, &u64, String)| {
                bytes += name.len() + text.len();
                bytes <= BYTES_AT_ONCE
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            lease.renew();
            lease.rows(&sql, [&address(&new.key)[..], &[json(now)?.into()]].concat()).await?;
            rest = later;
        }
        Ok(())
    }

    /// Answers a call whose id is taken: returns the fork if an earlier attempt has created it.
    async fn forked_before(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        let sql = "SELECT token FROM `{prefix}sessions` WHERE app_name = ? AND user_id = ? AND id = ?";
        let row = self.read(sql, address(&new.key).to_vec()).await?.into_iter().next();
        let known = row.map(|row| RowCells::from(row).text(0, || format!("the session {}", new.key))).transpose()?;
        match known {
            Some(known) if known == token => {
                self.session(&new.key, EventQuery::None, &StateQuery::All, RowRoom::WHOLE).await
            }
            Some(_) => Ok(None),
            None => {
                let message = format!("the session {} was deleted just now; try again", new.key);
                Err(Failure { fate: CommitFate::RolledBack, error: Error::new(ErrorKind::Unavailable, message) })
            }
        }
    }
}
