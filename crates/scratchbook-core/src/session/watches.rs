//! Many watches of one service that share their reads.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::notices::Followed;
use super::tail::{Tail, TailReader};
use super::watch::{Watch, Watched};
use super::{FeedStart, SessionService};
use crate::error::Result;

/// Starts watches of one service that share their reads: each commit is read once for all watches of one app, user or
/// session, even if they follow different prefixes.
///
/// Each watch returns what it would return [alone](Watch::start). This is for servers and other programs that watch on
/// behalf of many clients. All watches read through the same service, so that access control has to be done by the
/// caller.
///
/// ```
/// use std::sync::Arc;
/// use scratchbook::session::{FeedStart, Watched, Watches};
/// use scratchbook::InMemorySessionService;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let watches = Watches::new(Arc::new(InMemorySessionService::new()));
/// let one = watches.start(Watched::user("shop", "alice")?, FeedStart::Now).await?;
/// let another = watches.start(Watched::user("shop", "alice")?, FeedStart::Now).await?;
/// # drop((one, another)); Ok(()) }
/// ```
pub struct Watches<S> {
    service: S,
    tails: Mutex<Tails>,
}

#[derive(Default)]
struct Tails {
    of: HashMap<Followed, Weak<Tail>>,
    /// When the map has this many entries, those without followers are removed.
    many: usize,
}

/// While there are fewer entries than this, those without followers are kept.
const FEW: usize = 64;

impl<S: fmt::Debug> fmt::Debug for Watches<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<T: SessionService + ?Sized, S: Deref<Target = T> + Clone + Send + Sync> Watches<S> {
    /// Creates watches of a service: an `Arc` of it, or a reference.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { service, tails: Mutex::default() }
    }

    /// Starts to follow a feed.
    ///
    /// # Errors
    ///
    /// As [`Watch::start`].
    pub async fn start(&self, what: Watched, start: FeedStart) -> Result<Watch<S>> {
        let shared = TailReader::new(self.tail(what.followed()));
        Watch::start_on(self.service.clone(), what, start, shared).await
    }

    fn tail(&self, followed: &Followed) -> Arc<Tail> {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.of.get(followed).and_then(Weak::upgrade) {
            return tail;
        }
        if tails.of.len() >= tails.many.max(FEW) {
            tails.of.retain(|_, tail| tail.strong_count() > 0);
            tails.many = tails.of.len() * 2;
        }
        let tail = Arc::new(Tail::default());
        tails.of.insert(followed.clone(), Arc::downgrade(&tail));
        tail
    }
}
