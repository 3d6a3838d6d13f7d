//! `/v1`, over memory and SQLite.

mod document;
mod support;
