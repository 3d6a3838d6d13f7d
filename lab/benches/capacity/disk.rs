//! How much space tables take on the disk.

use std::path::Path;

use rusqlite::Connection;
use scratchbook_test_servers::{MariaDb, Postgres};

const TABLES: [&str; 7] =
    ["sessions", "initial_states", "session_states", "users", "user_states", "events", "state_log"];

/// A table, with its rows and its size in bytes.
pub(crate) struct Size {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) table: u64,
    pub(crate) indexes: u64,
}

impl Size {
    fn of(text: &str, separator: char) -> Self {
        let mut words = text.split(separator);
        let name = words.next().unwrap().to_owned();
        let mut number = || words.next().unwrap().trim().parse().unwrap();
        Self { name, rows: number(), table: number(), indexes: number() }
    }
}

pub(crate) fn postgres(server: &Postgres) -> Vec<Size> {
    let size = |name: &&str| {
        // The partitions of the table, or the table itself if it has no partitions.
        let sql = format!(
            "SELECT '{name}', (SELECT count(*) FROM {name}), sum(pg_table_size(part)), sum(pg_indexes_size(part))
             FROM (SELECT relid::oid FROM pg_partition_tree('{name}') UNION SELECT '{name}'::regclass) AS p (part)"
        );
        Size::of(&server.ask(&sql).unwrap(), '|')
    };
    TABLES.iter().map(size).collect()
}

/// Returns the sizes of the tables. InnoDB keeps a table in its primary key, so this index is part of the table's size.
pub(crate) fn mariadb(server: &MariaDb) -> Vec<Size> {
    let size = |name: &&str| {
        server.ask(&format!("ANALYZE TABLE scratchbook.{name}")).unwrap();
        let sql = format!(
            "SELECT '{name}', (SELECT count(*) FROM scratchbook.{name}), data_length, index_length
             FROM information_schema.TABLES WHERE table_schema = 'scratchbook' AND table_name = '{name}'"
        );
        Size::of(&server.ask(&sql).unwrap(), '\t')
    };
    TABLES.iter().map(size).collect()
}

pub(crate) fn sqlite(path: &Path) -> Vec<Size> {
    let file = Connection::open(path).unwrap();
    let size = |name: &&str| {
        let number = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
        let pages = |of: &str| {
            number(&format!(
                "SELECT coalesce(sum(pgsize), 0) FROM dbstat
                 WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = '{name}' AND type = '{of}')"
            ))
        };
        let rows = number(&format!("SELECT count(*) FROM {name}"));
        Size { name: (*name).to_owned(), rows, table: pages("table"), indexes: pages("index") }
    };
    // A SQLite file has no table of users.
    TABLES.iter().filter(|name| **name != "users").map(size).collect()
}
