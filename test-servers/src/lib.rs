//! Real database servers for the project's tests and benches. They are started when they are needed, in a temporary
//! folder, on a free port of the loopback interface, and end with the process that started them.
//!
//! [`postgres`] and [`mysql`] return the address of a server that the whole test process shares, or of the user's own
//! server if [`POSTGRES_VARIABLE`] or [`MYSQL_VARIABLE`] names one; without one, [`mysql`] starts MariaDB, and
//! [`shared_mysql`] always starts MySQL. [`Postgres`], [`MariaDb`] and [`MySql`] are servers of one test, which may stop,
//! kill and restart them. [`StandbyPair`], [`Patroni`], [`Galera`] and [`GroupReplication`] are several servers, one of
//! which can replace another. A [`Proxy`] in front of any server counts round trips and loses requests or answers on
//! demand. [`ChromeDriver`] starts browsers, and [`python`] is the Python with google-adk in it.
//!
//! ```no_run
//! use scratchbook_test_servers::{Postgres, PostgresOptions, Proxy};
//!
//! # fn main() -> scratchbook_test_servers::Result<()> {
//! let server = Postgres::start(&PostgresOptions::default().with_fast_disk())?;
//! let proxy = Proxy::start(server.port())?;
//! let uri = proxy.uri(&server.uri())?;
//! // Work on `uri`, then lose the answer of the next turn, or the server itself:
//! proxy.swallow(1);
//! server.kill()?;
//! server.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call blocks. The first call of a process blocks for some seconds.
//!
//! # Layout
//!
//! - `shared.rs`: one server for a process, or the one that an environment variable names.
//! - `postgres.rs`, `mariadb.rs`: how each server is set up, started and stopped; `product.rs`: how MariaDB and MySQL
//!   differ.
//! - `folder.rs`, `watchdog.sh`: the folder of a server, and what ends the server when we end.
//! - `process.rs`, `account.rs`, `programs.rs`, `port.rs`: the process of a server, its user, its program and its port.
//! - `tls.rs`: certificates; `client.rs`: what a server's command-line client prints.
//! - `cluster/`: a PostgreSQL server with a standby, three PostgreSQL servers under Patroni, three MariaDB servers in a
//!   Galera cluster, and MySQL servers in a Group Replication.
//! - `disk.rs`: a disk that can become full.
//! - `python.rs`: where the Python with google-adk is.
//! - `chromedriver.rs`: a browser behind its WebDriver server.
//! - `proxy.rs`: a proxy that counts round trips, delays them and loses connections at the wrong moment.

mod account;
mod chromedriver;
mod client;
mod cluster;
mod disk;
mod error;
mod folder;
mod mariadb;
mod port;
mod postgres;
mod process;
mod product;
mod programs;
mod proxy;
mod python;
mod shared;
mod tls;

pub use chromedriver::ChromeDriver;
pub use cluster::{Galera, GroupReplication, Patroni, Replication, StandbyPair};
pub use disk::SmallDisk;
pub use error::{Error, Result};
pub use mariadb::{MariaDb, MySql, MySqlOptions, MySqlServer};
pub use postgres::{Postgres, PostgresOptions};
pub use product::{OfMariaDb, OfMySql, OfProduct, Product};
pub use proxy::Proxy;
pub use python::{PYTHON_VARIABLE, python};
pub use shared::{MYSQL_VARIABLE, POSTGRES_VARIABLE, mysql, postgres, shared_mysql};
