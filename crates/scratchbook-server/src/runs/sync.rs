//! The locks and channels of this module, by the names under which the package `interleavings` has its own.

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) use tokio::sync::watch;
