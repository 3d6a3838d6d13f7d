//! SQLite's queue of writes, its groups, and their answers.
//!
//! Only the writer's thread uses the database, so no order of steps can change what the database does. A list of
//! numbers, with transactions that may fail, replaces the database.

#[allow(dead_code)]
#[path = "../../../crates/scratchbook-sqlite/src/group.rs"]
mod group;
#[allow(dead_code)]
#[path = "../../../crates/scratchbook-sqlite/src/queue.rs"]
mod queue;
#[allow(dead_code)]
#[path = "../../../crates/scratchbook-sqlite/src/write_queue.rs"]
mod write_queue;

mod sync {
    pub(super) use crate::sync::{
        Arc, Condvar, Instant, Mutex, MutexGuard, PoisonError, Semaphore, TryAcquireError, oneshot, std_mpsc as mpsc,
        thread,
    };
}

use std::time::Duration;

use scratchbook_core::error::{Error, ErrorKind};
use shuttle::future::block_on;
use shuttle::thread;

use crate::sync::{Arc, perhaps, perhaps_dropped};
use error::{Fallible, StoreFailure};
use group::{GroupWriter, WriteGroup};
use queue::Next;
use transaction::{Commits, Tx};
use write_queue::{QueuedWrite, WriteQueue, WriteReceiver};

mod error {
    use scratchbook_core::error::Error;

    #[derive(Debug)]
    pub(super) enum StoreFailure {
        Ours(Error),
    }

    pub(super) type Fallible<T> = Result<T, StoreFailure>;

    impl From<Error> for StoreFailure {
        fn from(error: Error) -> Self {
            Self::Ours(error)
        }
    }
}

mod transaction {
    use std::cell::RefCell;

    use scratchbook_core::error::Error;

    use super::error::Fallible;
    use crate::sync::{Arc, Mutex, PoisonError, perhaps};

    /// The committed numbers, which every task can read.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Commits(Arc<Mutex<Vec<u64>>>);

    impl Commits {
        pub(super) fn count(&self, number: u64) -> usize {
            self.all().iter().filter(|one| **one == number).count()
        }

        pub(super) fn all(&self) -> Vec<u64> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }
    }

    /// The transactions of the writer.
    #[derive(Debug)]
    pub(super) struct Tx<'c> {
        commits: &'c Commits,
        written: RefCell<Option<Vec<u64>>>,
        may_fail: bool,
    }

    impl<'c> Tx<'c> {
        pub(super) fn new(commits: &'c Commits, may_fail: bool) -> Self {
            Self { commits, written: RefCell::default(), may_fail }
        }

        pub(super) fn begin(&self) {
            *self.written.borrow_mut() = Some(Vec::new());
        }

        pub(super) fn write(&self, number: u64) {
            self.written.borrow_mut().iter_mut().for_each(|written| written.push(number));
        }

        /// A group of several writes may fail at its commit, or lose its transaction before the commit.
        fn fails(&self) -> bool {
            let is_group = self.written.borrow().as_ref().is_some_and(|written| written.len() > 1);
            self.may_fail && is_group && perhaps()
        }

        pub(super) fn savepoint(&self, work: impl FnOnce() -> Fallible<()>) -> Fallible<()> {
            let before = self.written.borrow().as_ref().map_or(0, Vec::len);
            let done = work();
            if done.is_err() {
                self.written.borrow_mut().iter_mut().for_each(|written| written.truncate(before));
            }
            if self.fails() {
                self.rollback();
            }
            done
        }

        pub(super) fn is_lost(&self) -> bool {
            self.written.borrow().is_none()
        }

        pub(super) fn rollback(&self) {
            self.written.take();
        }

        pub(super) fn commit(&self) -> Fallible<()> {
            if self.fails() {
                return Err(Error::internal("the disk is full").into());
            }
            let written = self.written.take().unwrap_or_default();
            self.commits.0.lock().unwrap_or_else(PoisonError::into_inner).extend(written);
            Ok(())
        }
    }
}

/// Which writes fail by themselves.
const BAD: u64 = 100;

fn write(number: u64) -> (QueuedWrite, sync::oneshot::Receiver<scratchbook_core::error::Result<u64>>) {
    QueuedWrite::new(1, move |tx: &Tx<'_>| {
        tx.write(number);
        if number >= BAD { Err(Error::invalid("a bad write").into()) } else { Ok(number) }
    })
}

/// The loop of the writer's thread.
struct WriterLoop(WriteReceiver);

impl GroupWriter for WriterLoop {
    fn writes(&self) -> &WriteReceiver {
        &self.0
    }

    fn begin_again(&mut self, tx: &Tx<'_>, _: sync::Instant) -> Fallible<()> {
        tx.begin();
        Ok(())
    }
}

impl WriterLoop {
    fn run(mut self, tx: &Tx<'_>, patience: Duration) {
        loop {
            match self.0.take_within(patience) {
                Next::Item(first) => {
                    tx.begin();
                    WriteGroup::commit(&mut self, tx, first).answer(|StoreFailure::Ours(error)| error);
                }
                Next::TimedOut => {}
                Next::Closed => break,
            }
        }
    }
}

/// A write that the queue has accepted is committed once and answered after that, whether the queue is full, is closed
/// meanwhile, or other callers give up. A write that the queue has refused is not committed.
pub fn every_accepted_write_is_answered_once() {
    let (queue, receiver) = WriteQueue::new(1, Duration::from_secs(1));
    let (queue, commits) = (Arc::new(queue), Commits::default());
    let of_writer = commits.clone();
    let writer = thread::spawn(move || {
        WriterLoop(receiver).run(&Tx::new(&of_writer, false), Duration::MAX);
    });
    let callers = (1..=3).map(|number| {
        let (queue, commits) = (Arc::clone(&queue), commits.clone());
        thread::spawn(move || {
            let (queued, answered) = write(number);
            let submitted = block_on(async {
                match number {
                    // This caller may give up at any moment.
                    3 => perhaps_dropped(queue.submit(queued)).await,
                    _ => Some(queue.submit(queued).await),
                }
            });
            match submitted {
                None => assert!(commits.count(number) <= 1),
                Some(Err(error)) => {
                    let is_refused = [ErrorKind::FailedPrecondition, ErrorKind::ResourceExhausted];
                    assert!(is_refused.contains(&error.kind()), "{error}");
                    assert_eq!(commits.count(number), 0, "a refused write is not committed");
                }
                // Perhaps nobody waits for the answer.
                Some(Ok(())) if number == 3 && perhaps() => drop(answered),
                Some(Ok(())) => {
                    let answer = block_on(answered);
                    assert_eq!(answer.ok().and_then(Result::ok), Some(number), "an accepted write is answered");
                    assert_eq!(commits.count(number), 1, "a write is committed once, before its answer");
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let closer = Arc::clone(&queue);
    let closer = thread::spawn(move || closer.close());
    [closer].into_iter().chain(callers).for_each(joined);
    joined(writer);
    assert!((1..=3).all(|number| commits.count(number) <= 1), "{:?}", commits.all());
}

/// If a group cannot be committed, its writes are repeated one by one: each good write is committed once, and only a
/// bad write is answered with an error. The writer is sometimes woken without a reason, and its waits end by their
/// timeouts.
pub fn failed_commits_fail_only_their_own_writes() {
    let (queue, receiver) = WriteQueue::new(4, Duration::from_secs(1));
    let (queue, commits) = (Arc::new(queue), Commits::default());
    let of_writer = commits.clone();
    let writer = thread::spawn(move || {
        WriterLoop(receiver).run(&Tx::new(&of_writer, true), Duration::from_secs(1));
    });
    let callers = [1, 2, BAD].map(|number| {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let (queued, answered) = write(number);
            assert!(block_on(queue.submit(queued)).is_ok(), "there is room for all");
            let answer = block_on(answered);
            assert!(answer.is_ok(), "a write is not answered");
            match answer.into_iter().next() {
                Some(Err(error)) => assert!(number == BAD && error.kind() == ErrorKind::InvalidArgument, "{error}"),
                answer => assert!(number < BAD && matches!(answer, Some(Ok(same)) if same == number)),
            }
        })
    });
    queue.wake_writer();
    callers.into_iter().for_each(joined);
    queue.close();
    joined(writer);
    let mut committed = commits.all();
    committed.sort_unstable();
    assert_eq!(committed, [1, 2]);
}

fn joined(thread: thread::JoinHandle<()>) {
    assert!(thread.join().is_ok());
}
