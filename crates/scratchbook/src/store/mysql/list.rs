//! A page of sessions with their merged state, in one statement and so on one snapshot.

use std::cmp::Ordering;
use std::collections::HashMap;

use mysql_async::{Row, Value};

use super::MySql;
use super::events::sql_limit;
use super::pool::Care;
use super::read;
use super::row::Cells;
use crate::error::Result;
use crate::session::{ListSessionsResponse, LogPositions};
use crate::state::{Scope, ScopeMap, StateMap};
use crate::store::database::Attempt;
use crate::store::query::{ListPosition, ListQuery};
use crate::store::rows::{described, number, stored_key};

/// What a row is of: the first column. The others are a key's name, a text, a user, a session, a number and a time.
const SESSION: i64 = 0;
const OWN: i64 = 1;
const USERS: i64 = 2;
const APPS: i64 = 3;
const USER_LOG: i64 = 4;

impl MySql {
    /// Reads a page of sessions with their merged state.
    pub(super) async fn read_list(&self, app_name: &str, query: &ListQuery) -> Attempt<ListSessionsResponse> {
        let (page, here) = page(app_name, query, self.now());
        let sql = self.sql(&format!(
            "SELECT {SESSION} AS part, CAST(p.expire_time AS CHAR) AS name, NULL AS text, p.user_id, p.id, p.seq AS number,
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
        let mut lease = self.connections.lease(Care::Again).await?;
        let rows = lease.rows(&sql, values).await?;
        drop(lease);
        Ok(response(app_name, query, rows)?)
    }
}

/// The part that picks the sessions of a page, with the values of its parameters. It picks one more than the page has,
/// which tells whether there is another.
fn page(app_name: &str, query: &ListQuery, now: i64) -> (String, Vec<Value>) {
    let start = ListPosition { micros: i64::MIN, user_id: String::new(), session_id: String::new() };
    let after = query.after.as_ref().unwrap_or(&start);
    let limit = sql_limit(query.limit + 1);
    let select = "SELECT user_id, id, seq, update_time, expire_time FROM `{prefix}sessions` FORCE INDEX";
    let (app, micros) = (Value::from(app_name), Value::from(after.micros));
    let (alive, now) = ("(expire_time IS NULL OR expire_time > ?)", Value::from(now));
    // Spelled out: the optimizer makes ranges of an index of this, but not of (a, b) > (?, ?).
    match &query.user_id {
        None => {
            let sql = format!(
                "{select} (sessions_of_app)
                 WHERE app_name = ? AND (
                     update_time > ? OR (update_time = ? AND user_id > ?)
                     OR (update_time = ? AND user_id = ? AND id > ?)
                 ) AND {alive}
                 ORDER BY update_time, user_id, id LIMIT ?"
            );
            let (user, id) = (Value::from(&after.user_id), Value::from(&after.session_id));
            (sql, vec![app, micros.clone(), micros.clone(), user.clone(), micros, user, id, now, limit])
        }
        Some(user) => {
            // A page token of another user's stands before or after all of this user's with its time.
            let (micros, id) = match after.user_id.as_str().cmp(user) {
                Ordering::Less => (micros, ""),
                Ordering::Equal => (micros, after.session_id.as_str()),
                Ordering::Greater => (after.micros.saturating_add(1).into(), ""),
            };
            let sql = format!(
                "{select} (sessions_of_user)
                 WHERE app_name = ? AND user_id = ? AND (update_time > ? OR (update_time = ? AND id > ?)) AND {alive}
                 ORDER BY update_time, id LIMIT ?"
            );
            (sql, vec![app, user.into(), micros.clone(), micros, id.into(), now, limit])
        }
    }
}

/// A session of the page.
struct Place {
    at: ListPosition,
    seq: u64,
    expires: Option<f64>,
}

fn response(app_name: &str, query: &ListQuery, rows: Vec<Row>) -> Result<ListSessionsResponse> {
    let mut app = ScopeMap::new();
    let mut users = HashMap::<String, ScopeMap>::new();
    let mut own = HashMap::<(String, String), ScopeMap>::new();
    let (mut user_logs, mut app_log) = (HashMap::<String, u64>::new(), 0);
    let mut places = Vec::new();
    let place = || format!("a session of {app_name:?}");
    for row in rows {
        let mut cells = Cells::from(row);
        let part = cells.integer(0, place)?;
        let (user, session) = (cells.text(3, place)?, cells.text(4, place)?);
        match part {
            SESSION => {
                let whole = || format!("the session {app_name}/{user}/{session}");
                let (seq, micros) = (number(cells.integer(5, whole)?, whole)?, cells.integer(6, whole)?);
                let expires = read::expire_time(cells.optional_text(1, whole)?, whole)?;
                places.push(Place { at: ListPosition { micros, user_id: user, session_id: session }, seq, expires });
            }
            OWN => {
                let values = own.entry((user.clone(), session.clone())).or_default();
                read::insert(values, Scope::Session, &[app_name, &user, &session], cells)?;
            }
            USERS => {
                let values = users.entry(user.clone()).or_default();
                read::insert(values, Scope::User, &[app_name, &user], cells)?;
            }
            APPS => read::insert(&mut app, Scope::App, &[app_name], cells)?,
            USER_LOG => drop(user_logs.insert(user, number(cells.integer(5, place)?, place)?)),
            _ => app_log = number(cells.integer(5, place)?, place)?,
        }
    }
    places.sort_by(|a, b| a.at.cmp(&b.at));
    let more = places.len() > query.limit;
    places.truncate(query.limit);
    let token = places.last().filter(|_| more).map(|last| last.at.to_token());
    let sessions = places.into_iter().map(|Place { at, seq, expires }| {
        let ListPosition { micros, user_id, session_id } = at;
        let key = stored_key(app_name, &user_id, &session_id)?;
        let user = users.get(&user_id).cloned().unwrap_or_default();
        let logs = LogPositions::new(user_logs.get(&user_id).copied().unwrap_or_default(), app_log);
        let own = own.remove(&(user_id, session_id)).unwrap_or_default();
        let session = described(key, StateMap::new(own, user, app.clone()), micros, seq);
        Ok(session.with_log_positions(logs).with_expire_time(expires))
    });
    Ok(ListSessionsResponse::new(sessions.collect::<Result<_>>()?, token))
}
