//! Whose sessions are known to be whose.
//!
//! A path of the API names a session without its user. Before an event is appended it has to be known that the session is
//! its user's; for some seconds that is remembered, so that an append is one request and not two. A session that others
//! delete within them, and whose id another user takes at once, is taken for the one that was known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scratchbook_core::session::SessionKey;

const KNOWN_FOR: Duration = Duration::from_secs(10);
const MOST: usize = 10_000;

/// Addresses of sessions that were seen to be their user's, and when.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<SessionKey, Instant>>);

impl Owners {
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

    /// What is remembered is whole at any time, whoever panicked.
    fn known(&self) -> MutexGuard<'_, HashMap<SessionKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_a_bounded_number() {
        let owners = Owners::default();
        let key = |n: usize| SessionKey::new("a", "u", &n.to_string()).unwrap();
        (0..=MOST).for_each(|n| owners.learn(&key(n)));
        assert!(owners.known().len() <= MOST);
        assert!(owners.is_known(&key(MOST)) && !owners.is_known(&SessionKey::new("a", "v", "1").unwrap()));
        owners.forget(&key(MOST));
        assert!(!owners.is_known(&key(MOST)));
    }
}
