//! The batches of writes to a database server.

#[allow(dead_code)]
#[path = "../../../crates/scratchbook-database/src/batch.rs"]
mod batch;

mod sync {
    pub(super) use crate::sync::{Semaphore, SendTimeoutError, mpsc, oneshot, spawn};
}

use std::time::Duration;

use scratchbook_core::error::ErrorKind;
use shuttle::future::{block_on, spawn};

use crate::sync::{Arc, Mutex, PoisonError, oneshot, perhaps_dropped, point};
use batch::{Batches, Job};

type CommittedNumbers = Arc<Mutex<Vec<u64>>>;

fn all(committed: &CommittedNumbers) -> Vec<u64> {
    committed.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts a queue whose batches take a while. Also returns the committed writes, and a value that shows whether the
/// task of the queue has ended.
fn start(capacity: usize) -> (Arc<Batches<u64, u64>>, CommittedNumbers, oneshot::Receiver<()>) {
    let (running, ended) = oneshot::channel::<()>();
    let running = Arc::new(running);
    let committed = CommittedNumbers::default();
    let of_task = Arc::clone(&committed);
    let batches = Batches::start(capacity, Duration::from_secs(1), move |batch: Vec<Job<u64, u64>>| {
        let (committed, running) = (Arc::clone(&of_task), Arc::clone(&running));
        async move {
            point();
            let numbers = batch.iter().map(|job| job.work);
            committed.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers);
            for job in batch {
                let answer = job.work * 2;
                job.answer(Ok(answer));
            }
            drop(running);
        }
    });
    (Arc::new(batches), committed, ended)
}

/// Each write is committed once, before its own answer, and a refused write is not committed. If a caller gives up, the
/// other callers still get their answers.
pub fn every_write_of_a_batch_gets_its_own_answer() {
    block_on(async {
        let (batches, committed, ended) = start(1);
        let callers = [1, 2, 3, 4].map(|number: u64| {
            let (batches, committed) = (Arc::clone(&batches), Arc::clone(&committed));
            spawn(async move {
                // A batch has at most 4 MiB, so some of these fit into one batch, and some do not.
                let bytes = usize::try_from(number).unwrap_or_default() << 20;
                let written = match number {
                    4 => perhaps_dropped(batches.write(number, bytes)).await,
                    _ => Some(batches.write(number, bytes).await),
                };
                let count = all(&committed).iter().filter(|one| **one == number).count();
                match written {
                    None => assert!(count <= 1),
                    Some(Ok(answer)) => assert!(answer == number * 2 && count == 1, "{number} is {answer}, {count}"),
                    Some(Err(error)) => assert!(error.kind() == ErrorKind::ResourceExhausted && count == 0, "{error}"),
                }
            })
        });
        for caller in callers {
            assert!(caller.await.is_ok());
        }
        drop(batches);
        assert!(ended.await.is_err(), "the task ends with its queue");
    });
}

/// A write that was queued is committed, although its caller no longer waits and the queue is gone.
pub fn writes_outlive_their_callers() {
    block_on(async {
        let (batches, committed, ended) = start(4);
        let callers = [1, 2, 3].map(|number| {
            let batches = Arc::clone(&batches);
            spawn(async move { drop(perhaps_dropped(batches.write(number, 1)).await) })
        });
        drop(batches);
        for caller in callers {
            assert!(caller.await.is_ok());
        }
        assert!(ended.await.is_err(), "the task ends with its queue");
        let mut committed = all(&committed);
        committed.sort_unstable();
        assert_eq!(committed, [1, 2, 3]);
    });
}
