//! The types for locks and channels of this module. The package `interleavings`, which compiles this code as well, has
//! its own types with the same names.

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) use tokio::sync::watch;
