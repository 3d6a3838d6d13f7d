//! The server's pages and ADK's dev interface in Chromium, which chromedriver controls.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chromedriver;
mod page;
mod serve;

// The tests of the command have the same fixtures.
#[allow(dead_code)]
#[path = "../../../scratchbook-cli/tests/cli/fixture.rs"]
mod fixture;
#[allow(dead_code)]
#[path = "../../../scratchbook-cli/tests/cli/models.rs"]
mod models;
#[allow(dead_code)]
#[path = "../../../scratchbook-cli/tests/cli/google_adk/python.rs"]
mod python;

pub(crate) use fixture::{Fixture, fails, scratchbook};

const PROGRAM: &str = env!("CARGO_BIN_EXE_scratchbook-for-browsers");
