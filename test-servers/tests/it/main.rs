//! The servers have the properties that they promise, as their own command-line clients see them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod clusters;
mod leftovers;
mod own_mariadb;
mod own_mysql;
mod own_postgres;
mod shared;
