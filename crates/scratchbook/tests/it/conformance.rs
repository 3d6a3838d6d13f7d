//! x
use scratchbook::{InMemorySessionService, Store};
use std::sync::Arc;

async fn open_memory() -> (Store, ()) {
    (Store::new(Arc::new(InMemorySessionService::new())), ())
}
scratchbook::conformance_tests!(memory, crate::conformance::open_memory);
