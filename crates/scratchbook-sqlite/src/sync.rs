//! The locks, channels and threads of this store. The package `interleavings` has its own under the same names.

pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
pub(super) use std::thread;
pub(super) use std::time::Instant;

pub(super) use tokio::sync::{Semaphore, TryAcquireError, oneshot};
