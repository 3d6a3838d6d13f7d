//! More than one server: what goes on when one of them dies.

mod galera;
mod patroni;
mod standby;

pub use galera::Galera;
pub use patroni::Patroni;
pub use standby::{Replication, StandbyPair};
