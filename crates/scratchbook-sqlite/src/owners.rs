//! Lists apps and their users. Each is found through a primary key, so the cost of a page depends on its length
//! alone.

use rusqlite::{Connection, params_from_iter};

use super::error::Fallible;
use super::row::named;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::session::StateOwner;

/// Returns the owners after a given one, each app before its users, in byte order.
pub(super) fn after(connection: &Connection, after: Option<&StateOwner>, limit: usize) -> Fallible<Vec<StateOwner>> {
    let mut owners = Vec::new();
    let (mut app, mut user) = match after {
        None => (next_app(connection, None)?, None),
        Some(owner) => (Some(owner.app_name().to_owned()), owner.user_id().map(str::to_owned)),
    };
    let mut listed = after.is_some();
    while let Some(name) = app
        && owners.len() < limit
    {
        if !listed {
            owners.push(StateOwner::app(&name).map_err(|e| damaged(format!("the app {name}")).with_source(e))?);
        }
        while owners.len() < limit
            && let Some(next) = next_user(connection, &name, user.as_deref())?
        {
            let owner = StateOwner::user(&name, &next);
            owners.push(owner.map_err(|e| damaged(format!("the user {name}/{next}")).with_source(e))?);
            user = Some(next);
        }
        (app, user, listed) = (next_app(connection, Some(&name))?, None, false);
    }
    Ok(owners)
}

/// Returns the first app after a given one, or the first of all.
fn next_app(connection: &Connection, after: Option<&str>) -> Fallible<Option<String>> {
    // The first app has a statement of its own: an app's name may be empty, and no text is less than the empty one.
    let above = if after.is_some() { "WHERE app_name > ?1" } else { "" };
    let sql = format!(
        "SELECT min(app_name) FROM (
             SELECT min(app_name) AS app_name FROM sessions {above}
             UNION ALL SELECT min(app_name) FROM app_states {above}
             UNION ALL SELECT min(app_name) FROM user_states {above}
             UNION ALL SELECT min(app_name) FROM artifacts {above}
         )"
    );
    let found = connection.prepare_cached(&sql)?.query_row(params_from_iter(after), |row| row.get(0));
    named(found, || format!("the app after {after:?}"))
}

/// Returns the first user of an app after a given one, or the first of all.
fn next_user(connection: &Connection, app: &str, after: Option<&str>) -> Fallible<Option<String>> {
    let above = if after.is_some() { "AND user_id > ?2" } else { "" };
    let sql = format!(
        "SELECT min(user_id) FROM (
             SELECT min(user_id) AS user_id FROM sessions WHERE app_name = ?1 {above}
             UNION ALL SELECT min(user_id) FROM user_states WHERE app_name = ?1 {above}
             UNION ALL SELECT min(user_id) FROM artifacts WHERE app_name = ?1 {above}
         )"
    );
    let names = [Some(app), after].into_iter().flatten();
    let found = connection.prepare_cached(&sql)?.query_row(params_from_iter(names), |row| row.get(0));
    named(found, || format!("the user of {app} after {after:?}"))
}
