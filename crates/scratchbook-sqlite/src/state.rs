//! The present state of users and apps, and the values of a session's own keys.

use rusqlite::{Connection, Row, params, params_from_iter};
use serde_json::{Map, Value};

use super::error::Fallible;
use super::growth::GrowthByScope;
use super::row::{decode, lossy, named, number, text_length};
use super::state_log::{self, Origin};
use super::transaction::Tx;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::query::StateQuery;
use scratchbook_core::plan::room::{Room, too_much};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::{TextChange, prefix_end};
use scratchbook_core::session::{ListStateConfig, SessionKey, StateBytes, StateOwner, StatePage};
use scratchbook_core::state::{Scope, ScopeMap};

pub(super) const SESSION_STATE: &str = "SELECT key, value FROM session_states
    WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND value IS NOT NULL";
pub(super) const USER_STATE: &str =
    "SELECT key, value FROM user_states WHERE app_name = ?1 AND user_id = ?2 AND value IS NOT NULL";
pub(super) const APP_STATE: &str = "SELECT key, value FROM app_states WHERE app_name = ?1 AND value IS NOT NULL";

/// Returns the scope of an owner's keys, and the user id as the log stores it.
pub(super) fn scope_and_user(owner: &StateOwner) -> (Scope, &str) {
    owner.user_id().map_or((Scope::App, ""), |user| (Scope::User, user))
}

/// Returns the state of a user or an app.
pub(super) fn get(connection: &Connection, owner: &StateOwner) -> Fallible<Map<String, Value>> {
    bytes(connection, owner, None)?.alone(owner).check()?;
    let (app, mut left) = (owner.app_name(), StateBytes::MAX);
    let values = match owner.user_id() {
        Some(user) => values(connection, USER_STATE, &[app, user], &StateQuery::All, Scope::User, &mut left)?,
        None => values(connection, APP_STATE, &[app], &StateQuery::All, Scope::App, &mut left)?,
    };
    Ok(values.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect())
}

/// Returns the size of the state of a user and its app, or of an app alone, and of a session of that user. The values
/// are not loaded, because SQLite knows their lengths.
pub(super) fn bytes(connection: &Connection, owner: &StateOwner, session_id: Option<&str>) -> Fallible<StateBytes> {
    let select = |table: &str, of: &str| {
        format!(
            "SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) FROM {table} WHERE {of} AND value IS NOT NULL"
        )
    };
    let add_up = |sql: &str, of: &[&str]| {
        let sum = connection.prepare_cached(sql)?.query_row(params_from_iter(of), |row| number(row, 0));
        named(sum, || format!("the size of the state of {}", of.join("/")))
    };
    let app = owner.app_name();
    let mut bytes =
        StateBytes { app: add_up(&select("app_states", "app_name = ?1"), &[app])?, ..StateBytes::default() };
    if let Some(user) = owner.user_id() {
        bytes.user = add_up(&select("user_states", "app_name = ?1 AND user_id = ?2"), &[app, user])?;
        if let Some(session) = session_id {
            let own = select("session_states", "app_name = ?1 AND user_id = ?2 AND session_id = ?3");
            bytes.session = add_up(&own, &[app, user, session])?;
        }
    }
    Ok(bytes)
}

/// Returns the result of a read of state. If it was too large, the error says which scope has how many bytes now.
pub(super) fn sized<T>(
    connection: &Connection,
    owner: &StateOwner,
    session_id: Option<&str>,
    read: impl FnOnce() -> Fallible<T>,
) -> Fallible<T> {
    read().or_else(|failure| {
        if failure.is_too_large() {
            bytes(connection, owner, session_id)?.check()?;
        }
        Err(failure)
    })
}

/// Returns a page of the state of a user or an app.
pub(super) fn page(connection: &Connection, owner: &StateOwner, config: &ListStateConfig) -> Fallible<StatePage> {
    let (scope, _) = scope_and_user(owner);
    let names: Vec<&str> = [Some(owner.app_name()), owner.user_id()].into_iter().flatten().collect();
    let mut sql = match scope {
        Scope::User => USER_STATE.to_owned(),
        _ => APP_STATE.to_owned(),
    };
    let mut bounds = names.clone();
    let end = prefix_end(&config.prefix);
    let from = match config.after.as_deref() {
        Some(after) if after >= config.prefix.as_str() => (">", after),
        _ => (">=", config.prefix.as_str()),
    };
    for (comparison, name) in [Some(from), end.as_deref().map(|end| ("<", end))].into_iter().flatten() {
        bounds.push(name);
        sql.push_str(&format!(" AND key {comparison} ?{}", bounds.len()));
    }
    sql.push_str(&format!(" ORDER BY key LIMIT {}", config.page_size + 1));
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(bounds))?;
    let (mut page, mut room) = (StatePage::default(), Room::new(config.page_bytes));
    while let Some(row) = rows.next()? {
        let bytes = text_length(row, 0) + text_length(row, 1);
        if page.values.len() == config.page_size || !room.takes(bytes) {
            page.next = page.values.keys().next_back().cloned();
            break;
        }
        let name: String =
            named(row.get(0), || format!("the key '{}' of {}", scope.key(&lossy(row, 0)), names.join("/")))?;
        let value =
            decode(row.get_ref(1)?, || format!("the value of key '{}' of {}", scope.key(&name), names.join("/")))?;
        page.values.insert(name, value);
    }
    Ok(page)
}

/// Returns the values of one scope. `owner` has the app, user and session, as far as the scope needs them. The size of
/// the values in bytes is subtracted from `left`; the read is refused if the size exceeds `left`.
pub(super) fn values(
    connection: &Connection,
    sql: &str,
    owner: &[&str],
    query: &StateQuery,
    scope: Scope,
    left: &mut u64,
) -> Fallible<ScopeMap> {
    let mut values = ScopeMap::new();
    let mut insert = |row: &Row<'_>| -> Fallible<()> {
        *left = left.checked_sub(text_length(row, 0) + text_length(row, 1)).ok_or_else(too_much)?;
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from);
        let name = named(name, || format!("the key '{}' of {}", scope.key(&lossy(row, 0)), owner.join("/")))?;
        let place = || format!("the value of key '{}' of {}", scope.key(name), owner.join("/"));
        let text = named(row.get_ref(1)?.as_str().map_err(Into::into), place)?;
        Ok(rows::insert(&mut values, scope, owner, name, text)?)
    };
    match query.names(scope) {
        None => {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params_from_iter(owner))?;
            while let Some(row) = rows.next()? {
                insert(row)?;
            }
        }
        Some(names) => {
            let mut statement = connection.prepare_cached(&format!("{sql} AND key = ?{}", owner.len() + 1))?;
            for name in names {
                let mut rows = statement.query(params_from_iter(owner.iter().copied().chain([name.as_str()])))?;
                while let Some(row) = rows.next()? {
                    insert(row)?;
                }
            }
        }
    }
    Ok(values)
}

/// Whether a user or an app has few keys, which have no more than this many bytes. Removed keys count as well. A long value
/// is not loaded, because SQLite knows its length.
pub(super) fn is_small(connection: &Connection, scope: Scope, owner: &[&str], bytes: u64) -> Fallible<bool> {
    const FEW_KEYS: usize = 50;
    let mut statement = connection.prepare_cached(match scope {
        Scope::User => "SELECT octet_length(value) FROM user_states WHERE app_name = ?1 AND user_id = ?2 LIMIT 51",
        _ => "SELECT octet_length(value) FROM app_states WHERE app_name = ?1 LIMIT 51",
    })?;
    let mut rows = statement.query(params_from_iter(owner))?;
    let (mut keys, mut sum) = (0, 0);
    while let Some(row) = rows.next()? {
        keys += 1;
        sum += row.get::<_, Option<i64>>(0)?.map_or(0, i64::unsigned_abs);
    }
    Ok(keys <= FEW_KEYS && sum <= bytes)
}

/// Changes a user's or an app's keys outside of any session.
pub(super) fn put_state(
    tx: &Tx<'_>,
    owner: &StateOwner,
    changes: &[TextChange],
    limits: &Limits,
    author: &str,
    time: f64,
) -> Fallible<u64> {
    let position = tx.next_position()?;
    let origin = Origin { position, session: None, event_id: "", author, time };
    let mut growth = GrowthByScope::default();
    for change in changes {
        let was_there = write_shared(tx, owner.app_name(), owner.user_id(), change, &origin)?;
        growth.add(change, was_there);
    }
    growth.check(tx, owner.into(), limits)?;
    Ok(position.unsigned_abs())
}

/// Writes a change and returns whether its key had a value. The UPDATE is the only statement for a key that has a
/// value. It comes first because no other statement could distinguish a new key from a changed one.
pub(super) fn write_own(tx: &Tx<'_>, key: &SessionKey, seq: i64, change: &TextChange) -> Fallible<bool> {
    let row = params![key.app_name(), key.user_id(), key.session_id(), change.name, change.value, seq];
    let changed = tx.execute(
        "UPDATE session_states SET value = ?5, seq = ?6
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND key = ?4 AND value IS NOT NULL",
        row,
    )?;
    if changed == 0 {
        insert_own(tx, key, seq, change)?;
    }
    Ok(changed > 0)
}

pub(super) fn insert_own(tx: &Tx<'_>, key: &SessionKey, seq: i64, change: &TextChange) -> Fallible<()> {
    tx.execute(
        "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET value = excluded.value, seq = excluded.seq",
        params![key.app_name(), key.user_id(), key.session_id(), change.name, change.value, seq],
    )?;
    Ok(())
}

/// Does the same as [`write_own`] for a key of a user, or for a key of an app if there is no user. Adds an entry to the
/// log.
pub(super) fn write_shared(
    tx: &Tx<'_>,
    app: &str,
    user: Option<&str>,
    change: &TextChange,
    origin: &Origin<'_>,
) -> Fallible<bool> {
    let [update, insert] = if user.is_some() { WRITE_USER } else { WRITE_APP };
    let row = params![app, user, change.name, change.value, origin.position];
    let known = tx.find_row(update, row, |row| row.get(0))?;
    let version = match known {
        Some(version) => version,
        None => tx.query_row(insert, row, |row| row.get(0))?,
    };
    state_log::append(tx, app, user, change, version, origin)?;
    Ok(known.is_some())
}

/// The statements that write a user's key: the first for a key that has a value, the second for any other.
const WRITE_USER: [&str; 2] = [
    "UPDATE user_states SET value = ?4, version = version + 1, position = ?5
     WHERE app_name = ?1 AND user_id = ?2 AND key = ?3 AND value IS NOT NULL
     RETURNING version",
    "INSERT INTO user_states (app_name, user_id, key, value, version, position) VALUES (?1, ?2, ?3, ?4, 1, ?5)
     ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, position = excluded.position
     RETURNING version",
];
const WRITE_APP: [&str; 2] = [
    "UPDATE app_states SET value = ?4, version = version + 1, position = ?5
     WHERE app_name = ?1 AND key = ?3 AND value IS NOT NULL
     RETURNING version",
    "INSERT INTO app_states (app_name, key, value, version, position) VALUES (?1, ?3, ?4, 1, ?5)
     ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, position = excluded.position
     RETURNING version",
];
