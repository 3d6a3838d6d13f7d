//! The locks and channels of notices, by the names under which the package `interleavings` has its own.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(super) use tokio::sync::watch;
