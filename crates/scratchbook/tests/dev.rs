#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unused_macros, unused_imports)]
#[path = "it/agents.rs"]
mod agents;
#[path = "it/database.rs"]
mod database;
#[path = "it/places.rs"]
mod places;
#[path = "it/recorded.rs"]
mod recorded;
#[path = "it/resume/mod.rs"]
mod resume;
#[path = "it/runner.rs"]
mod runner;
#[path = "it/tools.rs"]
mod tools;
