//! Allows one run at a time per session, within a runner.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;

use super::WhenBusy;
use super::sync::{Arc, Mutex, MutexGuard, OwnedSemaphorePermit, PoisonError, Semaphore};
use crate::agent::EventStream;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::SessionKey;

tokio::task_local! {
    /// The innermost run whose code currently runs.
    static CURRENT: Arc<RunPermit>;
}

/// The locks of sessions. A session without active runs takes no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionLocks {
    queues: Arc<Mutex<HashMap<SessionKey, SessionQueue>>>,
}

#[derive(Debug)]
struct SessionQueue {
    semaphore: Arc<Semaphore>,
    /// The number of runs that hold the lock or wait for it.
    users: usize,
}

/// A run's permit for its session. The permit is released when its last copy is dropped.
#[derive(Debug)]
pub(crate) struct RunPermit {
    /// This field is dropped before the field with the queue entry.
    semaphore_permit: Option<OwnedSemaphorePermit>,
    entry: QueueEntry,
    outer: Option<Arc<Self>>,
}

/// An entry in a session's queue.
#[derive(Debug)]
struct QueueEntry {
    locks: SessionLocks,
    key: SessionKey,
}

impl SessionLocks {
    /// Waits for the session's lock, or refuses the run.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` inside a run of the same session, since the run would wait for itself; `Conflict` if
    /// another run is active and `when_busy` does not allow waiting.
    pub(super) async fn begin(&self, key: &SessionKey, when_busy: WhenBusy) -> Result<Arc<RunPermit>> {
        let outer = CURRENT.try_with(Arc::clone).ok();
        if self.is_inside(key, outer.as_ref()) {
            let message = format!("a run of {key} was started inside a run of the same session; use another session");
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
        let (semaphore, entry) = self.enqueue(key);
        let semaphore_permit = match when_busy {
            WhenBusy::Queue => semaphore.acquire_owned().await.ok(),
            WhenBusy::Refuse => match semaphore.try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) => {
                    let message = format!("another run of {key} is going on; try again, or let it queue");
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
            },
        };
        Ok(Arc::new(RunPermit { semaphore_permit, entry, outer }))
    }

    fn is_inside(&self, key: &SessionKey, outer: Option<&Arc<RunPermit>>) -> bool {
        let mut at = outer;
        while let Some(permit) = at {
            if permit.entry.key == *key && Arc::ptr_eq(&permit.entry.locks.queues, &self.queues) {
                return true;
            }
            at = permit.outer.as_ref();
        }
        false
    }

    fn enqueue(&self, key: &SessionKey) -> (Arc<Semaphore>, QueueEntry) {
        let mut queues = self.lock();
        let new = || SessionQueue { semaphore: Arc::new(Semaphore::new(1)), users: 0 };
        let queue = queues.entry(key.clone()).or_insert_with(new);
        queue.users += 1;
        (Arc::clone(&queue.semaphore), QueueEntry { locks: self.clone(), key: key.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, SessionQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.semaphore_permit.take();
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut queues = self.locks.lock();
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.users -= 1;
            if queue.users == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

/// Makes the code of a stream part of a run.
pub(super) fn in_run(permit: Arc<RunPermit>, events: EventStream) -> EventStream {
    Box::pin(InRun { permit, events })
}

/// Makes a future part of a run.
pub(super) fn within_run<F: Future>(permit: &Arc<RunPermit>, future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(Arc::clone(permit), future)
}

struct InRun {
    permit: Arc<RunPermit>,
    events: EventStream,
}

impl Stream for InRun {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let permit = Arc::clone(&self.permit);
        CURRENT.sync_scope(permit, || self.events.as_mut().poll_next(cx))
    }
}

/// Makes a future for a new task part of the current run.
pub(crate) fn inherit_run<F: Future + Send + 'static>(future: F) -> Pin<Box<dyn Future<Output = F::Output> + Send>> {
    match CURRENT.try_with(Arc::clone) {
        Ok(permit) => Box::pin(CURRENT.scope(permit, future)),
        Err(_) => Box::pin(future),
    }
}
