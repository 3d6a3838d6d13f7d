//! Permits within the process, so that concurrent writers of a key do not refuse one another again and again.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

const STRIPES: usize = 64;

/// Locks for keys. A writer holds the permit of each key that it changes with operations. Writers in different
/// processes do not share these locks; only guards keep them from overwriting each other.
#[derive(Clone)]
pub(super) struct WritePermits(Arc<Vec<Arc<Mutex<()>>>>);

impl fmt::Debug for WritePermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WritePermits")
    }
}

impl WritePermits {
    pub(super) fn new() -> Self {
        Self(Arc::new((0..STRIPES).map(|_| Arc::default()).collect()))
    }

    /// Waits for the permits of all these keys, always in the same order.
    pub(super) async fn acquire(&self, keys: impl IntoIterator<Item = impl Hash>) -> Vec<OwnedMutexGuard<()>> {
        let mut stripes: Vec<_> = keys.into_iter().map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let mut permits = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            permits.push(Arc::clone(&self.0[stripe]).lock_owned().await);
        }
        permits
    }
}

fn stripe(key: impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % STRIPES as u64) as usize
}
