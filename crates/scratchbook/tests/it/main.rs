//! The promises of the library, as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod instructions;
mod runner;
mod tools;
