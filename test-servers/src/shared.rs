//! One server of each kind for a whole process, or the user's own.

use std::sync::OnceLock;

use crate::{Error, MariaDb, MySql, MySqlOptions, Postgres, PostgresOptions, Result};

/// The environment variable with the URI of a PostgreSQL server to test on.
pub const POSTGRES_VARIABLE: &str = "SCRATCHBOOK_TEST_POSTGRES";

/// The environment variable with the URI of a MySQL or MariaDB server to test on.
pub const MYSQL_VARIABLE: &str = "SCRATCHBOOK_TEST_MYSQL";

/// Returns the URI of a PostgreSQL server: the one that [`POSTGRES_VARIABLE`] names, or else a server that is started
/// at the first call and serves the whole process. This server is fast, but may lose data in a power failure.
///
/// # Errors
///
/// No server could be started. The message says what to do about it.
pub fn postgres() -> Result<String> {
    static SERVER: OnceLock<Result<Postgres>> = OnceLock::new();
    let start = || Postgres::start(&PostgresOptions::default().with_fast_disk());
    of_environment(POSTGRES_VARIABLE).map_or_else(
        || match SERVER.get_or_init(start) {
            Ok(server) => Ok(server.uri()),
            Err(error) => Err(advice(error, "postgresql", POSTGRES_VARIABLE, "postgres")),
        },
        Ok,
    )
}

/// Returns the URI of a MySQL or MariaDB server: the one that [`MYSQL_VARIABLE`] names, or else a MariaDB server that
/// is started at the first call and serves the whole process. This server is fast, but may lose data in a power
/// failure.
///
/// # Errors
///
/// No server could be started. The message says what to do about it.
pub fn mysql() -> Result<String> {
    static SERVER: OnceLock<Result<MariaDb>> = OnceLock::new();
    let start = || MariaDb::start(&MySqlOptions::default().with_fast_disk());
    of_environment(MYSQL_VARIABLE).map_or_else(
        || match SERVER.get_or_init(start) {
            Ok(server) => Ok(server.uri()),
            Err(error) => Err(advice(error, "mariadb-server", MYSQL_VARIABLE, "mariadb")),
        },
        Ok,
    )
}

/// Returns the URI of a MySQL server, which is started at the first call and serves the whole process. This server is
/// fast, but may lose data in a power failure.
///
/// # Errors
///
/// No server could be started. The message says what to do about it.
pub fn shared_mysql() -> Result<String> {
    static SERVER: OnceLock<Result<MySql>> = OnceLock::new();
    let start = || MySql::start(&MySqlOptions::default().with_fast_disk().with_line("sync_binlog = 0"));
    match SERVER.get_or_init(start) {
        Ok(server) => Ok(server.uri()),
        Err(error) => Err(Error::new(format!(
            "{error}\nThis test needs MySQL. Either unpack it with: cargo xtask gate --step servers, or leave such tests \
             out: cargo test --locked -- --skip mysql:: --skip own_mysql"
        ))),
    }
}

fn of_environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|uri| !uri.is_empty())
}

fn advice(error: &Error, package: &str, variable: &str, filter: &str) -> Error {
    Error::new(format!(
        "{error}\nThis test needs a database server. Either install one (on Debian or Ubuntu: apt-get install {package}; \
         it need not run), or set {variable} to the URI of one where the tests may create and drop what they like, \
         or leave such tests out: cargo test --locked -- --skip {filter}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_server_the_error_names_all_three_ways_out() {
        let text = advice(&Error::new("none"), "postgresql", POSTGRES_VARIABLE, "postgres").to_string();
        for part in ["none\n", "apt-get install postgresql", POSTGRES_VARIABLE, "--skip postgres"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
