//! Finds a session by its id alone, and checks that an id is unique within an app.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::row::named;
use super::transaction::Tx;
use scratchbook_core::plan::locate::{LocateQuery, taken_within};
use scratchbook_core::session::{IdScope, SessionKey};

const USERS_WITH: &str = "SELECT user_id FROM sessions INDEXED BY sessions_by_id
    WHERE app_name = ?1 AND id = ?2 AND (expire_time IS NULL OR expire_time > ?3) LIMIT 2";

/// Returns the session with this id. Two users are enough to know that the id is ambiguous.
pub(super) fn find(connection: &Connection, query: &LocateQuery, now: i64) -> Fallible<Option<SessionKey>> {
    let mut statement = connection.prepare_cached(USERS_WITH)?;
    let mut rows = statement.query(params![query.app_name, query.session_id, now])?;
    let mut users: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let place = || format!("the user of a session {} of {}", query.session_id, query.app_name);
        users.push(named(row.get(0), place)?);
    }
    Ok(query.pick(users)?)
}

/// Refuses a new session whose id is taken within its scope. There is only one writer, so the id stays free until
/// the commit.
pub(super) fn check_new(tx: &Tx<'_>, key: &SessionKey, scope: IdScope, now: i64) -> Fallible<()> {
    if scope == IdScope::User {
        return Ok(());
    }
    let sql = "SELECT 1 FROM sessions INDEXED BY sessions_by_id
        WHERE app_name = ?1 AND id = ?2 AND (expire_time IS NULL OR expire_time > ?3) LIMIT 1";
    match tx.find_row(sql, params![key.app_name(), key.session_id(), now], |_| Ok(()))? {
        Some(()) => Err(taken_within(scope, key).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::{Connection, StatementStatus};

    use super::{USERS_WITH, find};
    use crate::locks::FileLock;
    use crate::schema::prepare;
    use scratchbook_core::error::ErrorKind;
    use scratchbook_core::plan::locate::LocateQuery;

    /// Returns SQLite's count of the steps that a search takes.
    fn steps(connection: &Connection, id: &str) -> i32 {
        connection.prepare_cached(USERS_WITH).unwrap().reset_status(StatementStatus::VmStep);
        let found = find(connection, &LocateQuery::new("many", id).unwrap(), 1);
        match id {
            "none" => assert_eq!(found.unwrap(), None),
            "same" => {
                let error = found.unwrap_err().into_error("many".as_ref());
                assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
            }
            _ => assert_eq!(found.unwrap().unwrap().to_string(), format!("many/user1/{id}")),
        }
        connection.prepare_cached(USERS_WITH).unwrap().get_status(StatementStatus::VmStep)
    }

    #[test]
    fn a_session_is_found_in_as_many_steps_among_a_hundred_thousand_as_among_a_few() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let mut connection = Connection::open(&path).unwrap();
        prepare(&mut connection, &path, &mut FileLock::beside(&path, Duration::from_secs(1)).unwrap()).unwrap();
        let fill = |session: &str, numbers: std::ops::RangeInclusive<u32>| {
            let (first, last) = numbers.into_inner();
            let sql = format!(
                "WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
                 INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, position)
                 SELECT 'many', 'user' || (n % 1000), {session}, 0, 0, n, 0 FROM numbers"
            );
            connection.execute_batch(&sql).unwrap();
        };
        fill("'s' || n", 1..=10);
        fill("'same'", 1..=2);
        let few = ["s1", "none", "same"].map(|id| steps(&connection, id));
        fill("'s' || n", 11..=100_000);
        fill("'same'", 3..=1000);
        let many = ["s1", "none", "same"].map(|id| steps(&connection, id));
        assert_eq!(few, many);
        assert!(few.iter().all(|steps| (1..100).contains(steps)), "{few:?}");
    }
}
