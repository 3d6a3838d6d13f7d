//! The locks and channels of this module. The package `interleavings` has its own under the same names.

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) use tokio::sync::watch;
