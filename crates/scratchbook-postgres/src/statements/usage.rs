//! The statements that add up how much is stored. For a text that is stored out of line, the server knows the length
//! without reading the text.

use super::history::STORED;
use super::{Fill, NUMBER, Statement, TEXT};

statements! {
    /// The statements that read how much is stored: bytes, sessions and artifacts.
    Usages(fill) {
        of_user: Statement = fill.statement(&of_owner("app_name = $1 AND user_id = $2"), &[TEXT, TEXT]),
        of_app: Statement = fill.statement(&of_owner("app_name = $1"), &[TEXT]),
        /// Reads the size of the state of the session $3, the user $2 and the app $1.
        of_state: Statement = fill.statement(
            &format!(
                "SELECT
                     (SELECT {KEYS} FROM {{schema}}.session_states
                      WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND value IS NOT NULL),
                     (SELECT {KEYS} FROM {{schema}}.user_states
                      WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL),
                     (SELECT {KEYS} FROM {{schema}}.app_states WHERE app_name = $1 AND value IS NOT NULL)"
            ),
            &[TEXT, TEXT, TEXT],
        ),
        /// Reads how much a fork up to the event $4 would store.
        of_fork: Statement = fill.statement(
            &format!(
                "SELECT {STORED} + a.bytes, 1::bigint, a.count FROM (
                     SELECT {ARTIFACTS} FROM {{schema}}.artifacts
                     WHERE app_name = $1 AND user_id = $2 AND session_id = $3
                 ) AS a"
            ),
            &[TEXT, TEXT, TEXT, NUMBER],
        ),
    }
}

const KEYS: &str = "coalesce(pg_catalog.sum(pg_catalog.octet_length(key) + pg_catalog.octet_length(value)), 0)::bigint";

const ARTIFACTS: &str = "coalesce(
    pg_catalog.sum(pg_catalog.octet_length(artifact) + pg_catalog.octet_length(custom_metadata)), 0
)::bigint AS bytes, pg_catalog.count(*) AS count";

/// Returns the statement that adds up how much the owner in this condition has stored.
fn of_owner(owner: &str) -> String {
    format!(
        "SELECT s.bytes + a.bytes, s.count, a.count FROM (
             SELECT coalesce(pg_catalog.sum(bytes), 0)::bigint AS bytes, pg_catalog.count(*) AS count
             FROM {{schema}}.sessions WHERE {owner}
         ) AS s CROSS JOIN (
             SELECT {ARTIFACTS} FROM {{schema}}.artifacts WHERE {owner}
         ) AS a"
    )
}
