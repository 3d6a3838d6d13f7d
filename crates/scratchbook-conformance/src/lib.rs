//! The conformance suite of [scratchbook](https://docs.rs/scratchbook): every promise of a store as a test, one function
//! per promise.
//!
//! [`conformance_tests!`](crate::conformance_tests) turns the promises into the tests of a store:
//!
//! ```
//! use scratchbook_core::memory::InMemorySessionService;
//! use scratchbook_core::store::Store;
//! use std::sync::Arc;
//!
//! async fn open() -> (Store, ()) {
//!     (Store::new(Arc::new(InMemorySessionService::new())), ())
//! }
//!
//! scratchbook_conformance::conformance_tests!(my_store_keeps_every_promise, crate::open);
//! # fn main() {}
//! ```
//!
//! In a program or a test harness of your own, iterate over [`PROMISES`], or call [`all`] or a single promise:
//!
//! ```
//! # use scratchbook_core::memory::InMemorySessionService;
//! # use scratchbook_core::store::Store;
//! # use std::sync::Arc;
//! # #[tokio::main] async fn main() {
//! let store = Store::new(Arc::new(InMemorySessionService::new()));
//! scratchbook_conformance::scopes::a_prefix_is_a_scope(&store).await;
//! # }
//! ```
//!
//! Each function works in an app of its own with a fresh name, so that all of them can run concurrently on one store,
//! even if it contains other data. A function returns if the promise is kept, and panics with the reason if it is not.
//! Only the functions of [`closing`] close the store.
//!
//! The suite has no stability guarantee: later versions add promises.
//!
//! # Stores without some capabilities
//!
//! A store in front of a service may lack features that the service does not have. Its
//! [`capabilities`](scratchbook_core::session::SessionService::capabilities) say what it can do. Promises that
//! [need](Promise::needs) other capabilities are not expected of the store; instead,
//! [`what_a_store_lacks_is_refused`](capabilities::what_a_store_lacks_is_refused) tests that the store refuses such
//! calls as `Unsupported`.
//!
//! # Adding a promise
//!
//! Write the function and add its name to the list in `promises.rs`. A test finds functions that are not listed.

// A broken promise is reported by a panic, as in any test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod feed_copy;
mod needs;
mod promises;
mod support;

pub mod append;
pub mod artifacts;
pub mod capabilities;
pub mod checks;
pub mod closing;
pub mod concurrency;
pub mod conflicts;
pub mod create;
pub mod delete;
pub mod errors;
pub mod events;
pub mod feed;
pub mod fork;
pub mod handles;
pub mod hashes;
pub mod ids;
pub mod limits;
pub mod list;
pub mod locate;
pub mod log;
pub mod operations;
pub mod pages;
pub mod proof;
pub mod races;
pub mod read;
pub mod removals;
pub mod retention;
pub mod retry;
pub mod rewind;
pub mod scopes;
pub mod session;
pub mod sizes;
pub mod state;
pub mod time;
pub mod titles;
pub mod updates;
pub mod values;
pub mod watch;
pub mod watches;

#[doc(hidden)]
pub use feed_copy::many_writers_are_followed;
pub use promises::{PROMISES, Promise};

use scratchbook_core::store::Store;

/// Checks every promise that is [expected](Promise::is_expected_of) of a store, one after the other, and closes it.
///
/// # Panics
///
/// At the first promise that is broken, with the reason.
pub async fn all(store: &Store) {
    for promise in PROMISES.iter().filter(|promise| promise.is_expected_of(store)) {
        (promise.run)(store.clone()).await;
    }
}
