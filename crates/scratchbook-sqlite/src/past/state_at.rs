//! The merged state as it was at an event of a session.

use rusqlite::{Connection, params};

use super::checkpoint::NewCheckpoint;
use super::fold;
use crate::error::Fallible;
use crate::row::{named, sql_number};
use crate::state::scope_and_user;
use crate::state_log;
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::plan::fork::log_pruned;
use scratchbook_core::plan::room::too_much;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{InitialState, SessionKey, StateBytes, StateOwner};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};

/// Returns the state at an event, and checkpoints to store so that the next call costs less.
pub(crate) fn state_at(
    connection: &Connection,
    key: &SessionKey,
    seq: u64,
    now: i64,
) -> Fallible<(StateMap, Vec<NewCheckpoint>)> {
    let stored = fold::find_at(connection, key, seq, now)?;
    let position = stored.position_at(connection, seq)?;
    let mut fold = stored.fold(connection, seq, |_, _| false)?;
    let mut left = StateBytes::MAX;
    let [user, app] = [key.user(), key.app()].map(|owner| values(connection, &owner, position, &mut left));
    let (user, app) = (user?.ok_or_else(|| log_pruned(key, seq))?, app?.ok_or_else(|| log_pruned(key, seq))?);
    // The background job makes the checkpoints near the end of a session.
    if fold.count <= 2 * CHECKPOINT_EVENTS {
        fold.missing.clear();
    }
    Ok((StateMap::new(fold.folded.into_scope()?, user, app), fold.missing))
}

/// Returns the position of an event's commit in the logs of the user's and the app's state.
pub(crate) fn position_at(connection: &Connection, key: &SessionKey, seq: u64, now: i64) -> Fallible<u64> {
    fold::find_at(connection, key, seq, now)?.position_at(connection, seq)
}

/// Returns the values of a user or an app as they were at a position; `None` if its log was pruned beyond that
/// position. The size of the values is subtracted from `left`.
fn values(connection: &Connection, owner: &StateOwner, position: u64, left: &mut u64) -> Fallible<Option<ScopeMap>> {
    let (app, (scope, user)) = (owner.app_name(), scope_and_user(owner));
    // A key that was not written after the position has its value in its row. Each other key needs one lookup in the
    // log.
    let mut statement = connection.prepare_cached(match scope {
        Scope::User => {
            "SELECT key, value, 0 FROM user_states WHERE app_name = ?1 AND user_id = ?3 AND position <= ?4
             UNION ALL
             SELECT now.key, log.value, 1 FROM user_states AS now LEFT JOIN state_log AS log
                 ON log.app_name = ?1 AND log.scope = ?2 AND log.user_id = ?3 AND log.key = now.key AND log.position = (
                     SELECT max(position) FROM state_log INDEXED BY state_log_by_key
                     WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND key = now.key AND position <= ?4
                 )
             WHERE now.app_name = ?1 AND now.user_id = ?3 AND now.position > ?4"
        }
        _ => {
            "SELECT key, value, 0 FROM app_states WHERE app_name = ?1 AND position <= ?4
             UNION ALL
             SELECT now.key, log.value, 1 FROM app_states AS now LEFT JOIN state_log AS log
                 ON log.app_name = ?1 AND log.scope = ?2 AND log.user_id = ?3 AND log.key = now.key AND log.position = (
                     SELECT max(position) FROM state_log INDEXED BY state_log_by_key
                     WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND key = now.key AND position <= ?4
                 )
             WHERE now.app_name = ?1 AND now.position > ?4"
        }
    })?;
    let mut rows = statement.query(params![app, scope.as_str(), user, sql_number(position)])?;
    let names = [app, user];
    let names = &names[..if scope == Scope::User { 2 } else { 1 }];
    let (mut values, mut any_later) = (ScopeMap::new(), false);
    while let Some(row) = rows.next()? {
        let place = || format!("a key of {}", names.join("/"));
        any_later |= row.get::<_, i64>(2)? == 1;
        let name = named(row.get_ref(0)?.as_str().map_err(Into::into), place)?;
        let place = || format!("the value of key '{}' of {}", scope.key(name), names.join("/"));
        if let Some(text) = named(row.get_ref(1)?.as_str_or_null().map_err(Into::into), place)? {
            *left = left.checked_sub((name.len() + text.len()) as u64).ok_or_else(too_much)?;
            rows::insert(&mut values, scope, names, name, text)?;
        }
    }
    if any_later && state_log::pruned(connection, owner)? > position + 1 {
        return Ok(None);
    }
    Ok(Some(values))
}

/// Returns the state with which the fold of a session's events begins.
pub(crate) fn initial_state(connection: &Connection, key: &SessionKey, now: i64) -> Fallible<Option<InitialState>> {
    match fold::find(connection, key, now)? {
        Some(_) => fold::initial(connection, key).map(Some),
        None => Ok(None),
    }
}
