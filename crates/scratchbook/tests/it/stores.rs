//! The stores that every promise is tested on. A store is one function here, and one line in the list.

use std::sync::Arc;

use scratchbook::{InMemorySessionService, Store};

/// Hands the name of every store, and the function that opens a fresh one, to a macro.
macro_rules! for_each_store {
    ($callback:path) => {
        $callback!(memory, crate::stores::memory);
    };
}

/// A store in memory; nothing is left of it.
pub(crate) async fn memory() -> (Store, ()) {
    (Store::new(Arc::new(InMemorySessionService::new())), ())
}
