//! Servers that die and come back, alone or as one of several, while several processes write to them: nothing that
//! was acknowledged is lost, nothing is doubled, and the same processes go on.
//!
//! - `load.rs`: processes that write, and the answers they got. `writer.rs`: such a process from within.
//! - `check.rs`: what has to be stored then.
//! - `restart.rs`, `standby.rs`, `galera.rs`: what happens to the servers meanwhile.
//! - `partitions.rs`: every promise on PostgreSQL tables that are partitioned by user.

mod check;
mod galera;
mod load;
mod partitions;
mod restart;
mod standby;
mod writer;

use std::time::Duration;

use crate::database::number_from_env;

/// How long the processes write before something happens and after it. `SCRATCHBOOK_CLUSTER_SECONDS` says otherwise.
fn a_while() -> Duration {
    Duration::from_secs(number_from_env("SCRATCHBOOK_CLUSTER_SECONDS", 4))
}
