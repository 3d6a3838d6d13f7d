//! The locks and channels of notices. The package `interleavings` has its own types of the same names.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub(super) use tokio::sync::watch;
