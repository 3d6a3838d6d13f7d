//! A part of the server's memory that all callers share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Account;

/// If more accounts than this are remembered, the accounts that hold no memory are forgotten.
const SWEEP_FROM: usize = 1_024;

/// An amount of memory, in KiB. One account gets at most half of it, so that some is left for others.
#[derive(Debug)]
pub(crate) struct MemoryPool<K = Account> {
    all: Arc<Semaphore>,
    size: u32,
    halves: Mutex<HashMap<K, Weak<Semaphore>>>,
}

/// Memory that was taken from a pool. It is returned when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct TakenMemory(Vec<OwnedSemaphorePermit>);

impl<K: Eq + Hash + Clone> MemoryPool<K> {
    pub(crate) fn new(bytes: usize) -> Self {
        let size = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(2);
        // A semaphore cannot have `usize::MAX` permits.
        let size = size.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self { all: Arc::new(Semaphore::new(size as usize)), size, halves: Mutex::default() }
    }

    /// Waits until this many bytes are free, and takes them. If more than the whole pool is needed, the whole pool is
    /// taken. Without an account, the limit of a half does not apply.
    pub(crate) async fn take(&self, account: Option<&K>, bytes: u64) -> TakenMemory {
        let wanted = kib(bytes);
        let mut taken = Vec::with_capacity(2);
        if let Some(account) = account {
            let half = self.half(account);
            taken.extend(half.acquire_many_owned(wanted.min(self.size / 2)).await);
        }
        taken.extend(Arc::clone(&self.all).acquire_many_owned(wanted.min(self.size)).await);
        TakenMemory(taken)
    }

    /// Does the same as [`take`](Self::take), but returns `None` instead of waiting.
    pub(crate) fn try_take(&self, account: Option<&K>, bytes: u64) -> Option<TakenMemory> {
        let wanted = kib(bytes);
        let mut taken = Vec::with_capacity(2);
        if let Some(account) = account {
            let half = self.half(account);
            taken.push(half.try_acquire_many_owned(wanted.min(self.size / 2)).ok()?);
        }
        taken.push(Arc::clone(&self.all).try_acquire_many_owned(wanted.min(self.size)).ok()?);
        Some(TakenMemory(taken))
    }

    fn half(&self, account: &K) -> Arc<Semaphore> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(half) = halves.get(account).and_then(Weak::upgrade) {
            return half;
        }
        if halves.len() >= SWEEP_FROM {
            halves.retain(|_, half| half.strong_count() > 0);
        }
        let half = Arc::new(Semaphore::new(self.size as usize / 2));
        halves.insert(account.clone(), Arc::downgrade(&half));
        half
    }
}

impl TakenMemory {
    /// Keeps more memory together with this.
    pub(crate) fn add(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}
