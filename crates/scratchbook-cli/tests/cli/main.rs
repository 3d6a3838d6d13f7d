//! The command as its users run it: a process with arguments, output and an exit code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod adk_js;
mod adk_rows;
mod backup;
mod chat;
mod demo;
mod failures;
mod fixture;
mod google_adk;
mod help;
mod input;
mod jsonl;
mod keyring;
mod migrate;
mod models;
mod operations;
mod owners;
mod pages;
mod past;
mod prune;
mod schema;
mod seal;
mod serve;
mod servers;
mod sessions;
mod setup;
mod state;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
mod terminal;
mod token;
mod verify;
mod versions;
#[cfg(all(unix, feature = "vertex-ai"))]
mod vertex;
mod watch;

pub(crate) use fixture::{Fixture, OF_MODELS, S1, fails, output, scratchbook, text, uri};

const PROGRAM: &str = env!("CARGO_BIN_EXE_scratchbook");
