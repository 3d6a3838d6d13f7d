//! A cache of the owners of sessions.
//!
//! A resource name of the API does not contain the user. So the client reads the session before an append, to check
//! that it belongs to the user. The result is cached for some seconds, so that an append takes one request instead of
//! two. If another client deletes the session in these seconds and another user takes its id at once, the cache is
//! wrong.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scratchbook_core::session::SessionKey;

const KNOWN_FOR: Duration = Duration::from_secs(10);
const MOST: usize = 10_000;

/// The keys of sessions that were found to belong to their user, with the time.
#[derive(Debug, Default)]
pub(super) struct CheckedOwners(Mutex<HashMap<SessionKey, Instant>>);

impl CheckedOwners {
    pub(super) fn is_known(&self, key: &SessionKey) -> bool {
        self.known().get(key).is_some_and(|seen| seen.elapsed() < KNOWN_FOR)
    }

    pub(super) fn learn(&self, key: &SessionKey) {
        let mut known = self.known();
        if known.len() >= MOST {
            known.retain(|_, seen| seen.elapsed() < KNOWN_FOR);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key.clone(), Instant::now());
    }

    pub(super) fn forget(&self, key: &SessionKey) {
        self.known().remove(key);
    }

    /// Locks the map, which is consistent even if another thread panicked.
    fn known(&self) -> MutexGuard<'_, HashMap<SessionKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_a_bounded_number() {
        let owners = CheckedOwners::default();
        let key = |n: usize| SessionKey::new("a", "u", &n.to_string()).unwrap();
        (0..=MOST).for_each(|n| owners.learn(&key(n)));
        assert!(owners.known().len() <= MOST);
        assert!(owners.is_known(&key(MOST)) && !owners.is_known(&SessionKey::new("a", "v", "1").unwrap()));
        owners.forget(&key(MOST));
        assert!(!owners.is_known(&key(MOST)));
    }
}
