//! The locks, channels and threads of this crate, by the names under which the package `interleavings` has its own.

pub(super) use tokio::spawn;
pub(super) use tokio::sync::mpsc::error::SendTimeoutError;
pub(super) use tokio::sync::{Semaphore, mpsc, oneshot};
