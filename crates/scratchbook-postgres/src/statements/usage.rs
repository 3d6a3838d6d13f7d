//! The statements that add up how much is stored. The server knows the length of a text that is stored out of line
//! without reading it.

use super::history::STORED;
use super::{Fill, NUMBER, Statement, TEXT};

/// The statements that read how much is stored: bytes, sessions and artifacts.
#[derive(Debug)]
pub(in super::super) struct Usages {
    pub(in super::super) of_user: Statement,
    pub(in super::super) of_app: Statement,
    /// For a fork up to the event $4.
    pub(in super::super) of_fork: Statement,
}

impl Usages {
    pub(super) fn new(fill: &Fill<'_>) -> Self {
        let of_owner = |owner: &str| {
            format!(
                "SELECT s.bytes + a.bytes, s.count, a.count FROM (
                     SELECT coalesce(pg_catalog.sum(bytes), 0)::bigint AS bytes, pg_catalog.count(*) AS count
                     FROM {{schema}}.sessions WHERE {owner}
                 ) AS s CROSS JOIN (
                     SELECT {ARTIFACTS} FROM {{schema}}.artifacts WHERE {owner}
                 ) AS a"
            )
        };
        Self {
            of_user: fill.statement(&of_owner("app_name = $1 AND user_id = $2"), &[TEXT, TEXT]),
            of_app: fill.statement(&of_owner("app_name = $1"), &[TEXT]),
            of_fork: fill.statement(
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
}

const ARTIFACTS: &str = "coalesce(
    pg_catalog.sum(pg_catalog.octet_length(artifact) + pg_catalog.octet_length(custom_metadata)), 0
)::bigint AS bytes, pg_catalog.count(*) AS count";
