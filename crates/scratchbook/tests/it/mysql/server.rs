//! Databases on the MySQL that the tests share.

use std::sync::Mutex;

use scratchbook_test_servers::MySql;

pub(crate) use crate::mariadb::server::connection;
use crate::mariadb::server::{DatabaseOn, SharedServer};

/// A database on the MySQL that the tests share.
pub(crate) type TestDatabase = DatabaseOn<SharedMySql>;

/// A server of a test's own.
pub(super) type OwnServer = MySql;

#[derive(Debug)]
pub(crate) struct SharedMySql;

impl SharedServer for SharedMySql {
    fn uri() -> String {
        scratchbook_test_servers::shared_mysql().unwrap()
    }

    fn free() -> &'static Mutex<Vec<String>> {
        static FREE: Mutex<Vec<String>> = Mutex::new(Vec::new());
        &FREE
    }
}
