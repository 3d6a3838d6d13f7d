//! Title, labels and lists of sessions. A page with its merged state is read in one statement and so from one snapshot.

use std::collections::HashMap;

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::batch::json;
use super::events::{Picked, sql_limit};
use super::lease::Lease;
use super::read::{self, SessionDescription, TIMES_AND_TITLE};
use super::row::{RowCells, address};
use scratchbook_core::error::Result;
use scratchbook_core::plan::query::{ListPosition, ListQuery};
use scratchbook_core::plan::sql::rows::{described, metadata, number, stored_key};
use scratchbook_core::plan::sql::text::TextMetadata;
use scratchbook_core::plan::update::PreparedUpdate;
use scratchbook_core::session::{ListOrder, ListSessionsResponse, LogPositions, Session, SessionKey};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};
use scratchbook_database::{Attempt, Idempotency, RowRoom, Sessions};

/// The kind of a row, in the first column. The other columns are a name, a text, a user, a session, a number and a
/// time.
const SESSION: i64 = 0;
const OWN: i64 = 1;
const USERS: i64 = 2;
const APPS: i64 = 3;
const USER_LOG: i64 = 4;

#[async_trait]
impl Sessions for MySql {
    async fn list_sessions(&self, app_name: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse> {
        let found = found(app_name, query, self.now());
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        if query.filter.is_empty() {
            let sessions = self.read_found(&mut lease, app_name, query, found, room).await?;
            let (page, token) = query.pick(sessions, Session::metadata);
            return Ok(response(page, token));
        }
        let scan = format!(
            "SELECT {SESSION}, {TIMES_AND_TITLE}, labels, user_id, id, seq, update_time FROM ({}) AS p",
            found.sql
        );
        let rows = lease.rows(&self.sql(&scan), found.values).await?;
        let mut places = rows.into_iter().map(|row| place(app_name, row)).collect::<Result<Vec<_>>>()?;
        query.sort(&mut places);
        let (page, token) = query.pick(places, |place| &place.described.metadata);
        if page.is_empty() {
            return Ok(ListSessionsResponse::new(Vec::new(), token));
        }
        let keys: Vec<_> = page.iter().map(|(at, _)| (&at.user_id, &at.session_id)).collect();
        let picked = picked(app_name, json(&keys)?, self.now());
        let mut page = self.read_found(&mut lease, app_name, query, picked, room).await?;
        // A session that was changed in the meantime may not match the filter any more.
        page.retain(|(_, session)| query.filter.matches(session.metadata()));
        Ok(response(page, token))
    }

    async fn users_with(&self, app: &str, session: &str) -> Attempt<Vec<String>> {
        let sql = "SELECT user_id FROM `{prefix}sessions` FORCE INDEX (sessions_by_id)
             WHERE app_name = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?) LIMIT 2";
        let rows = self.read(sql, vec![app.into(), session.into(), self.now().into()]).await?;
        let user = |row| RowCells::from(row).text(0, || format!("the user of a session {session} of {app}"));
        Ok(rows.into_iter().map(user).collect::<Result<_>>()?)
    }

    async fn update_session(&self, key: &SessionKey, update: &PreparedUpdate) -> Attempt<bool> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let is_there = self.update_on(&mut lease, key, update).await?;
        if is_there {
            lease.commit().await?;
        } else {
            lease.rollback().await?;
        }
        Ok(is_there)
    }
}

impl MySql {
    /// Reads the sessions that a part of a statement selects, with their merged state.
    async fn read_found(
        &self,
        lease: &mut Lease<'_>,
        app_name: &str,
        query: &ListQuery,
        Picked { sql: page, values: here }: Picked,
        room: RowRoom,
    ) -> Attempt<Vec<(ListPosition, Session)>> {
        let sql = self.sql(&format!(
            "SELECT {SESSION} AS part, {TIMES_AND_TITLE} AS name, p.labels AS text, p.user_id, p.id, p.seq AS number,
                 p.update_time AS micros
             FROM ({page}) AS p
             UNION ALL SELECT {OWN}, k.`key`, k.value, p.user_id, p.id, 0, 0
             FROM ({page}) AS p STRAIGHT_JOIN `{{prefix}}session_states` AS k FORCE INDEX (PRIMARY)
                 ON k.app_name = ? AND k.user_id = p.user_id AND k.session_id = p.id
             WHERE k.value IS NOT NULL
             UNION ALL SELECT {USERS}, k.`key`, k.value, p.user_id, '', 0, 0
             FROM (SELECT DISTINCT user_id FROM ({page}) AS q) AS p
             STRAIGHT_JOIN `{{prefix}}user_states` AS k FORCE INDEX (PRIMARY)
                 ON k.app_name = ? AND k.user_id = p.user_id
             WHERE k.value IS NOT NULL
             UNION ALL SELECT {APPS}, k.`key`, k.value, '', '', 0, 0 FROM `{{prefix}}app_states` AS k
             WHERE k.app_name = ? AND k.value IS NOT NULL
             UNION ALL SELECT {USER_LOG}, NULL, NULL, p.user_id, '', u.position, 0
             FROM (SELECT DISTINCT user_id FROM ({page}) AS q) AS p
             STRAIGHT_JOIN `{{prefix}}users` AS u FORCE INDEX (PRIMARY)
                 ON u.app_name = ? AND u.user_id = p.user_id
             UNION ALL SELECT 5, NULL, NULL, '', '', a.position, 0 FROM `{{prefix}}apps` AS a WHERE a.app_name = ?"
        ));
        let app = [Value::from(app_name)];
        let values = [&here[..], &here, &app, &here, &app, &app, &here, &app, &app].concat();
        // In a list of one user, every page has that user's state, like the app's state.
        let of_users = query.user_id.is_none();
        let is_of_item = |row: &Row| matches!(row.get(0), Some(OWN)) || of_users && matches!(row.get(0), Some(USERS));
        let rows = lease.rows_within(&sql, values, room, is_of_item).await?;
        Ok(sessions(app_name, query, rows)?)
    }

    /// Locks the row of a session that has not expired, and reads columns of the row.
    pub(super) async fn lock_row(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        columns: &str,
    ) -> Attempt<Option<RowCells>> {
        let sql = self.sql(&format!(
            "SELECT {columns} FROM `{{prefix}}sessions`
             WHERE app_name = ? AND user_id = ? AND id = ? AND (expire_time IS NULL OR expire_time > ?) FOR UPDATE"
        ));
        let rows = lease.rows(&sql, [&address(key)[..], &[self.now().into()]].concat()).await?;
        Ok(rows.into_iter().next().map(RowCells::from))
    }

    /// Updates a session in a transaction, which is rolled back if the update is refused. Returns `false` if the
    /// session does not exist.
    pub(super) async fn update_on(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        update: &PreparedUpdate,
    ) -> Attempt<bool> {
        let of = || format!("the session {key}");
        let Some(mut cells) = self.lock_row(lease, key, "title, labels, expire_time").await? else {
            return Ok(false);
        };
        let title = cells.optional_text(0, of)?;
        let labels = cells.optional_text(1, of)?;
        let expires = cells.optional_integer(2, of)?;
        let metadata = metadata(title.as_deref(), labels.as_deref(), of);
        match metadata.and_then(|metadata| update.apply(&metadata, expires)) {
            Ok((metadata, expires)) => self.set_fields(lease, key, &TextMetadata::new(metadata)?, expires).await?,
            Err(error) => {
                lease.rollback().await?;
                return Err(error.into());
            }
        }
        Ok(true)
    }

    /// Writes title, labels and expiry into the row of a session, in a transaction.
    pub(super) async fn set_fields(
        &self,
        lease: &mut Lease<'_>,
        key: &SessionKey,
        TextMetadata { title, labels }: &TextMetadata,
        expires: Option<i64>,
    ) -> Attempt<()> {
        let sql = self.sql(
            "UPDATE `{prefix}sessions` SET title = ?, labels = ?, expire_time = ?
             WHERE app_name = ? AND user_id = ? AND id = ?",
        );
        let values = [&[title.into(), labels.into(), expires.into()], &address(key)[..]].concat();
        lease.rows(&sql, values).await.map(drop)
    }
}

const COLUMNS: &str = "user_id, id, seq, create_time, update_time, expire_time, title, labels, bytes";

/// Selects the candidates for a page.
fn found(app_name: &str, query: &ListQuery, now: i64) -> Picked {
    let ListPosition { micros, user_id, session_id } = query.start();
    let (from, way) = match query.order {
        ListOrder::OldestFirst => (">", "ASC"),
        ListOrder::NewestFirst => ("<", "DESC"),
    };
    let select = format!("SELECT {COLUMNS} FROM `{{prefix}}sessions` FORCE INDEX");
    let alive = "(expire_time IS NULL OR expire_time > ?)";
    let (app, micros, user, id) =
        (Value::from(app_name), Value::from(micros), Value::from(user_id), Value::from(session_id));
    let last = [Value::from(now), sql_limit(query.scan_limit())];
    // The comparison is spelled out, because the optimizer uses index ranges for this form, but not for (a, b) > (?,
    // ?).
    let (sql, here) = match &query.user_id {
        None => {
            let sql = format!(
                "{select} (sessions_of_app)
                 WHERE app_name = ? AND (
                     update_time {from} ? OR (update_time = ? AND user_id {from} ?)
                     OR (update_time = ? AND user_id = ? AND id {from} ?)
                 ) AND {alive}
                 ORDER BY update_time {way}, user_id {way}, id {way} LIMIT ?"
            );
            (sql, vec![app, micros.clone(), micros.clone(), user.clone(), micros, user, id])
        }
        Some(_) => {
            let sql = format!(
                "{select} (sessions_of_user)
                 WHERE app_name = ? AND user_id = ? AND (update_time {from} ? OR (update_time = ? AND id {from} ?))
                     AND {alive}
                 ORDER BY update_time {way}, id {way} LIMIT ?"
            );
            (sql, vec![app, user, micros.clone(), micros, id])
        }
    };
    Picked { sql, values: [&here[..], &last].concat() }
}

/// Selects sessions by their users and ids, given as JSON.
fn picked(app_name: &str, keys: Option<String>, now: i64) -> Picked {
    let sql = "SELECT s.user_id, s.id, s.seq, s.create_time, s.update_time, s.expire_time, s.title, s.labels, s.bytes
         FROM JSON_TABLE(?, '$[*]' COLUMNS (
             user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
             id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR
         )) AS j
         STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
             ON s.app_name = ? AND s.user_id = j.user_id AND s.id = j.id
         WHERE s.expire_time IS NULL OR s.expire_time > ?";
    Picked { sql: sql.to_owned(), values: vec![keys.into(), app_name.into(), now.into()] }
}

/// A session's row on a page.
struct ListedRow {
    seq: u64,
    described: SessionDescription,
}

fn response(page: Vec<(ListPosition, Session)>, token: Option<String>) -> ListSessionsResponse {
    ListSessionsResponse::new(page.into_iter().map(|(_, session)| session).collect(), token)
}

fn place(app_name: &str, row: Row) -> Result<(ListPosition, ListedRow)> {
    let mut cells = RowCells::from(row);
    let unnamed = || format!("a session of {app_name:?}");
    let user_id = cells.text(3, unnamed)?;
    let session_id = cells.text(4, unnamed)?;
    let of = || format!("the session {app_name}/{user_id}/{session_id}");
    let described = read::times_and_metadata(&mut cells, of)?;
    let seq = number(cells.integer(5, of)?, of)?;
    let micros = cells.integer(6, of)?;
    Ok((ListPosition { micros, user_id, session_id }, ListedRow { seq, described }))
}

/// Builds the sessions of a page from its rows, in the list's order.
fn sessions(app_name: &str, query: &ListQuery, rows: Vec<Row>) -> Result<Vec<(ListPosition, Session)>> {
    let mut app = ScopeMap::new();
    let mut users = HashMap::<String, ScopeMap>::new();
    let mut own = HashMap::<(String, String), ScopeMap>::new();
    let (mut user_logs, mut app_log) = (HashMap::<String, u64>::new(), 0);
    let mut places = Vec::new();
    let unnamed = || format!("a session of {app_name:?}");
    for row in rows {
        let part = row.get(0);
        if part == Some(SESSION) {
            places.push(place(app_name, row)?);
            continue;
        }
        let mut cells = RowCells::from(row);
        let user = cells.text(3, unnamed)?;
        let session = cells.text(4, unnamed)?;
        match part {
            Some(OWN) => {
                let values = own.entry((user.clone(), session.clone())).or_default();
                read::insert(values, Scope::Session, &[app_name, &user, &session], cells)?;
            }
            Some(USERS) => {
                let values = users.entry(user.clone()).or_default();
                read::insert(values, Scope::User, &[app_name, &user], cells)?;
            }
            Some(APPS) => read::insert(&mut app, Scope::App, &[app_name], cells)?,
            Some(USER_LOG) => drop(user_logs.insert(user, number(cells.integer(5, unnamed)?, unnamed)?)),
            _ => app_log = number(cells.integer(5, unnamed)?, unnamed)?,
        }
    }
    query.sort(&mut places);
    let session = |(at, ListedRow { seq, described: of_row }): (ListPosition, ListedRow)| {
        let key = stored_key(app_name, &at.user_id, &at.session_id)?;
        let user = users.get(&at.user_id).cloned().unwrap_or_default();
        let logs = LogPositions::new(user_logs.get(&at.user_id).copied().unwrap_or_default(), app_log);
        let own = own.remove(&(at.user_id.clone(), at.session_id.clone())).unwrap_or_default();
        let SessionDescription { made, bytes, expires, metadata } = of_row;
        let session = described(key, StateMap::new(own, user, app.clone()), (made, at.micros), seq);
        let session = session.with_stored_bytes(bytes).with_log_positions(logs);
        Ok((at, session.with_metadata(metadata).with_expire_time(expires)))
    };
    places.into_iter().map(session).collect()
}
