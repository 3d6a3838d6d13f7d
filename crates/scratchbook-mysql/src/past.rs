//! Point-in-time state, blame and checkpoints.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mysql_async::{Row, Value};
use serde_json::Map;

use super::MySql;
use super::events::number;
use super::lease::Lease;
use super::read::insert;
use super::row::{RowCells, address};
use scratchbook_core::error::{Error, ErrorKind, KeyWriter, Result};
use scratchbook_core::plan::folded::Folded;
use scratchbook_core::plan::fork::{check_event_number, log_pruned};
use scratchbook_core::plan::room::too_much;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{InitialState, SessionKey, StateBytes, no_session};
use scratchbook_core::state::{Scope, ScopeMap};
use scratchbook_database::{Attempt, Checkpoint, CommitFate, Failure, History, Idempotency, Past, PastScopes, RowRoom};

/// The kinds of rows of the first statement.
const SESSION: i64 = 0;
const INITIAL: i64 = 1;
const CHECKPOINT: i64 = 2;

/// The head of a session, and the state from which the fold up to one of its events begins.
pub(super) struct PastHead {
    pub(super) token: String,
    /// The number of the session's last event.
    pub(super) last: u64,
    /// The number of the event after which the fold of the whole session begins.
    pub(super) base: u64,
    /// The last checkpoint up to the event, or the state at `base`.
    folded: Folded,
    /// The positions of the logs at the event.
    pub(super) user_position: i64,
    pub(super) app_position: i64,
    /// The positions of the logs at `base`.
    pub(super) began: (i64, i64),
    /// The event's timestamp, if it has one.
    pub(super) time: Option<f64>,
}

#[async_trait]
impl History for MySql {
    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<InitialState>> {
        let sql =
            "SELECT i.state, COALESCE(i.seq, 0) FROM `{prefix}sessions` AS s LEFT JOIN `{prefix}initial_states` AS i
            ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
            WHERE s.app_name = ? AND s.user_id = ? AND s.id = ? AND (s.expire_time IS NULL OR s.expire_time > ?)";
        let mut values = address(key).to_vec();
        values.push(self.now().into());
        let rows = self.read(sql, values).await?;
        let place = || format!("the state at the creation of {key}");
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let mut cells = RowCells::from(row);
        let state = cells.optional_text(0, place)?.map_or_else(|| Ok(Map::new()), |text| rows::json(&text, place))?;
        Ok(Some(InitialState::new(rows::number(cells.integer(1, place)?, place)?, state)))
    }

    async fn past(&self, key: &SessionKey, seq: u64, scopes: PastScopes) -> Attempt<Past> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let head = self.head(&mut lease, key, seq).await?.ok_or_else(|| no_session(key))?;
        check_event_number(key, seq, head.base, head.last)?;
        self.past_from(&mut lease, key, seq, head, scopes).await
    }

    async fn position_at(&self, key: &SessionKey, seq: u64, scope: Scope) -> Attempt<u64> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        let head = self.head(&mut lease, key, seq).await?.ok_or_else(|| no_session(key))?;
        check_event_number(key, seq, head.base, head.last)?;
        let position = if scope == Scope::User { head.user_position } else { head.app_position };
        Ok(rows::number(position, || format!("the event {seq} of {key}"))?)
    }

    async fn keep_checkpoint(&self, key: &SessionKey, checkpoint: &Checkpoint) -> Attempt<()> {
        let here = address(key);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        // With this lock, a deletion of the session either sees the checkpoint or is seen here.
        let lock = self.sql(
            "SELECT 1 FROM `{prefix}sessions` WHERE app_name = ? AND user_id = ? AND id = ? AND token = ?
             LOCK IN SHARE MODE",
        );
        let found = lease.rows(&lock, [&here[..], &[(&checkpoint.incarnation).into()]].concat()).await?;
        if !found.is_empty() {
            let sql = self.sql(
                "INSERT INTO `{prefix}checkpoints` (app_name, user_id, session_id, seq, state) VALUES (?, ?, ?, ?, ?)
                 ON DUPLICATE KEY UPDATE seq = `{prefix}checkpoints`.seq",
            );
            lease.rows(&sql, [&here[..], &[number(checkpoint.seq), (&checkpoint.text).into()]].concat()).await?;
        }
        lease.commit().await
    }

    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>> {
        let app = key.app_name();
        let user = key.user_id();
        let here = [app, user, key.session_id()].map(Value::from);
        // If the event was pruned or its session is gone, the log still has everything except the invocation id.
        let shared = |part: i64, table: &str, scope: &str, owner: &str| {
            format!(
                " UNION ALL SELECT {part}, k.`key`, l.session_user, l.session_id, l.seq, l.event_id, l.author,
                     e.invocation_id, l.time
                 FROM `{{prefix}}{table}` AS k
                 LEFT JOIN `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
                     ON l.app_name = ? AND l.scope = '{scope}' AND l.user_id = ? AND l.position = k.position
                     AND l.`key` = k.`key`
                 LEFT JOIN `{{prefix}}events` AS e FORCE INDEX (PRIMARY)
                     ON e.app_name = l.app_name AND e.user_id = l.session_user AND e.session_id = l.session_id
                     AND e.seq = l.seq AND e.id = l.event_id
                 WHERE k.app_name = ? {owner} AND k.value IS NOT NULL"
            )
        };
        let sql = format!(
            "SELECT 0 AS part, NULL AS name, user_id AS session_user, id AS session_id, seq, NULL AS event_id,
                 NULL AS author, NULL AS invocation_id, create_time / 1e6 AS time
             FROM `{{prefix}}sessions`
             WHERE app_name = ? AND user_id = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?)
             UNION ALL SELECT 1, k.`key`, k.user_id, k.session_id, k.seq, e.id, e.author, e.invocation_id, e.timestamp
             FROM `{{prefix}}session_states` AS k
             LEFT JOIN `{{prefix}}events` AS e FORCE INDEX (PRIMARY)
                 ON e.app_name = ? AND e.user_id = ? AND e.session_id = ? AND e.seq = k.seq
             WHERE k.app_name = ? AND k.user_id = ? AND k.session_id = ? AND k.value IS NOT NULL{}{}",
            shared(2, "user_states", "user", "AND k.user_id = ?"),
            shared(3, "app_states", "app", ""),
        );
        let of_app = Value::from(app);
        let of_user = Value::from(user);
        let of_users = [of_app.clone(), of_user.clone(), of_app.clone(), of_user];
        let of_apps = [of_app.clone(), "".into(), of_app];
        let values = [&here[..], &[self.now().into()], &here, &here, &of_users, &of_apps].concat();
        let rows = self.read(&sql, values).await?;
        let place = || format!("who wrote the state of {key}");
        let mut created = None;
        let mut writers = BTreeMap::new();
        for row in rows {
            let mut cells = RowCells::from(row);
            let scope = match cells.integer(0, place)? {
                0 => {
                    created = Some(cells.double(8, place)?);
                    continue;
                }
                1 => Scope::Session,
                2 => Scope::User,
                _ => Scope::App,
            };
            let name = cells.text(1, place)?;
            writers.insert(scope.key(&name).into_owned(), (scope, writer(&mut cells, place)?));
        }
        let Some(created) = created else {
            return Ok(None);
        };
        let complete = |(name, (scope, writer)): (String, (Scope, KeyWriter))| {
            // For keys from the session's creation, no row has the writer's details.
            let is_creation = scope == Scope::Session && writer.seq == 0;
            (name, if is_creation { KeyWriter { author: "user".to_owned(), time: created, ..writer } } else { writer })
        };
        Ok(Some(writers.into_iter().map(complete).collect()))
    }
}

impl MySql {
    /// Reads the head of a session, and the state from which the fold up to an event begins. Returns `None` if the
    /// session does not exist.
    pub(super) async fn head(&self, lease: &mut Lease<'_>, key: &SessionKey, seq: u64) -> Attempt<Option<PastHead>> {
        let here = address(key);
        let of_session = "app_name = ? AND user_id = ? AND session_id = ?";
        let sql = self.sql(&format!(
            "SELECT {SESSION} AS part, seq, user_position, app_position, token AS text, NULL AS time
             FROM `{{prefix}}sessions`
             WHERE app_name = ? AND user_id = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?)
             UNION ALL SELECT {INITIAL}, seq, 0, 0, state, NULL FROM `{{prefix}}initial_states` WHERE {of_session}
             UNION ALL (SELECT {CHECKPOINT}, seq, 0, 0, state, NULL FROM `{{prefix}}checkpoints` FORCE INDEX (PRIMARY)
                 WHERE {of_session} AND seq <= ? ORDER BY seq DESC LIMIT 1)
             UNION ALL SELECT 3, seq, user_position, app_position, NULL, timestamp FROM `{{prefix}}events`
             FORCE INDEX (PRIMARY) WHERE {of_session} AND seq = ?"
        ));
        let now = Value::from(self.now());
        let seq = number(seq);
        let seq = [seq];
        let values = [&here[..], &[now], &here, &here, &seq, &here, &seq].concat();
        let place = || format!("the session {key}");
        let mut session = None;
        let mut initial = None;
        let mut checkpoint = None;
        let mut event = None;
        for row in lease.rows(&sql, values).await? {
            let mut cells = RowCells::from(row);
            let part = cells.integer(0, place)?;
            let at = rows::number(cells.integer(1, place)?, place)?;
            let positions = (cells.integer(2, place)?, cells.integer(3, place)?);
            match part {
                SESSION => session = Some((at, positions, cells.text(4, place)?)),
                INITIAL => {
                    let place = || format!("the state where {key} begins");
                    initial = Some(InitialState::new(at, rows::json(&cells.text(4, place)?, place)?));
                }
                CHECKPOINT => checkpoint = Some((at, cells.text(4, place)?)),
                _ => event = Some((positions, cells.double(5, place)?)),
            }
        }
        let Some((last, began, token)) = session else {
            return Ok(None);
        };
        let initial = initial.unwrap_or_default();
        let base = initial.seq;
        let folded = match checkpoint.filter(|(at, _)| *at > base) {
            Some((at, text)) => Folded::from_checkpoint(at, &text, key)?,
            None => Folded::begin(initial),
        };
        let (user_position, app_position) = event.map_or(began, |(positions, _)| positions);
        let time = event.map(|(_, time)| time);
        Ok(Some(PastHead { token, last, base, folded, user_position, app_position, began, time }))
    }

    /// Reads the events between the head's state and the event `seq`, and the keys of the user and the app as of that
    /// event.
    pub(super) async fn past_from(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        seq: u64,
        head: PastHead,
        scopes: PastScopes,
    ) -> Attempt<Past> {
        let app = key.app_name();
        let user = key.user_id();
        let here = [app, user, key.session_id()].map(Value::from);
        // The session is read again, because it may have been replaced or pruned between the two statements.
        let mut sql = String::from(
            "SELECT 0 AS part, NULL AS name, token AS text, 0 AS number FROM `{prefix}sessions`
             WHERE app_name = ? AND user_id = ? AND id = ?
             UNION ALL SELECT 1, NULL, event, seq FROM `{prefix}events` FORCE INDEX (PRIMARY)
             WHERE app_name = ? AND user_id = ? AND session_id = ? AND seq > ? AND seq <= ?",
        );
        let mut values = [&here[..], &here, &[number(head.folded.seq), number(seq)]].concat();
        if scopes == PastScopes::All {
            add_shared(&mut sql, &mut values, &[app, user], head.user_position);
            add_shared(&mut sql, &mut values, &[app], head.app_position);
        }
        let begin = head.folded.seq;
        let mut token = None;
        let mut past = Past::begin(head.token, head.folded);
        let mut later_of_user = Vec::new();
        let mut later_of_app = Vec::new();
        let place = || format!("the past of {key}");
        let is_event = |row: &Row| row.get(0) == Some(EVENT);
        let take = |row| {
            let mut cells = RowCells::from(row);
            let part = cells.integer(0, place)?;
            let at = cells.integer(3, place)?;
            match part {
                0 => token = cells.optional_text(2, place)?,
                EVENT => past.take(key, at, &cells.text(2, || format!("the event {at} of {key}"))?)?,
                USERS => insert(&mut past.user, Scope::User, &[app, user], cells)?,
                APPS => insert(&mut past.app, Scope::App, &[app], cells)?,
                LATER_OF_USER => later_of_user.push(cells.text(1, place)?),
                _ => later_of_app.push(cells.text(1, place)?),
            }
            Ok(())
        };
        lease.for_each_within(&self.sql(&sql), values, RowRoom::WHOLE, is_event, take).await?;
        let of_user = (&[app, user][..], head.user_position, later_of_user.as_slice());
        let of_app = (&[app][..], head.app_position, later_of_app.as_slice());
        for ((owner, position, names), state) in [(of_user, &mut past.user), (of_app, &mut past.app)] {
            if !self.read_earlier(lease, owner, position, names, state).await? {
                return Err(log_pruned(key, seq).into());
            }
        }
        if token.as_ref() != Some(&past.incarnation) || past.count() != seq.saturating_sub(begin) {
            let what = format!("{key} was pruned or deleted while it was read");
            return Err(Failure { fate: CommitFate::RolledBack, error: Error::new(ErrorKind::Unavailable, what) });
        }
        Ok(past)
    }

    /// Reads the values at a position of keys that were written again later. Returns `false` if the log does not reach
    /// back that far. Each key has its own part of the statement, so that only one row of the log is read for each key.
    async fn read_earlier(
        &self,
        lease: &mut Lease<'_>,
        owner: &[&str],
        position: i64,
        names: &[String],
        state: &mut ScopeMap,
    ) -> Attempt<bool> {
        let (scope, owners, of_owner) = match owner {
            [_, _] => (Scope::User, "users", "app_name = ? AND user_id = ?"),
            _ => (Scope::App, "apps", "app_name = ?"),
        };
        let of_log = [owner[0], scope.as_str(), owner.get(1).copied().unwrap_or_default()].map(Value::from);
        let mut rest = names;
        let mut left = StateBytes::MAX;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(AT_ONCE));
            // The last name is repeated up to `AT_ONCE` names, to keep the number of prepared statements small.
            let count = if now.len() == 1 { 1 } else { AT_ONCE };
            let mut sql = format!(
                "SELECT 0 AS part, NULL AS name, NULL AS text, pruned_position FROM `{{prefix}}{owners}` WHERE {of_owner}"
            );
            let mut values: Vec<_> = owner.iter().map(|id| Value::from(*id)).collect();
            for name in now.iter().chain(std::iter::repeat_n(&now[now.len() - 1], count - now.len())) {
                sql += " UNION ALL (SELECT 1, `key`, value, 0 FROM `{prefix}state_log` FORCE INDEX (state_log_by_key)
                    WHERE app_name = ? AND scope = ? AND user_id = ? AND `key` = ? AND position <= ?
                    ORDER BY position DESC LIMIT 1)";
                values.extend([&of_log[..], &[name.into(), position.into()]].concat());
            }
            lease.renew();
            let place = || format!("the log of {}", owner.join("/"));
            for row in lease.rows(&self.sql(&sql), values).await? {
                let mut cells = RowCells::from(row);
                if cells.integer(0, place)? == 0 {
                    if cells.integer(3, place)? > position.saturating_add(1) {
                        return Ok(false);
                    }
                    continue;
                }
                let name = cells.text(1, place)?;
                if let Some(text) = cells.optional_text(2, place)? {
                    left = left.checked_sub(text.len() as u64).ok_or_else(too_much)?;
                    rows::insert(state, scope, owner, &name, &text)?;
                }
            }
            rest = later;
        }
        Ok(true)
    }
}

/// Reads a writer from its columns: the session's user and id, number, event, author, invocation, time.
fn writer(cells: &mut RowCells, place: impl Fn() -> String + Copy) -> Result<KeyWriter> {
    let mut writer = KeyWriter::new(cells.optional_text(6, place)?.unwrap_or_default())
        .with_invocation(cells.optional_text(7, place)?.unwrap_or_default())
        .with_time(cells.double(8, place).unwrap_or_default());
    if let (Some(user), Some(session)) = (cells.optional_text(2, place)?, cells.optional_text(3, place)?) {
        let seq = rows::number(cells.integer(4, place)?, place)?;
        writer = writer.with_event(user, session, seq, cells.optional_text(5, place)?.unwrap_or_default());
    }
    Ok(writer)
}

const EVENT: i64 = 1;
const USERS: i64 = 2;
const APPS: i64 = 3;
const LATER_OF_USER: i64 = 4;
const LATER_OF_APP: i64 = 5;

/// The maximum number of keys that one statement looks up in a log.
// Each key is a constant of the statement, so that the index finds its last row in one step. For a key from an outer
// query, MariaDB 10.11 scans everything that was written later.
const AT_ONCE: usize = 32;

/// Adds the part of a statement that reads the keys of a user or an app. Of keys that were written after the position,
/// it reads only the names.
fn add_shared(sql: &mut String, values: &mut Vec<Value>, owner: &[&str], position: i64) {
    let (part, later, states, of_key) = match owner {
        [_, _] => (USERS, LATER_OF_USER, "user_states", "app_name = ? AND user_id = ?"),
        _ => (APPS, LATER_OF_APP, "app_states", "app_name = ?"),
    };
    *sql += &format!(
        " UNION ALL SELECT {part}, `key`, value, 0 FROM `{{prefix}}{states}`
         WHERE {of_key} AND position <= ? AND value IS NOT NULL
         UNION ALL SELECT {later}, `key`, NULL, 0 FROM `{{prefix}}{states}` WHERE {of_key} AND position > ?"
    );
    let owner: Vec<_> = owner.iter().map(|id| Value::from(*id)).collect();
    let position = [Value::from(position)];
    values.extend([&owner[..], &position, &owner, &position].concat());
}
