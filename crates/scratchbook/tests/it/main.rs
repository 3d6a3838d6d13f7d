//! What the library promises, seen from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
#[cfg(feature = "sqlite")]
mod crash;
#[cfg(feature = "sqlite")]
mod database;
mod instructions;
#[cfg(feature = "sqlite")]
mod processes;
mod runner;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tools;
