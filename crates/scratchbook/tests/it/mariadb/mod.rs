//! What is special to MySQL and MariaDB, on a server of the tests' own.

mod connect;
mod migrate;
mod plans;
pub(crate) mod server;
mod speed;
