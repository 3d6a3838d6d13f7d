//! The promises of the library, as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod crash;
mod database;
mod instructions;
mod processes;
mod runner;
mod sqlite;
mod tools;
