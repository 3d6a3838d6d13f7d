//! What is special to MySQL and MariaDB, on a server of the tests' own.

mod connect;
mod feed;
mod migrate;
mod plans;
mod processes;
pub(crate) mod server;
mod stress;
mod wire;
