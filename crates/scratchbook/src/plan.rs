//! For stores of your own: what a write writes and what a read reads, worked out before a store is asked.
//!
//! A store carries these descriptions out in one commit, or in one snapshot, and decides nothing anew; that is how
//! all stores keep the same promises. The example `custom_store` is a whole store on them, which passes the
//! conformance suite. They grow with the crate: a new version may add to them what a store then has to carry out.

pub use crate::artifact::check_filename;
pub use crate::session::check_id;
pub use crate::store::artifact::{PreparedArtifact, prepare_artifact};
pub use crate::store::commit::{
    KeyChange, Prepared as PreparedEvent, PreparedSession, PreparedState, prepare_event, prepare_session,
    prepare_state, replay,
};
pub use crate::store::feed::{Feed, FeedPlace};
pub use crate::store::filter::SessionFilter;
pub use crate::store::fork::{check_event_number, fork_key, log_pruned};
pub use crate::store::locate::LocateQuery;
pub use crate::store::query::{EventQuery, ListPosition, ListQuery, StateQuery};
pub use crate::store::resolve::{Found, Refusal, WrittenKey};
pub use crate::store::room::Room;
