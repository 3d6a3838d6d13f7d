//! Clusters of servers, which continue when one server dies.

mod galera;
mod group;
mod patroni;
mod standby;

pub use galera::Galera;
pub use group::GroupReplication;
pub use patroni::Patroni;
pub use standby::{Replication, StandbyPair};
