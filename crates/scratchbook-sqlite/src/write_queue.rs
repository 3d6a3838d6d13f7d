//! Submits writes: the bounded queue from callers, on any executor, to the writer thread.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::error::Fallible;
use super::queue::{Next, Queue, QueueReceiver, Timer};
use super::sync::{Arc, Instant, Semaphore, TryAcquireError, oneshot};
use super::transaction::Tx;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::quota::Charge;
use scratchbook_core::session::CommitScope;
use scratchbook_core::store::closed;

/// The queue of writes, as callers use it.
#[derive(Debug)]
pub(super) struct WriteQueue {
    queue: Arc<Queue<QueuedWrite>>,
    /// A permit for each free slot.
    slots: Arc<Semaphore>,
    capacity: usize,
    /// The timeout of a wait for a slot.
    timer: Timer,
}

impl WriteQueue {
    /// Creates a queue for this many writes, at least one, in which a write waits at most `timeout` for a slot.
    pub(super) fn new(capacity: usize, timeout: Duration) -> (Self, WriteReceiver) {
        let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS);
        let (queue, slots) = (Queue::new(), Arc::new(Semaphore::new(capacity)));
        let receiver = WriteReceiver { queue: QueueReceiver(Arc::clone(&queue)), slots: Arc::clone(&slots) };
        (Self { queue, slots, capacity, timer: Timer::new(timeout) }, receiver)
    }

    /// Queues a write, which will then be run and answered. Waits for a slot if the queue is full.
    pub(super) async fn submit(&self, write: QueuedWrite) -> Result<()> {
        let slot = match self.slots.try_acquire() {
            Ok(slot) => slot,
            Err(TryAcquireError::Closed) => return Err(closed()),
            Err(TryAcquireError::NoPermits) => {
                match select(pin!(self.slots.acquire()), pin!(self.timer.wait())).await {
                    Either::Left((slot, _)) => slot.map_err(|_| closed())?,
                    Either::Right(_) => return Err(self.full()),
                }
            }
        };
        self.queue.push(write)?;
        // The receiver frees the slot when it takes the write.
        slot.forget();
        Ok(())
    }

    /// Queues a write if a slot is free now, and drops it otherwise.
    pub(super) fn submit_or_drop(&self, write: QueuedWrite) {
        if let Ok(slot) = self.slots.try_acquire()
            && self.queue.push(write).is_ok()
        {
            slot.forget();
        }
    }

    /// Wakes the writer, so that it computes again how long it may sleep.
    pub(super) fn wake_writer(&self) {
        self.queue.wake();
    }

    /// Accepts no more writes. The writer finishes those that were accepted.
    pub(super) fn close(&self) {
        self.slots.close();
        self.queue.close();
    }

    fn full(&self) -> Error {
        let (capacity, seconds) = (self.capacity, self.timer.timeout().as_secs_f64());
        let message = format!("{capacity} writes wait already, and none was done within {seconds} s; try again");
        Error::new(ErrorKind::ResourceExhausted, message)
    }
}

/// The writer's end of the queue. Taking a write frees its slot.
pub(super) struct WriteReceiver {
    queue: QueueReceiver<QueuedWrite>,
    slots: Arc<Semaphore>,
}

impl WriteReceiver {
    /// Returns the next write, if one arrives in time.
    pub(super) fn take_within(&self, timeout: Duration) -> Next<QueuedWrite> {
        let next = self.queue.take_within(timeout);
        self.slots.add_permits(usize::from(matches!(next, Next::Item(_))));
        next
    }

    /// Returns the next write, if there is one already and it is wanted.
    pub(super) fn try_take_if(&self, is_wanted: impl FnOnce(&QueuedWrite) -> bool) -> Option<QueuedWrite> {
        let next = self.queue.try_take_if(is_wanted);
        self.slots.add_permits(usize::from(next.is_some()));
        next
    }
}

/// A write. It may run more than once if a commit fails; only the last run counts.
pub(super) trait WriteJob: Send {
    fn run(&mut self, tx: &Tx<'_>) -> Fallible<()>;

    /// Reports the outcome to the caller; `Ok` only after the commit.
    fn answer(self: Box<Self>, outcome: Result<()>);
}

/// A write in the queue.
pub(super) struct QueuedWrite {
    pub(super) job: Box<dyn WriteJob>,
    pub(super) bytes: usize,
    pub(super) since: Instant,
    pub(super) erases: bool,
    pub(super) scope: CommitScope,
}

impl QueuedWrite {
    /// Returns a write of about `bytes` bytes, and its answer to wait for.
    pub(super) fn new<T, W>(bytes: usize, work: W) -> (Self, oneshot::Receiver<Result<T>>)
    where
        T: Send + 'static,
        W: FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    {
        Self::charged(bytes, Charge::none(), work)
    }

    /// Does the same as [`new`](Self::new) for a write that has reserved part of a quota. The part stays reserved until
    /// the outcome is known, even if the caller no longer waits.
    pub(super) fn charged<T, W>(bytes: usize, charge: Charge<T>, work: W) -> (Self, oneshot::Receiver<Result<T>>)
    where
        T: Send + 'static,
        W: FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        (Self::without_answer(bytes, AnsweredWrite { work, value: None, charge, answer }), answered)
    }

    /// Returns a write of about `bytes` bytes without an answer for a caller.
    pub(super) fn without_answer(bytes: usize, job: impl WriteJob + 'static) -> Self {
        Self { job: Box::new(job), bytes, since: Instant::now(), erases: false, scope: CommitScope::Nothing }
    }

    /// Sets the session, user or app whose data is written, for its watchers.
    pub(super) fn of(self, scope: CommitScope) -> Self {
        Self { scope, ..self }
    }

    /// Marks a write that removes data. The data must also be gone from the log before the write is answered, unless a
    /// reader still uses the log.
    pub(super) fn erasing(self) -> Self {
        Self { erases: true, ..self }
    }
}

struct AnsweredWrite<T, W> {
    work: W,
    value: Option<T>,
    charge: Charge<T>,
    answer: oneshot::Sender<Result<T>>,
}

impl<T: Send, W: FnMut(&Tx<'_>) -> Fallible<T> + Send> WriteJob for AnsweredWrite<T, W> {
    fn run(&mut self, tx: &Tx<'_>) -> Fallible<()> {
        self.value = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let Self { work, value, charge, answer } = *self;
        // Dropped first, so that the caller is then the only owner of shared data.
        drop(work);
        let result = outcome.and_then(|()| value.ok_or_else(|| Error::internal("a job without its result")));
        // The charge is settled before the answer, because the caller may write again at once.
        match &result {
            Ok(value) => charge.settle(value),
            Err(_) => drop(charge),
        }
        // The caller may no longer be waiting; the write is committed all the same.
        let _ = answer.send(result);
    }
}
