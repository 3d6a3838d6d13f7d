//! The tests of MariaDB that depend on the server, on MySQL.

#[path = "../mariadb/migrate.rs"]
mod migrate;
pub(crate) mod server;
#[path = "../mariadb/wire.rs"]
mod wire;
