//! The suite that holds a store to its promises, one function per promise.
//!
//! Each function works in an app of its own with a fresh name, so that all of them run side by side on one
//! store, and on a store that holds other data. It returns when the promise is kept and panics with the reason
//! when it is not. Only those of [`closing`] close the store they are given.
//!
//! The suite is no stable part of the crate: later versions state more promises.
//!
//! # Testing a store of your own
//!
//! [`conformance_tests!`](crate::conformance_tests) makes one test of every promise. In a program or a harness
//! of your own, go through [`PROMISES`], or call [`all`]:
//!
//! ```
//! # #[tokio::main] async fn main() -> scratchbook::Result<()> {
//! let store = scratchbook::connect("memory:").await?;
//! scratchbook::conformance::scopes::a_prefix_is_a_scope(&store).await;
//! # Ok(()) }
//! ```
//!
//! # A store that can do less
//!
//! A store in front of a service can lack what that service has no call for. It says which [`Capability`] it lacks; then
//! the promises are its that do not [need](Promise::needs) one of them, and [`lacks`] holds it to refuse the rest as
//! `Unsupported`.
//!
//! # Adding a promise
//!
//! Write the function, and its name into the list in `promises.rs`. A test finds functions that are not listed.

// A promise that is broken is told by a panic, as every test tells it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod capability;
mod copy;
mod lacking;
mod promises;
mod support;

pub mod append;
pub mod artifacts;
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
pub mod values;
pub mod watch;
pub mod watches;

pub use capability::Capability;
#[doc(hidden)]
pub use copy::many_writers_are_followed;
pub use lacking::lacks;
pub use promises::{PROMISES, Promise};

use scratchbook_core::store::Store;

/// Checks every promise on one store, one after the other, and closes it.
///
/// # Panics
///
/// At the first promise that is broken, with the reason.
pub async fn all(store: &Store) {
    for promise in PROMISES {
        (promise.run)(store.clone()).await;
    }
}
