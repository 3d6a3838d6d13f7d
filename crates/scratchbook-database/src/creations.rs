//! Creations of sessions, which are written in batches and answered one by one.
//!
//! A batch creates only sessions whose ids are free. A session that is not created by its batch is created alone: its
//! id is taken or belongs to an expired session, or the batch failed, for example because another writer holds a lock.
//! So a creation neither delays other creations nor makes them fail.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::after::AfterCommit;
use super::batch::{Batches, Job};
use super::failure::{Idempotency, retry};
use super::gate::GatePass;
use super::{Backend, CreationOutcome, DatabaseOptions, NewCreation};
use scratchbook_core::plan::quota::Reservation;
use scratchbook_core::session::CommitScope;

/// The maximum number of batches that are written at the same time.
const BATCHES: usize = 4;

/// How long the next batch waits for the batch before it. The longer it waits, the more sessions it has.
const PATIENCE: Duration = Duration::from_millis(50);

/// A queued creation. It keeps the service open until it is answered.
#[derive(Debug)]
pub(super) struct QueuedCreation {
    new: NewCreation,
    /// The part of a quota that is reserved for the session.
    held: Reservation,
    pass: GatePass,
}

impl QueuedCreation {
    pub(super) fn new(new: NewCreation, held: Reservation, pass: GatePass) -> Self {
        Self { new, held, pass }
    }
}

type CreationJob = Job<QueuedCreation, CreationOutcome>;

/// The queue of creations.
pub(super) type CreationQueue = Batches<QueuedCreation, CreationOutcome>;

/// Starts the queue, and the task that writes its batches.
pub(super) fn start<D: Backend>(after: &Arc<AfterCommit<D>>, options: &DatabaseOptions) -> CreationQueue {
    let writer = CreationWriter { after: Arc::clone(after), retry_timeout: options.retry_timeout };
    let free = Arc::new(Semaphore::new(BATCHES.min(options.pool_size.saturating_sub(1)).max(1)));
    let commit = move |batch| write(writer.clone(), Arc::clone(&free), batch);
    Batches::start(options.queue_capacity, options.queue_timeout, commit)
}

/// Writes a batch. If this takes long, returns before the batch is written, so that a lock does not delay the next
/// batch.
async fn write<D: Backend>(writer: CreationWriter<D>, free: Arc<Semaphore>, batch: Vec<CreationJob>) {
    // Acquiring fails only if the semaphore is closed, and this one is never closed.
    let permit = free.acquire_owned().await.ok();
    let written = tokio::spawn(async move { writer.commit(batch, permit).await });
    let _ = timeout(PATIENCE, written).await;
}

/// Writes the batches.
struct CreationWriter<D> {
    after: Arc<AfterCommit<D>>,
    retry_timeout: Duration,
}

impl<D> Clone for CreationWriter<D> {
    fn clone(&self) -> Self {
        Self { after: Arc::clone(&self.after), retry_timeout: self.retry_timeout }
    }
}

impl<D: Backend> CreationWriter<D> {
    async fn commit(&self, batch: Vec<CreationJob>, permit: Option<OwnedSemaphorePermit>) {
        let new: Vec<&NewCreation> = batch.iter().map(|job| &job.work.new).collect();
        let mut made = self.after.attempt(self.after.backend.create_batch(&new)).await.unwrap_or_else(|failure| {
            tracing::debug!(error = %failure.error, "creating the sessions of a batch one by one");
            Vec::new()
        });
        drop(permit);
        // A session without an outcome is created alone. If it exists already, its token shows this.
        made.resize_with(batch.len(), || CreationOutcome::NotCreated);
        let mut done = Vec::with_capacity(batch.len());
        let mut rest = Vec::new();
        for (job, outcome) in batch.into_iter().zip(made) {
            match outcome {
                CreationOutcome::Created(session) => done.push((job, session)),
                CreationOutcome::NotCreated => rest.push(job),
            }
        }
        if let Some((job, _)) = done.first() {
            let scopes: Vec<_> = done.iter().map(|(job, _)| CommitScope::session(&job.work.new.session.key)).collect();
            self.after.committed(&scopes, &job.work.pass);
        }
        for (mut job, session) in done {
            // The quota is settled before the answer, because the caller may write again at once.
            take(&mut job.work.held).keep();
            job.answer(Ok(CreationOutcome::Created(session)));
        }
        for job in rest {
            let writer = self.clone();
            tokio::spawn(async move { writer.create_alone(job).await });
        }
    }

    async fn create_alone(&self, mut job: CreationJob) {
        let charge = take(&mut job.work.held).kept_if(|made| *made);
        let QueuedCreation { new: NewCreation { session, token }, pass, .. } = &job.work;
        let create = retry(self.retry_timeout, Idempotency::Idempotent, || {
            self.after.attempt(self.after.backend.create_session(session, token))
        });
        let made = self.after.write(CommitScope::session(&session.key), pass, charge, create).await;
        job.answer(made.map(CreationOutcome::new).map_err(|failure| failure.error));
    }
}
