//! Groups of writes that are committed together, and then answered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::{Fallible, StoreFailure};
use super::sync::Instant;
use super::transaction::Tx;
use super::write_queue::{QueuedWrite, WriteReceiver};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::session::CommitScope;

/// The maximum number of writes, and of bytes, that are committed together; a single larger write is committed alone.
/// This bounds how long the first write of a group waits for the last, how long a small write waits for larger ones
/// queued behind it, and how long other processes wait.
const GROUP_JOBS: usize = 256;
const GROUP_BYTES: usize = 1 << 20;

/// Writes that were run, with their outcomes. They are committed, but not answered yet.
pub(super) struct WriteGroup(Vec<FinishedWrite>);

struct FinishedWrite {
    queued: QueuedWrite,
    outcome: Fallible<()>,
}

/// The operations of the writer that a group uses.
pub(super) trait GroupWriter {
    /// Returns the queue. Writes that arrive in the meantime are taken from it.
    fn writes(&self) -> &WriteReceiver;

    /// Lets other processes write, and begins a transaction again for a write that has waited since `since`.
    fn begin_again(&mut self, tx: &Tx<'_>, since: Instant) -> Fallible<()>;
}

impl WriteGroup {
    /// Commits writes in the current transaction, including those that arrive in the meantime.
    pub(super) fn commit(writer: &mut impl GroupWriter, tx: &Tx<'_>, first: QueuedWrite) -> Self {
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(mut queued) = next.take() {
            bytes += queued.bytes;
            // The first write needs no savepoint: if it fails, there is nothing else to keep.
            let outcome = match group.is_empty() {
                true => run(&mut queued, tx),
                false => tx.savepoint(|| run(&mut queued, tx)),
            };
            let alone_failed = group.is_empty() && outcome.is_err();
            group.push(FinishedWrite { queued, outcome });
            if tx.is_lost() {
                return Self::one_by_one(writer, tx, group);
            }
            if alone_failed {
                tx.rollback();
                return Self(group);
            }
            if group.len() < GROUP_JOBS {
                next = writer.writes().try_take_if(|next| bytes + next.bytes <= GROUP_BYTES);
            }
        }
        match tx.commit() {
            Ok(()) => Self(group),
            Err(_) => Self::one_by_one(writer, tx, group),
        }
    }

    /// Repeats each write in its own transaction after a whole group was rolled back because of one write, so that only
    /// that write fails.
    fn one_by_one(writer: &mut impl GroupWriter, tx: &Tx<'_>, group: Vec<FinishedWrite>) -> Self {
        tx.rollback();
        tracing::debug!(jobs = group.len(), "a group was rolled back; its writes are repeated one by one");
        let again = group.into_iter().map(|FinishedWrite { mut queued, .. }| {
            let outcome = writer.begin_again(tx, queued.since).and_then(|()| alone(&mut queued, tx));
            FinishedWrite { queued, outcome }
        });
        Self(again.collect())
    }

    /// Returns a write that could not be begun.
    pub(super) fn failed(queued: QueuedWrite, failure: StoreFailure) -> Self {
        Self(vec![FinishedWrite { queued, outcome: Err(failure) }])
    }

    /// Whether a write has removed data.
    pub(super) fn has_erased(&self) -> bool {
        self.0.iter().any(|done| done.queued.erases && done.outcome.is_ok())
    }

    /// Whether every write has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.0.iter().all(|done| done.outcome.is_err())
    }

    /// Turns success into an error.
    pub(super) fn fail(&mut self, error: &Error) {
        for done in self.0.iter_mut().filter(|done| done.outcome.is_ok()) {
            done.outcome = Err(error.again().into());
        }
    }

    /// Returns the number of writes, and of bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.0.len(), self.0.iter().map(|done| done.queued.bytes).sum())
    }

    /// Returns the sessions, users and apps whose data was written.
    pub(super) fn scopes(&self) -> impl Iterator<Item = CommitScope> {
        self.0.iter().filter(|done| done.outcome.is_ok()).map(|done| done.queued.scope)
    }

    /// Answers each write.
    pub(super) fn answer(self, into_error: impl Fn(StoreFailure) -> Error) {
        for FinishedWrite { queued, outcome } in self.0 {
            let outcome: Result<()> = outcome.map_err(&into_error);
            queued.job.answer(outcome);
        }
    }
}

/// Runs a write in its own transaction, which has been started.
fn alone(queued: &mut QueuedWrite, tx: &Tx<'_>) -> Fallible<()> {
    let outcome = run(queued, tx).and_then(|()| match tx.is_lost() {
        false => tx.commit(),
        true => Err(Error::internal("SQLite rolled back without an error").into()),
    });
    if outcome.is_err() {
        tx.rollback();
    }
    outcome
}

/// Runs a write. If it panics, only this write fails.
fn run(queued: &mut QueuedWrite, tx: &Tx<'_>) -> Fallible<()> {
    catch_unwind(AssertUnwindSafe(|| queued.job.run(tx)))
        .unwrap_or_else(|_| Err(StoreFailure::Ours(Error::internal("a write panicked; nothing of it was stored"))))
}
