//! The locks, channels and threads of this crate. The package `interleavings` has its own under the same names.

pub(super) use tokio::spawn;
pub(super) use tokio::sync::mpsc::error::SendTimeoutError;
pub(super) use tokio::sync::{Semaphore, mpsc, oneshot};
