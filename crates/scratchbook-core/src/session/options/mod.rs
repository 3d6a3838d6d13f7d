//! Options of a service's methods, and their results.

mod change;
mod create;
mod list;
mod prune;
mod read;
mod write;

pub use change::{ChangeQuery, StateChange};
pub use create::{CreateSessionConfig, Expiry, ForkConfig, IdScope, InitialState, SharedKeys};
#[doc(hidden)]
pub use list::PAGE_BYTES;
pub use list::{ListOrder, ListSessionsConfig, ListSessionsResponse, ListStateConfig, StatePage};
pub use prune::Prune;
pub use read::{EventCursor, GetSessionConfig, StateSelection};
pub use write::{AppendOptions, Committed, ConflictMode, Outcome, PutStateOptions};
