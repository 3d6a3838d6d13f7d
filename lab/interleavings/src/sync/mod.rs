//! Locks, channels and threads under the control of a scheduler.
//!
//! Locks, condition variables, atomics and threads are those of `shuttle`. Channels and semaphores are those of `tokio`
//! itself, which work on any executor: before each of their operations, [`point`] lets the scheduler change to another
//! task. Only waits advance the clock, so any wait may end at any moment.

use std::task::Poll;

mod channel;
mod semaphore;
mod time;
pub(crate) mod watch;

pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::sync::{Mutex, MutexGuard, mpsc as std_mpsc};
pub(crate) use std::sync::{Arc, PoisonError, Weak};
pub(crate) use tokio::sync::TryAcquireError;

pub(crate) use channel::{SendTimeoutError, mpsc, oneshot};
pub(crate) use semaphore::{OwnedSemaphorePermit, Semaphore};
pub(crate) use time::{Condvar, Instant, thread};

/// Lets the scheduler change to another task.
pub(crate) fn point() {
    AtomicUsize::new(0).load(Ordering::SeqCst);
}

/// Lets the scheduler decide whether something happens.
pub(crate) fn perhaps() -> bool {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().r#gen()
}

/// Starts a task. No other task waits for it.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
}

/// Drives a future to its end, or drops it at one of the moments at which it waits.
pub(crate) async fn perhaps_dropped<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if perhaps() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
