//! The store keeps every promise of the conformance suite.

use std::sync::Arc;

use custom_store::MapStore;
use scratchbook_conformance::conformance_tests;
use scratchbook_core::store::Store;

async fn open() -> (Store, ()) {
    (Store::new(Arc::new(MapStore::new())), ())
}

conformance_tests!(maps, crate::open);
