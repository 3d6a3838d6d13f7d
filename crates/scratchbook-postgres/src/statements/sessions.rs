//! The statements that list sessions, and that change titles and labels.

use super::{Fill, NUMBER, Statement, TEXT, TEXTS, Type};
use scratchbook_core::session::ListOrder;

/// The statements that list sessions.
#[derive(Debug)]
pub(in super::super) struct ListStatements {
    of_app: Ways,
    of_user: Ways,
    /// Reads the sessions that were selected from the candidates.
    pub(in super::super) of_keys: Statement,
    /// Reads the sessions that were just created.
    pub(in super::super) made: Statement,
    pub(in super::super) lock: Statement,
    pub(in super::super) update: Statement,
}

/// A list in both orders.
#[derive(Debug)]
struct Ways {
    oldest_first: PageStatements,
    newest_first: PageStatements,
}

/// Reads a page of a list, or the candidates for a filtered page.
#[derive(Debug)]
pub(in super::super) struct PageStatements {
    pub(in super::super) page: Statement,
    pub(in super::super) scan: Statement,
}

impl ListStatements {
    pub(super) fn new(fill: &Fill<'_>) -> Self {
        let page = include_str!("../sql/list_page.sql");
        Self {
            of_app: Ways::new(fill, include_str!("../sql/list_of_app.sql"), page),
            of_user: Ways::new(fill, include_str!("../sql/list_of_user.sql"), page),
            of_keys: fill.statement(
                &include_str!("../sql/list_of_keys.sql").replace("{page}", page),
                &[TEXT, TEXTS, TEXTS, NUMBER],
            ),
            made: fill.statement(
                &include_str!("../sql/made.sql").replace("{page}", page),
                &[TEXT, TEXTS, TEXTS, NUMBER, NUMBER, TEXTS],
            ),
            lock: fill.locking("title, labels, expire_time", "NO KEY UPDATE"),
            // The row exists. An upsert makes this an update by the primary key, whatever plan the planner prefers.
            update: fill.statement(
                "INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position)
                 VALUES ($1, $2, $3, 0, 0, 0, '', 0)
                 ON CONFLICT (app_name, user_id, id) DO UPDATE SET title = $4, labels = $5, expire_time = $6",
                &[TEXT, TEXT, TEXT, TEXT, TEXT, NUMBER],
            ),
        }
    }

    /// Returns the list of a user, or of the whole app if there is no user.
    pub(in super::super) fn of(&self, user_id: Option<&str>, order: ListOrder) -> &PageStatements {
        let Ways { oldest_first, newest_first } = if user_id.is_some() { &self.of_user } else { &self.of_app };
        match order {
            ListOrder::OldestFirst => oldest_first,
            ListOrder::NewestFirst => newest_first,
        }
    }
}

impl Ways {
    fn new(fill: &Fill<'_>, found: &str, page: &str) -> Self {
        const LIST: &[Type] = &[TEXT, NUMBER, TEXT, TEXT, NUMBER, NUMBER];
        let parts = |from: &str, way: &str| {
            let list = include_str!("../sql/list.sql").replace("{found}", found.trim_end()).replace("{page}", page);
            let statement = |sql: &str| fill.statement(&sql.replace("{from}", from).replace("{way}", way), LIST);
            PageStatements { page: statement(&list), scan: statement(found) }
        };
        Self { oldest_first: parts(">", "ASC"), newest_first: parts("<", "DESC") }
    }
}
