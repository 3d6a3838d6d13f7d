//! Servers, single or in clusters, die and come back while several processes write to them. Nothing that was
//! acknowledged is lost, nothing is stored twice, and the same processes continue.
//!
//! - `load.rs`: processes that write, and their acknowledgements. `writer.rs`: such a process from within.
//! - `check.rs`: what has to be stored afterwards.
//! - `restart.rs`, `standby.rs`, `galera.rs`, `own_mysql.rs`: what happens to the servers meanwhile.
//! - `partitions.rs`: every promise on PostgreSQL tables that are partitioned by user.

mod check;
mod galera;
mod load;
mod own_mysql;
mod partitions;
mod restart;
mod standby;
mod writer;

use std::time::Duration;

use crate::database::number_from_env;

/// How long the processes write before and after the failure. `SCRATCHBOOK_CLUSTER_SECONDS` overrides this.
fn a_while() -> Duration {
    Duration::from_secs(number_from_env("SCRATCHBOOK_CLUSTER_SECONDS", 4))
}
