//! The queues between callers, on any executor, and the threads that do the work.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::sync::{Arc, Condvar, Instant, Mutex, MutexGuard, PoisonError, mpsc, oneshot, thread};
use scratchbook_core::error::Result;
use scratchbook_core::store::closed;

/// A queue that can be closed: items accepted before closing are processed, later ones are refused.
pub(super) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

struct Waiting<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Whether the waiting thread is to wake up even without an item.
    woken: bool,
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Arc<Self> {
        let waiting = Mutex::new(Waiting { items: VecDeque::new(), closed: false, woken: false });
        Arc::new(Self { waiting, changed: Condvar::new() })
    }

    /// Adds an item that will be processed, or refuses it.
    pub(super) fn push(&self, item: T) -> Result<()> {
        let mut waiting = self.waiting();
        if waiting.closed {
            return Err(closed());
        }
        waiting.items.push_back(item);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends the current wait for an item, as if it had timed out.
    pub(super) fn wake(&self) {
        self.waiting().woken = true;
        self.changed.notify_all();
    }

    /// Accepts no more items.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving end of a queue. Dropping it drops the items left in the queue, so that their callers see that no
/// answer comes.
#[derive(Debug)]
pub(super) struct QueueReceiver<T>(pub(super) Arc<Queue<T>>);

/// The outcome of a wait for an item.
pub(super) enum Next<T> {
    Item(T),
    TimedOut,
    /// The queue is closed and empty.
    Closed,
}

impl<T> QueueReceiver<T> {
    /// Returns the next item; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<T> {
        match self.take_within(Duration::MAX) {
            Next::Item(item) => Some(item),
            Next::TimedOut | Next::Closed => None,
        }
    }

    /// Returns the next item, if one arrives in time.
    pub(super) fn take_within(&self, timeout: Duration) -> Next<T> {
        let mut waiting = self.0.waiting();
        let until = Instant::now().checked_add(timeout);
        while waiting.items.is_empty() && !waiting.closed && !waiting.woken {
            let Some(until) = until else {
                waiting = self.0.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::TimedOut;
            }
            waiting = self.0.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let woken = std::mem::take(&mut waiting.woken);
        match waiting.items.pop_front() {
            Some(item) => Next::Item(item),
            None if woken && !waiting.closed => Next::TimedOut,
            None => Next::Closed,
        }
    }

    /// Returns the next item, if there is one already and it is wanted.
    pub(super) fn try_take_if(&self, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut waiting = self.0.waiting();
        waiting.items.front().is_some_and(is_wanted).then(|| waiting.items.pop_front()).flatten()
    }
}

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        self.0.close();
        // Dropped outside the lock, because dropping an item may wake its caller.
        let left = std::mem::take(&mut self.0.waiting().items);
        drop(left);
    }
}

/// When to wake a waiting task, and how.
type TimerRequest = (Instant, oneshot::Sender<()>);

/// A timeout that works on any executor. It sleeps on a separate thread, which the first wait starts.
#[derive(Debug)]
pub(super) struct Timer {
    timeout: Duration,
    requests: Mutex<Option<mpsc::Sender<TimerRequest>>>,
}

impl Timer {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, requests: Mutex::new(None) }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits until the timeout has passed, or returns at once if no thread can be started.
    pub(super) async fn wait(&self) {
        let Some(until) = Instant::now().checked_add(self.timeout) else {
            return std::future::pending().await;
        };
        let (over, waiting) = oneshot::channel();
        if self.ask(until, over).is_ok() {
            let _ = waiting.await;
        }
    }

    fn ask(&self, until: Instant, over: oneshot::Sender<()>) -> std::io::Result<()> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*requests {
            Some(sender) => sender,
            None => {
                let (sender, requested) = mpsc::channel();
                thread::Builder::new().name("scratchbook-timer".to_owned()).spawn(move || sleep(&requested))?;
                requests.insert(sender)
            }
        };
        // The thread outlives the sender, so this cannot fail.
        let _ = sender.send((until, over));
        Ok(())
    }
}

/// Processes the waits one after the other. All have the same length, so they end in the order they began.
fn sleep(requests: &mpsc::Receiver<TimerRequest>) {
    for (until, over) in requests {
        if !over.is_closed() {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            let _ = over.send(());
        }
    }
}
