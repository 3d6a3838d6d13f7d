//! Batches of writes: while one batch is being written, the next one is collected.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::sync::{Semaphore, SendTimeoutError, mpsc, oneshot, spawn};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The maximum number of writes in a batch.
const MAX_JOBS: usize = 256;
/// The maximum number of bytes in a batch, unless a single write has more.
const MAX_BYTES: usize = 4 << 20;

/// A queued write, and the channel for its answer.
#[derive(Debug)]
pub(super) struct Job<W, A> {
    pub(super) work: W,
    bytes: usize,
    answer: oneshot::Sender<Result<A>>,
}

impl<W, A> Job<W, A> {
    /// Sends the answer, if the caller still waits for it.
    pub(super) fn answer(self, result: Result<A>) {
        let _ = self.answer.send(result);
    }
}

/// A bounded queue of writes, and the task that takes the writes from the queue in batches, in order.
pub(super) struct Batches<W, A> {
    jobs: mpsc::Sender<Job<W, A>>,
    timeout: Duration,
}

impl<W, A> fmt::Debug for Batches<W, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("room", &self.jobs.capacity()).finish_non_exhaustive()
    }
}

impl<W: Send + 'static, A: Send + 'static> Batches<W, A> {
    /// Starts the task. It ends when the queue has been dropped and all queued writes are finished.
    pub(super) fn start<F>(
        capacity: usize,
        timeout: Duration,
        commit: impl Fn(Vec<Job<W, A>>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let (jobs, mut waiting) = mpsc::channel(capacity.clamp(1, Semaphore::MAX_PERMITS));
        spawn(async move {
            let mut next = None;
            while let Some(batch) = gather(&mut waiting, &mut next).await {
                commit(batch).await;
            }
        });
        Self { jobs, timeout }
    }

    /// Queues a write and waits for its answer. Dropping the returned future does not cancel a queued write.
    pub(super) async fn write(&self, work: W, bytes: usize) -> Result<A> {
        let (answer, answered) = oneshot::channel();
        let job = Job { work, bytes, answer };
        self.jobs.send_timeout(job, self.timeout).await.map_err(|e| {
            if matches!(e, SendTimeoutError::Closed(_)) {
                return unanswered();
            }
            let capacity = self.jobs.max_capacity();
            let seconds = self.timeout.as_secs_f64();
            let message = format!("{capacity} writes wait already, and none was done within {seconds} s; try again");
            Error::new(ErrorKind::ResourceExhausted, message)
        })?;
        answered.await.map_err(|_| unanswered())?
    }
}

/// Returns the error if the task has ended.
fn unanswered() -> Error {
    Error::internal("a write was given up without an answer: the runtime it was opened on has ended, or a defect")
}

/// Waits for a write, and takes the writes queued behind it into the same batch. The first write that does not fit
/// begins the next batch.
async fn gather<W, A>(waiting: &mut mpsc::Receiver<Job<W, A>>, next: &mut Option<Job<W, A>>) -> Option<Vec<Job<W, A>>> {
    let first = match next.take() {
        Some(job) => job,
        None => waiting.recv().await?,
    };
    let mut bytes = first.bytes;
    let mut batch = vec![first];
    while batch.len() < MAX_JOBS
        && let Ok(job) = waiting.try_recv()
    {
        bytes += job.bytes;
        if bytes > MAX_BYTES {
            *next = Some(job);
            break;
        }
        batch.push(job);
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::Batches;
    use scratchbook_core::error::ErrorKind;

    /// Commits each batch as soon as there is a permit for it, and records its size.
    fn summing(capacity: usize, permits: &Arc<Semaphore>) -> (Batches<usize, usize>, Arc<Mutex<Vec<usize>>>) {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let permits = Arc::clone(permits);
        let seen = Arc::clone(&sizes);
        let batches =
            Batches::start(capacity, Duration::from_millis(50), move |batch: Vec<super::Job<usize, usize>>| {
                let permits = Arc::clone(&permits);
                let seen = Arc::clone(&seen);
                async move {
                    permits.acquire().await.unwrap().forget();
                    seen.lock().unwrap().push(batch.len());
                    for job in batch {
                        let work = job.work;
                        job.answer(Ok(work * 2));
                    }
                }
            });
        (batches, sizes)
    }

    #[tokio::test]
    async fn what_waits_is_committed_together_and_each_gets_its_own_answer() {
        let permits = Arc::new(Semaphore::new(0));
        let (batches, sizes) = summing(100, &permits);
        let writes = futures_util::future::join_all((0..10).map(|n| batches.write(n, 1)));
        let let_go = async {
            tokio::task::yield_now().await;
            permits.add_permits(10);
        };
        let (answers, ()) = tokio::join!(writes, let_go);
        let answers: Vec<usize> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, (0..10).map(|n| n * 2).collect::<Vec<_>>());
        assert!(sizes.lock().unwrap().len() <= 2, "{sizes:?}");
    }

    #[tokio::test]
    async fn a_batch_has_a_bound_in_bytes_but_takes_one_write_of_any_size() {
        let permits = Arc::new(Semaphore::new(100));
        let (batches, sizes) = summing(100, &permits);
        let writes = (0..4).map(|n| batches.write(n, super::MAX_BYTES));
        futures_util::future::try_join_all(writes).await.unwrap();
        assert_eq!(*sizes.lock().unwrap(), [1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_after_a_while() {
        let permits = Arc::new(Semaphore::new(0));
        let (batches, _) = summing(1, &permits);
        let writes = futures_util::future::join_all((0..5).map(|n| batches.write(n, 1)));
        let let_go = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            permits.add_permits(10);
        };
        let (answers, ()) = tokio::join!(writes, let_go);
        let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(!refused.is_empty() && refused.len() < 5, "{answers:?}");
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::ResourceExhausted), "{refused:?}");
    }
}
