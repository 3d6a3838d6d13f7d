//! What the library promises, seen from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "sqlite")]
mod crash;
#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod processes;
#[cfg(feature = "sqlite")]
mod sqlite;
