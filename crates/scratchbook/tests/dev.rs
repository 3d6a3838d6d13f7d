#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unused_imports, unused_macros)]
#[macro_use]
#[path = "it/stores.rs"]
mod stores;
#[path = "it/compaction/mod.rs"]
mod compaction;
#[path = "it/runner.rs"]
mod runner;
