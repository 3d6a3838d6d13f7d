//! Reading a session or a part of it, in one statement and so from one snapshot.

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::events::{self, Picked};
use super::row::RowCells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::described;
use scratchbook_core::session::{LogPositions, Session, SessionKey, SessionMetadata, seconds_of_micros};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};
use scratchbook_database::{Attempt, Reads, RowRoom, yield_between_rows};

/// The kind of a row, in the first column. The other columns are a name, a text, a number and a time.
const SESSION: i64 = 0;
const OWN: i64 = 1;
const USERS: i64 = 2;
const APPS: i64 = 3;
pub(super) const EVENT: i64 = 4;
const LOGS: i64 = 5;

/// The time of creation, the stored size, the time of expiry and the title of a session in one column, separated by
/// spaces. The last two may be missing.
pub(super) const TIMES_AND_TITLE: &str = "CONCAT_WS(
    ' ', CAST(create_time AS CHAR), CAST(bytes AS CHAR), COALESCE(CAST(expire_time AS CHAR), ''), title
)";

/// The selected names of a scope.
const WANTED: &str =
    "JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$' ERROR ON ERROR)) AS wanted";

#[async_trait]
impl Reads for MySql {
    async fn session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>> {
        let address = [key.app_name(), key.user_id(), key.session_id()];
        let mut sql = format!(
            "SELECT {SESSION} AS part, {TIMES_AND_TITLE} AS name, labels AS text, seq AS number, update_time AS micros
             FROM `{{prefix}}sessions` WHERE app_name = ? AND user_id = ? AND id = ?
                 AND (expire_time IS NULL OR expire_time > ?)"
        );
        let mut values = address.map(Value::from).to_vec();
        values.push(self.now().into());
        // These are the positions up to which the logs are visible, because a commit that writes to a log also updates
        // the row of the log's owner.
        sql += &format!(
            "{UNION}SELECT {LOGS}, NULL, NULL,
                 COALESCE((SELECT position FROM `{{prefix}}users` WHERE app_name = ? AND user_id = ?), 0),
                 COALESCE((SELECT position FROM `{{prefix}}apps` WHERE app_name = ?), 0)"
        );
        values.extend([address[0], address[1], address[0]].map(Value::from));
        for scope in [Scope::Session, Scope::User, Scope::App] {
            add_state(&mut sql, &mut values, &address, scope, state);
        }
        let Picked { sql: events, values: more } = events::pick(&address, events);
        sql += &events;
        values.extend(more);
        let rows = self.read_within(&sql, values, room, |row| row.get(0) == Some(EVENT)).await?;
        Ok(session(key, rows).await?)
    }
}

pub(super) const UNION: &str = " UNION ALL ";

/// Adds the part of a statement that reads the values of one scope. `address` has at least the columns of the scope:
/// app, user and session.
pub(super) fn add_state(sql: &mut String, values: &mut Vec<Value>, address: &[&str], scope: Scope, query: &StateQuery) {
    let (part, table, owner) = match scope {
        Scope::Session => (OWN, "session_states", "k.app_name = ? AND k.user_id = ? AND k.session_id = ?"),
        Scope::User => (USERS, "user_states", "k.app_name = ? AND k.user_id = ?"),
        _ => (APPS, "app_states", "k.app_name = ?"),
    };
    let address = address.iter().take(owner.matches('?').count()).map(|id| Value::from(*id));
    let select = format!("{UNION}SELECT {part}, k.`key`, k.value, 0, 0 FROM");
    match query.names(scope) {
        None => {
            *sql += &format!("{select} `{{prefix}}{table}` AS k WHERE {owner} AND k.value IS NOT NULL");
        }
        Some(names) if names.is_empty() => return,
        Some(names) => {
            values.push(serde_json::json!(names).to_string().into());
            *sql += &format!(
                "{select} {WANTED} STRAIGHT_JOIN `{{prefix}}{table}` AS k FORCE INDEX (PRIMARY)
                 ON {owner} AND k.`key` = wanted.name WHERE k.value IS NOT NULL"
            );
        }
    }
    values.extend(address);
}

async fn session(key: &SessionKey, rows: Vec<Row>) -> Result<Option<Session>> {
    let address = [key.app_name(), key.user_id(), key.session_id()];
    let whole = || format!("the session {key}");
    let [mut own, mut users, mut apps] = [const { None }; 3].map(|_: Option<()>| ScopeMap::new());
    let mut head = None;
    let mut logs = LogPositions::default();
    let mut events = Vec::new();
    for (count, row) in rows.into_iter().enumerate() {
        yield_between_rows(count).await;
        let mut cells = RowCells::from(row);
        match cells.integer(0, whole)? {
            SESSION => {
                let of_row = times_and_metadata(&mut cells, whole)?;
                let seq = rows::number(cells.integer(3, whole)?, whole)?;
                head = Some((seq, cells.integer(4, whole)?, of_row));
            }
            OWN => insert(&mut own, Scope::Session, &address, cells)?,
            USERS => insert(&mut users, Scope::User, &address[..2], cells)?,
            APPS => insert(&mut apps, Scope::App, &address[..1], cells)?,
            LOGS => {
                let position = |column| rows::number(cells.integer(column, whole)?, whole);
                logs = LogPositions::new(position(3)?, position(4)?);
            }
            _ => {
                let seq = cells.integer(3, whole)?;
                let text = cells.text(2, || format!("the event {seq} of {key}"))?;
                events.push(rows::event(seq, &text, key)?);
            }
        }
    }
    let Some((seq, micros, SessionDescription { made, bytes, expires, metadata })) = head else {
        return Ok(None);
    };
    events.sort_unstable_by_key(|event| event.seq);
    let state = StateMap::new(own, users, apps);
    let session = described(key.clone(), state, (made, micros), seq).with_log_positions(logs).with_expire_time(expires);
    let session = session.with_stored_bytes(bytes);
    Ok(Some(session.with_metadata(metadata).with_events(events.into_iter().collect())))
}

/// The contents of the second and third column of a session's row.
pub(super) struct SessionDescription {
    /// The time of creation, in microseconds since 1970.
    pub(super) made: i64,
    pub(super) bytes: u64,
    /// The time of expiry, in seconds since 1970.
    pub(super) expires: Option<f64>,
    pub(super) metadata: SessionMetadata,
}

/// Reads [`TIMES_AND_TITLE`] and labels.
pub(super) fn times_and_metadata(cells: &mut RowCells, of: impl Fn() -> String) -> Result<SessionDescription> {
    let name = cells.text(1, &of)?;
    let labels = cells.optional_text(2, &of)?;
    let mut parts = name.splitn(4, ' ');
    let mut number = || {
        let text = parts.next().filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(|_| rows::damaged(of()))).transpose()
    };
    let mut present = || number()?.ok_or_else(|| rows::damaged(of()));
    let made = present()?;
    let bytes = rows::number(present()?, &of)?;
    let expires = number()?.map(seconds_of_micros);
    Ok(SessionDescription { made, bytes, expires, metadata: rows::metadata(parts.next(), labels.as_deref(), of)? })
}

/// Adds a row of state to its map.
pub(super) fn insert(values: &mut ScopeMap, scope: Scope, owner: &[&str], mut cells: RowCells) -> Result<()> {
    let name = cells.text(1, || format!("a key of {}", owner.join("/")))?;
    let text = cells.text(2, || format!("the value of key '{}' of {}", scope.key(&name), owner.join("/")))?;
    rows::insert(values, scope, owner, &name, &text)
}
