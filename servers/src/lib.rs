//! Real database servers for the project's tests and benches: started when they are needed, in a temporary folder,
//! on a free port of the loopback interface, and gone with the process that started them.
//!
//! [`postgres`] and [`mysql`] give the address of a server that the whole test process shares.
//!
//! # Layout
//!
//! - `shared.rs`: one server for a process, or the one that an environment variable names.
//! - `postgres.rs`, `mariadb.rs`: how each server is set up, started and stopped.
//! - `folder.rs`, `watchdog.sh`: the folder of a server, and what ends the server when we end.
//! - `process.rs`, `account.rs`, `programs.rs`, `port.rs`: what a server runs as, from where and on which port.
//! - `proxy.rs`: a proxy that counts round trips, delays them and loses connections at the wrong moment.

mod account;
mod error;
mod folder;
mod mariadb;
mod port;
mod postgres;
mod process;
mod programs;
mod proxy;
mod shared;

pub use error::{Error, Result};
pub use mariadb::{MariaDb, MariaDbOptions};
pub use postgres::{Postgres, PostgresOptions};
pub use proxy::Proxy;
pub use shared::{MYSQL_VARIABLE, POSTGRES_VARIABLE, mysql, postgres};
