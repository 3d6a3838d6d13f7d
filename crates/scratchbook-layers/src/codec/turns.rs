//! Permits within the process, so that concurrent writers of a key do not refuse one another again and again.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

const PLACES: usize = 64;

/// Locks for keys. A writer holds the permit of each key that it changes with operations; between processes, guards
/// decide.
#[derive(Clone)]
pub(super) struct Turns(Arc<Vec<Arc<Mutex<()>>>>);

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

impl Turns {
    pub(super) fn new() -> Self {
        Self(Arc::new((0..PLACES).map(|_| Arc::default()).collect()))
    }

    /// Waits for the permits of all these keys, always in the same order.
    pub(super) async fn take(&self, keys: impl IntoIterator<Item = impl Hash>) -> Vec<OwnedMutexGuard<()>> {
        let mut places: Vec<_> = keys.into_iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        let mut taken = Vec::with_capacity(places.len());
        for place in places {
            taken.push(Arc::clone(&self.0[place]).lock_owned().await);
        }
        taken
    }
}

fn place(key: impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % PLACES as u64) as usize
}
