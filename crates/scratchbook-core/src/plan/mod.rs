//! For stores of your own: descriptions of reads and writes, computed before a store is involved.
//!
//! A store carries out these descriptions in one commit or in one snapshot, and decides nothing itself; this is how
//! all stores keep the same promises. The example `custom_store` is a complete store built on them, which passes the
//! conformance suite. A new version of this crate may add descriptions, which a store then has to support.

#[doc(hidden)]
pub mod artifact;
#[doc(hidden)]
pub mod commit;
#[doc(hidden)]
pub mod feed;
#[doc(hidden)]
pub mod filter;
#[doc(hidden)]
pub mod folded;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod growth;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod locate;
#[doc(hidden)]
pub mod migrate;
#[doc(hidden)]
pub mod query;
#[doc(hidden)]
pub mod quota;
#[doc(hidden)]
pub mod redact;
#[doc(hidden)]
pub mod resolve;
mod rewind;
#[doc(hidden)]
pub mod room;
pub(crate) mod sent;
#[doc(hidden)]
pub mod sql;
#[doc(hidden)]
pub mod update;
#[doc(hidden)]
pub mod usage;

pub use crate::artifact::check_filename;
pub use crate::session::{check_id, check_nameable};
pub use artifact::{PreparedArtifact, prepare_artifact};
pub use commit::{
    KeyChange, Prepared as PreparedEvent, PreparedSession, PreparedState, prepare_event, prepare_session,
    prepare_state, replay,
};
pub use feed::{Feed, FeedPlace};
pub use filter::SessionFilter;
pub use fork::{check_event_number, fork_key, log_pruned};
pub use locate::LocateQuery;
pub use query::{EventQuery, ListPosition, ListQuery, StateQuery};
pub use resolve::{Found, Refusal, WrittenKey};
pub use room::Room;
pub use sent::{event_text_hash, text_hash};
pub use update::{PreparedUpdate, prepare_append, prepare_update};
