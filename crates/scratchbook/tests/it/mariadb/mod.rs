//! Tests only for MySQL and MariaDB, on a server that the tests start.

mod connect;
mod feed;
mod migrate;
mod plans;
mod processes;
pub(crate) mod server;
mod stress;
mod wire;
