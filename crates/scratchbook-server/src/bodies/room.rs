//! The memory that all bodies in progress may take together.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use scratchbook::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::access::{Account, Caller};
use crate::heavy::WorkerPermit;
use crate::limits::ServerLimits;
use crate::memory_pool::{MemoryPool, TakenMemory};

/// The maximum size of a small body, in bytes. Larger bodies use the memory for large bodies.
const SMALL: u64 = 1 << 20;

/// The memory for bodies: a fifth for their bytes as they arrive, a fifth for parsed small bodies, and the rest for
/// parsed large bodies. So large bodies do not keep small ones waiting.
///
/// Room for the bytes is always taken before room for the parsed body, so two bodies never wait for each other.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    bytes: MemoryPool,
    small: MemoryPool,
    large: MemoryPool,
    /// The maximum memory of one parsed body.
    most: u64,
    wait: Duration,
}

/// The room that a body takes until its request has been answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<HeldRoom>);

#[derive(Debug, Default)]
struct HeldRoom {
    account: Option<Account>,
    taken: Mutex<TakenMemory>,
    /// The permit to process this request on a separate thread, and not on a worker of the runtime.
    place: OnceLock<WorkerPermit>,
}

impl BodyMemory {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let fifth = limits.body_memory / 5;
        let large = limits.body_memory - 2 * fifth;
        Self {
            bytes: MemoryPool::new(fifth),
            small: MemoryPool::new(fifth),
            large: MemoryPool::new(large),
            most: limits.body_memory as u64,
            wait: limits.body_wait,
        }
    }
}

impl Held {
    /// Returns a `Held` that holds no room yet. If the server requires no login, callers have no account, so one of
    /// them may take all of the room.
    pub(crate) fn new(caller: Option<&Caller>) -> Self {
        let account = caller.and_then(Caller::own_account);
        Self(Arc::new(HeldRoom { account, ..HeldRoom::default() }))
    }

    /// Returns the room that the request with these extensions holds. A request without a body holds no room.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Takes room for the bytes of a body.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no room is free in time.
    pub(crate) async fn take_bytes(&self, room: &BodyMemory, bytes: u64) -> Result<()> {
        self.take(&room.bytes, room.wait, bytes).await
    }

    /// Takes room for the parsed form of a body.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` if there can never be enough room; `Unavailable` if there is not enough in time.
    pub(crate) async fn take_parsed(&self, room: &BodyMemory, bytes: u64) -> Result<()> {
        if bytes > room.most {
            let message = format!(
                "the body would take some {bytes} bytes of memory once it is read, and body_memory is {}; send fewer and \
                 larger values",
                room.most
            );
            return Err(Error::new(ErrorKind::PayloadTooLarge, message));
        }
        let pool = if bytes <= SMALL { &room.small } else { &room.large };
        self.take(pool, room.wait, bytes).await
    }

    async fn take(&self, pool: &MemoryPool, wait: Duration, bytes: u64) -> Result<()> {
        match timeout(wait, pool.take(self.0.account.as_ref(), bytes)).await {
            Ok(taken) => {
                self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).add(taken);
                Ok(())
            }
            Err(_) => {
                let message = "there is no room for the body just now; nothing was done, send it again in a moment";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Releases the room before the request is answered, when the parsed body has been handed on.
    pub(crate) fn release(&self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = TakenMemory::default();
    }

    /// Returns the permit of the request if it is processed on a separate thread, and not on a worker of the runtime.
    pub(crate) fn place(&self) -> Option<&WorkerPermit> {
        self.0.place.get()
    }

    /// Records that the request is processed on a separate thread from now on, and not on a worker of the runtime.
    pub(crate) fn leave_workers(&self, place: WorkerPermit) {
        // The place is set only once, because a request leaves the workers only once.
        let _ = self.0.place.set(place);
    }
}

impl<S: Sync> FromRequestParts<S> for Held {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{LoginName, Right};

    fn held(name: &str) -> Held {
        Held::new(Some(&Caller::new(LoginName::Token(name.into()), Right::ALL.into())))
    }

    fn room() -> BodyMemory {
        // Large bodies have 6 MiB of the room.
        BodyMemory::new(&ServerLimits::default().with_body_memory(10 << 20).with_body_wait(Duration::from_millis(30)))
    }

    #[tokio::test]
    async fn one_account_has_half_of_the_room_and_gives_it_back() {
        let (room, [ann, bob]) = (room(), ["ann", "bob"].map(held));
        ann.take_parsed(&room, 3 << 20).await.unwrap();
        let refused = ann.take_parsed(&room, 2 << 20).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        bob.take_parsed(&room, 2 << 20).await.unwrap();
        ann.release();
        ann.take_parsed(&room, 2 << 20).await.unwrap();
        drop(bob);
        held("cem").take_parsed(&room, 3 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones() {
        let room = room();
        let everybody = Held::default();
        everybody.take_parsed(&room, 9 << 20).await.unwrap();
        assert!(held("ann").take_parsed(&room, 2 << 20).await.is_err());
        held("ann").take_parsed(&room, 1000).await.unwrap();
    }

    #[tokio::test]
    async fn what_never_has_room_is_too_large() {
        let refused = Held::default().take_parsed(&room(), 11 << 20).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PayloadTooLarge);
        assert!(refused.to_string().contains("body_memory is 10485760"), "{refused}");
    }
}
