//! `/v1`, over memory and SQLite.

mod artifacts;
mod document;
mod errors;
mod events;
mod feeds;
mod generated_client;
mod idle;
mod leaving;
mod page;
mod past;
mod rights;
mod schemathesis;
mod sessions;
mod state;
pub(crate) mod support;
mod upkeep;
mod watch;
