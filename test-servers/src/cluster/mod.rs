//! Clusters of servers, which continue when one server dies.

mod galera;
mod patroni;
mod standby;

pub use galera::Galera;
pub use patroni::Patroni;
pub use standby::{Replication, StandbyPair};
