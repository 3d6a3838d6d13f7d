//! Tests only for PostgreSQL: connections and their failures, round trips, locks, plans, migrations.

mod crash;
mod increments;
mod locks;
mod opening;
mod plans;
mod pooler;
mod processes;
mod secrets;
pub(crate) mod server;
mod stress;
mod tables;
mod tls;
mod upgrade;
mod waiting;
mod wire;
