//! The promises of the library, as tests: of every store, of agents and runs, and of what survives a crash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod stores;

mod agent_config;
mod agent_tools;
mod agents;
mod asking;
mod capabilities;
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod clusters;
mod compaction;
mod conformance;
mod counting;
mod crash;
mod database;
mod fixtures;
mod generate;
mod google_adk;
mod instructions;
mod layers;
mod leaving;
mod limits;
mod logged;
#[cfg(feature = "mysql")]
mod mariadb;
mod model_based;
mod models;
#[cfg(feature = "mysql")]
#[allow(clippy::duplicate_mod)] // Some files of `mariadb` are compiled for both servers.
mod mysql;
mod operations;
mod overlay;
mod pending;
mod pieces;
mod places;
mod plugins;
#[cfg(feature = "postgres")]
mod postgres;
mod processes;
mod quotas;
mod recorded;
mod removals;
mod resume;
mod runner;
#[cfg(feature = "schema")]
mod schema;
mod slow;
mod sqlite;
mod tools;
mod toolsets;
mod travel;
mod unique;
mod verify;
#[cfg(feature = "metrics")]
mod watching;
mod wire;
