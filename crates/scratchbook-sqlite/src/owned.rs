//! The state of users and apps, and its log.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::{Map, Value};

use super::error::Fallible;
use super::read::{self, decode, lossy, named, number, sql_limit, sql_number, text_length};
use scratchbook_core::plan::query::StateQuery;
use scratchbook_core::plan::room::Room;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{ListStateConfig, PAGE_BYTES, StateChange, StateOwner, StatePage};
use scratchbook_core::state::Scope;

/// The columns of a change, as [`change`] reads them.
pub(super) const CHANGE: &str = "position, key, version, value, session_user, session_id, seq, event_id, author, time";

/// The scope of an owner's keys, and the user as the log has it.
pub(super) fn scope_and_user(owner: &StateOwner) -> (Scope, &str) {
    owner.user_id().map_or((Scope::App, ""), |user| (Scope::User, user))
}

/// The state of a user or an app.
pub(super) fn state(connection: &Connection, owner: &StateOwner) -> Fallible<Map<String, Value>> {
    let (app, mut left) = (owner.app_name(), u64::MAX);
    let values = match owner.user_id() {
        Some(user) => {
            read::values(connection, read::USER_STATE, &[app, user], &StateQuery::All, Scope::User, &mut left)?
        }
        None => read::values(connection, read::APP_STATE, &[app], &StateQuery::All, Scope::App, &mut left)?,
    };
    Ok(values.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect())
}

/// A page of the state of a user or an app.
pub(super) fn page(connection: &Connection, owner: &StateOwner, config: &ListStateConfig) -> Fallible<StatePage> {
    let (scope, _) = scope_and_user(owner);
    let names: Vec<&str> = [Some(owner.app_name()), owner.user_id()].into_iter().flatten().collect();
    let mut sql = match scope {
        Scope::User => read::USER_STATE.to_owned(),
        _ => read::APP_STATE.to_owned(),
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

/// The least text that comes after all that begin so; `None` where there is none. Texts are compared by their bytes, which
/// have the order of the characters.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut rest = prefix.chars();
    while let Some(last) = rest.next_back() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{}{next}", rest.as_str()));
        }
    }
    None
}

/// The log of a user's or an app's state.
pub(super) fn changes(
    connection: &Connection,
    owner: &StateOwner,
    after: u64,
    limit: usize,
) -> Fallible<Vec<StateChange>> {
    let (scope, user) = scope_and_user(owner);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {CHANGE} FROM state_log
         WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND position > ?4 ORDER BY position, key"
    ))?;
    let mut rows = statement.query(params![owner.app_name(), scope.as_str(), user, sql_number(after)])?;
    let (mut changes, mut bytes): (Vec<StateChange>, u64) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let length = text_length(row, 3);
        let change = change(row, owner)?;
        let is_full = changes.len() >= limit || !changes.is_empty() && bytes + length > PAGE_BYTES;
        // A page ends between two commits, never inside one.
        if is_full && changes.last().is_none_or(|last| last.position != change.position) {
            break;
        }
        bytes += length;
        changes.push(change);
    }
    Ok(changes)
}

/// What was done to one key before a position, the latest first.
pub(super) fn key_changes(
    connection: &Connection,
    owner: &StateOwner,
    name: &str,
    before: u64,
    limit: usize,
) -> Fallible<Vec<StateChange>> {
    let (scope, user) = scope_and_user(owner);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {CHANGE} FROM state_log INDEXED BY state_log_by_key
         WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND key = ?4 AND position < ?5
         ORDER BY position DESC LIMIT ?6"
    ))?;
    let app = owner.app_name();
    let mut rows = statement.query(params![app, scope.as_str(), user, name, sql_number(before), sql_limit(limit)])?;
    let (mut changes, mut room) = (Vec::new(), Room::new(PAGE_BYTES));
    while let Some(row) = rows.next()? {
        if !room.takes(text_length(row, 3)) {
            break;
        }
        changes.push(change(row, owner)?);
    }
    Ok(changes)
}

/// How far the log of a user's or an app's state was pruned.
pub(super) fn pruned(connection: &Connection, owner: &StateOwner) -> Fallible<u64> {
    let (scope, user) = scope_and_user(owner);
    let sql = "SELECT position FROM pruned_logs WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([owner.app_name(), scope.as_str(), user], |row| number(row, 0)).optional();
    Ok(named(found, || format!("how far the log of {owner:?} was pruned"))?.unwrap_or_default())
}

/// A change from the first columns of a row, which are [`CHANGE`].
pub(super) fn change(row: &Row<'_>, owner: &StateOwner) -> Fallible<StateChange> {
    let (app, (scope, user)) = (owner.app_name(), scope_and_user(owner));
    let place = || {
        let (name, position) = (lossy(row, 1), row.get::<_, i64>(0).unwrap_or_default());
        format!("the log of {}key '{name}' of {app}/{user} at position {position}", scope.prefix())
    };
    let value = match row.get_ref(3)? {
        ValueRef::Null => None,
        value => Some(decode(value, place)?),
    };
    let session = (named(row.get::<_, Option<String>>(4), place)?, named(row.get::<_, Option<String>>(5), place)?);
    let origin = match session {
        (Some(user), Some(session)) => Some((stored_key(app, &user, &session)?, named(number(row, 6), place)?)),
        _ => None,
    };
    Ok(StateChange {
        position: named(number(row, 0), place)?,
        name: named(row.get(1), place)?,
        version: named(number(row, 2), place)?,
        value,
        origin,
        event_id: named(row.get(7), place)?,
        author: named(row.get(8), place)?,
        time: named(row.get(9), place)?,
    })
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn a_prefix_ends_before_the_next_text_that_has_it_not() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("x\u{d7ff}", Some("x\u{e000}")),
            ("cart:", Some("cart;")),
            ("\u{7f}", Some("\u{80}")),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
            assert!(end.is_none_or(|end| prefix < end), "{prefix:?}");
        }
    }
}
