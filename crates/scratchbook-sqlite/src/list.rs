//! Lists an app's sessions, page by page.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::row::{lossy, named, number, sql_limit};
use super::sessions::{log_positions, metadata, seconds};
use super::state::{APP_STATE, SESSION_STATE, USER_STATE, values};
use scratchbook_core::plan::query::{ListPosition, ListQuery, StateQuery};
use scratchbook_core::plan::room::Room;
use scratchbook_core::plan::sql::rows::{described, stored_key};
use scratchbook_core::session::{ListOrder, ListSessionsResponse, SessionMetadata, StateBytes};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};

/// Returns a page of sessions with their merged state.
pub(super) fn page(
    connection: &Connection,
    app_name: &str,
    query: &ListQuery,
    now: i64,
) -> Fallible<ListSessionsResponse> {
    let (page, mut token) = query.pick(candidates(connection, app_name, query, now)?, |listed| &listed.metadata);
    let mut of_app = StateBytes::MAX;
    let app = values(connection, APP_STATE, &[app_name], &StateQuery::All, Scope::App, &mut of_app)?;
    let logs = log_positions(connection)?;
    let (mut users, mut room, mut last) = (HashMap::<String, ScopeMap>::new(), Room::new(query.bytes), None);
    let mut sessions = Vec::new();
    for (place, ListRow { seq, made, expires, bytes: stored, metadata }) in page {
        let ListPosition { micros, user_id, session_id } = &place;
        let key = stored_key(app_name, user_id, session_id)?;
        let address = [app_name, user_id, session_id];
        // What the app's state leaves of the state that may be read whole.
        let (mut left, is_first) = (of_app, users.is_empty());
        let user = match users.get(user_id) {
            Some(user) => user.clone(),
            None => {
                let user = values(connection, USER_STATE, &address[..2], &StateQuery::All, Scope::User, &mut left)?;
                users.insert(user_id.clone(), user.clone());
                user
            }
        };
        // The size of the first session excludes its user's state: every page has the state of at least one user.
        let before = if is_first { left } else { of_app };
        let own = values(connection, SESSION_STATE, &address, &StateQuery::All, Scope::Session, &mut left)?;
        let bytes = before - left + metadata.bytes();
        if !room.takes(bytes) {
            token = last.as_ref().map(ListPosition::to_token);
            break;
        }
        let (state, micros) = (StateMap::new(own, user, app.clone()), *micros);
        last = Some(place.clone());
        let session =
            described(key, state, (made, micros), seq).with_expire_time(seconds(expires)).with_stored_bytes(stored);
        sessions.push(session.with_metadata(metadata).with_log_positions(logs));
    }
    Ok(ListSessionsResponse::new(sessions, token))
}

/// A row of the list.
struct ListRow {
    seq: u64,
    made: i64,
    expires: Option<i64>,
    bytes: u64,
    metadata: SessionMetadata,
}

/// Returns the sessions from which a page is picked, in the list's order.
fn candidates(
    connection: &Connection,
    app_name: &str,
    query: &ListQuery,
    now: i64,
) -> Fallible<Vec<(ListPosition, ListRow)>> {
    let (after, limit) = (query.start(), sql_limit(query.scan_limit()));
    let (from, way) = match query.order {
        ListOrder::OldestFirst => (">", "ASC"),
        ListOrder::NewestFirst => ("<", "DESC"),
    };
    let select = "SELECT update_time, user_id, id, seq, expire_time, title, labels, create_time, bytes FROM sessions";
    let sql = match query.user_id {
        None => format!(
            "{select}
             WHERE app_name = ?1 AND (update_time, user_id, id) {from} (?2, ?3, ?4)
                 AND (expire_time IS NULL OR expire_time > ?6)
             ORDER BY update_time {way}, user_id {way}, id {way} LIMIT ?5"
        ),
        Some(_) => format!(
            "{select}
             WHERE app_name = ?1 AND user_id = ?3 AND (update_time, id) {from} (?2, ?4)
                 AND (expire_time IS NULL OR expire_time > ?6)
             ORDER BY update_time {way}, id {way} LIMIT ?5"
        ),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![app_name, after.micros, after.user_id, after.session_id, limit, now])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let of = || format!("the session {app_name}/{}/{}", lossy(row, 1), lossy(row, 2));
        let place = || -> rusqlite::Result<_> {
            let place = ListPosition { micros: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? };
            let metadata: (_, _) = (row.get(5)?, row.get(6)?);
            Ok((place, (number(row, 3)?, number(row, 8)?), row.get(7)?, row.get(4)?, metadata))
        };
        let (place, (seq, bytes), made, expires, (title, labels)) = named(place(), of)?;
        found.push((place, ListRow { seq, made, expires, bytes, metadata: metadata(title, labels, of)? }));
    }
    Ok(found)
}
