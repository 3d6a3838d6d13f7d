//! More than one server: what goes on when one of them dies.

mod galera;
mod standby;

pub use galera::Galera;
pub use standby::{Replication, StandbyPair};
