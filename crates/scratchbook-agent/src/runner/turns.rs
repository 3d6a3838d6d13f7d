//! One run at a time per session, within a runner.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::WhenBusy;
use crate::agent::EventStream;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::SessionKey;

tokio::task_local! {
    /// The innermost run that the code being polled is part of.
    static CURRENT: Arc<Turn>;
}

/// Who may run next, session by session; a session nobody waits for takes no room.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    queues: Arc<Mutex<HashMap<SessionKey, Queue>>>,
}

#[derive(Debug)]
struct Queue {
    semaphore: Arc<Semaphore>,
    /// Runs that hold or await their turn.
    users: usize,
}

/// A run's turn on its session; it ends when the last copy is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Given back before the place in line is.
    permit: Option<OwnedSemaphorePermit>,
    place: Place,
    outer: Option<Arc<Self>>,
}

/// A place in a session's line.
#[derive(Debug)]
struct Place {
    turns: Turns,
    key: SessionKey,
}

impl Turns {
    /// Waits for the session's turn, or refuses.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` inside a run of the same session, which would wait for itself; `Conflict` while
    /// another run goes on and waiting is not wanted.
    pub(super) async fn begin(&self, key: &SessionKey, when_busy: WhenBusy) -> Result<Arc<Turn>> {
        let outer = CURRENT.try_with(Arc::clone).ok();
        if self.is_inside(key, outer.as_ref()) {
            let message = format!("a run of {key} was started inside a run of the same session; use another session");
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
        let (semaphore, place) = self.line_up(key);
        let permit = match when_busy {
            WhenBusy::Queue => semaphore.acquire_owned().await.ok(),
            WhenBusy::Refuse => match semaphore.try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) => {
                    let message = format!("another run of {key} is going on; try again, or let it queue");
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
            },
        };
        Ok(Arc::new(Turn { permit, place, outer }))
    }

    fn is_inside(&self, key: &SessionKey, outer: Option<&Arc<Turn>>) -> bool {
        let mut at = outer;
        while let Some(turn) = at {
            if turn.place.key == *key && Arc::ptr_eq(&turn.place.turns.queues, &self.queues) {
                return true;
            }
            at = turn.outer.as_ref();
        }
        false
    }

    fn line_up(&self, key: &SessionKey) -> (Arc<Semaphore>, Place) {
        let mut queues = self.lock();
        let new = || Queue { semaphore: Arc::new(Semaphore::new(1)), users: 0 };
        let queue = queues.entry(key.clone()).or_insert_with(new);
        queue.users += 1;
        (Arc::clone(&queue.semaphore), Place { turns: self.clone(), key: key.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.permit.take();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.users -= 1;
            if queue.users == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

/// A stream whose code knows the run it is part of.
pub(super) fn in_run(turn: Arc<Turn>, events: EventStream) -> EventStream {
    Box::pin(InRun { turn, events })
}

struct InRun {
    turn: Arc<Turn>,
    events: EventStream,
}

impl Stream for InRun {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let turn = Arc::clone(&self.turn);
        CURRENT.sync_scope(turn, || self.events.as_mut().poll_next(cx))
    }
}

/// A future for a task of its own that stays part of the run it was made in.
pub(crate) fn inherit_run<F: Future<Output = ()> + Send + 'static>(
    future: F,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match CURRENT.try_with(Arc::clone) {
        Ok(turn) => Box::pin(CURRENT.scope(turn, future)),
        Err(_) => Box::pin(future),
    }
}
