//! Appends, which are written in batches and answered one by one.
//!
//! One append must not delay the others. A batch waits for locks only for a moment. If another writer holds a lock for
//! longer, the appends of the batch are tried one by one. Appends that still have to wait are set aside, with all later
//! appends to the same session, and the next batches go on.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::after::AfterCommit;
use super::batch::{Batches, Job};
use super::failure::{Idempotency, retry};
use super::gate::GatePass;
use super::{AppendRow, Attempt, Backend, CommitFate, DatabaseOptions, Failure, NewAppend, Unresolved};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, replay};
use scratchbook_core::plan::quota::Reservation;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{AppendOptions, CommitScope, Committed, Outcome, SessionKey, no_session};

/// How often a batch that lost against another writer is retried before its appends are tried one by one.
const TRIES_TOGETHER: u32 = 3;

/// The maximum number of connections that wait for locks.
const WAITERS: usize = 2;

/// A queued append. It keeps the service open until it is answered.
#[derive(Debug)]
pub(super) struct QueuedAppend {
    append: NewAppend,
    /// The part of a quota that is reserved for the append.
    held: Reservation,
    since: Instant,
    pass: GatePass,
}

impl QueuedAppend {
    pub(super) fn new(append: NewAppend, held: Reservation, pass: GatePass) -> Self {
        Self { append, held, since: Instant::now(), pass }
    }
}

type AppendJob = Job<QueuedAppend, Committed>;

/// The queue of appends.
pub(super) type AppendQueue = Batches<QueuedAppend, Committed>;

/// Starts the queue, and the task that writes its batches.
pub(super) fn start<D: Backend>(after: &Arc<AfterCommit<D>>, options: &DatabaseOptions) -> AppendQueue {
    let writer = Arc::new(AppendWriter {
        after: Arc::clone(after),
        retry_timeout: options.retry_timeout,
        aside: Mutex::default(),
        waiters: Semaphore::new(WAITERS.min(options.pool_size / 2).max(1)),
        is_down: AtomicBool::new(false),
    });
    let commit = move |batch| Arc::clone(&writer).commit(batch);
    Batches::start(options.queue_capacity, options.queue_timeout, commit)
}

/// Writes the batches.
struct AppendWriter<D> {
    after: Arc<AfterCommit<D>>,
    retry_timeout: Duration,
    /// Sessions that another writer has locked for a while, each with the appends that wait for it. Appends that are
    /// being written are not included.
    aside: Mutex<HashMap<SessionKey, Vec<AppendJob>>>,
    waiters: Semaphore,
    /// Whether the database could not be reached for the whole retry timeout.
    is_down: AtomicBool,
}

impl<D: Backend> AppendWriter<D> {
    async fn commit(self: Arc<Self>, batch: Vec<AppendJob>) {
        let batch = self.without_those_aside(self.without_those_given_up(batch));
        for batch in distinct(batch) {
            let written = self.write(&batch, Idempotency::IdempotentUnlessLocked).await;
            match &written {
                Err(failure) if batch.len() > 1 && stands_in_the_way(failure) => {
                    let writer = Arc::clone(&self);
                    tokio::spawn(async move { writer.commit_one_by_one(batch).await });
                }
                Err(failure) if failure.fate == CommitFate::LockTimeout => self.set_aside(batch),
                _ => self.answer(batch, written),
            }
        }
    }

    /// Tries the appends one by one, because one of them blocks the others.
    async fn commit_one_by_one(self: Arc<Self>, batch: Vec<AppendJob>) {
        for job in batch {
            // Checked for each append, because the previous append may have found the same session locked. Then both
            // appends wait for the lock together.
            let job = self.without_those_aside(vec![job]);
            if job.is_empty() {
                continue;
            }
            let written = self.write(&job, Idempotency::IdempotentUnlessLocked).await;
            match &written {
                Err(failure) if failure.fate == CommitFate::LockTimeout => self.set_aside(job),
                _ => self.answer(job, written),
            }
        }
    }

    /// Sets appends aside to wait for a lock without delaying other appends. The appends of one session wait together.
    fn set_aside(self: &Arc<Self>, batch: Vec<AppendJob>) {
        for job in batch {
            let key = job.work.append.key.clone();
            match self.aside().entry(key.clone()) {
                Entry::Occupied(mut waiting) => waiting.get_mut().push(job),
                Entry::Vacant(place) => {
                    place.insert(vec![job]);
                    let writer = Arc::clone(self);
                    tokio::spawn(async move { writer.wait_for(key).await });
                }
            }
        }
    }

    async fn wait_for(self: Arc<Self>, key: SessionKey) {
        loop {
            // Acquiring fails only if the semaphore is closed, and this one is never closed.
            let _turn = self.waiters.acquire().await;
            let Some(waiting) = self.take_waiting(&key) else {
                return;
            };
            for batch in distinct(waiting) {
                let written = self.write(&batch, Idempotency::Idempotent).await;
                let is_refused = written.as_ref().is_err_and(|failure| failure.fate == CommitFate::NeverApplied);
                if batch.len() == 1 || !is_refused {
                    self.answer(batch, written);
                    continue;
                }
                for job in batch {
                    let job = vec![job];
                    let written = self.write(&job, Idempotency::Idempotent).await;
                    self.answer(job, written);
                }
            }
        }
    }

    /// Takes the appends that wait for a session. If none are left, later appends to the session join the normal
    /// batches again.
    fn take_waiting(&self, key: &SessionKey) -> Option<Vec<AppendJob>> {
        let mut aside = self.aside();
        let waiting = aside.get_mut(key).map(take).filter(|waiting| !waiting.is_empty());
        if waiting.is_none() {
            aside.remove(key);
        }
        waiting
    }

    fn without_those_aside(&self, batch: Vec<AppendJob>) -> Vec<AppendJob> {
        let mut aside = self.aside();
        if aside.is_empty() {
            return batch;
        }
        let mut rest = Vec::with_capacity(batch.len());
        for job in batch {
            match aside.get_mut(&job.work.append.key) {
                Some(waiting) => waiting.push(job),
                None => rest.push(job),
            }
        }
        rest
    }

    /// While the database is down, fails the appends that have already waited for the whole retry timeout.
    fn without_those_given_up(&self, batch: Vec<AppendJob>) -> Vec<AppendJob> {
        if !self.is_down.load(Ordering::Relaxed) {
            return batch;
        }
        let (late, rest) = batch.into_iter().partition(|job| job.work.since.elapsed() >= self.retry_timeout);
        let seconds = self.retry_timeout.as_secs_f64();
        let message = format!("the database could not be reached within {seconds} s; try again with the same event id");
        fail(late, &Error::new(ErrorKind::Unavailable, message).for_operator());
        rest
    }

    /// Writes a batch, or finds that it cannot be written as a whole. The append that has waited longest decides how
    /// long the batch is retried.
    async fn write(&self, batch: &[AppendJob], idempotency: Idempotency) -> Attempt<Vec<AppendRow>> {
        let appends: Vec<&NewAppend> = batch.iter().map(|job| &job.work.append).collect();
        let appends = appends.as_slice();
        let waited = batch.iter().map(|job| job.work.since.elapsed()).max().unwrap_or_default();
        let mut tries = 0;
        let written = retry(self.retry_timeout.saturating_sub(waited), idempotency, || {
            tries += 1;
            let last = tries == TRIES_TOGETHER && appends.len() > 1;
            async move {
                let written = self.after.attempt(self.after.backend.append(appends)).await;
                written.map_err(|failure| match failure.fate {
                    CommitFate::RolledBack if last => Failure::new(CommitFate::NeverApplied, failure.error),
                    _ => failure,
                })
            }
        })
        .await;
        let lost =
            written.as_ref().is_err_and(|failure| matches!(failure.fate, CommitFate::NotSent | CommitFate::Unknown));
        self.is_down.store(lost, Ordering::Relaxed);
        written
    }

    /// Appends an event that may take a scope beyond a limit. It reads first, so it is not part of a batch.
    async fn append_alone(self: Arc<Self>, job: AppendJob) {
        let NewAppend { key, event } = &job.work.append;
        let options = AppendOptions::default();
        let new = Unresolved { key: key.clone(), prepared: event.prepared.clone(), options };
        let left = self.retry_timeout.saturating_sub(job.work.since.elapsed());
        let written =
            retry(left, Idempotency::Idempotent, || self.after.attempt(self.after.backend.append_resolved(&new)));
        let written = match written.await {
            Ok((AppendRow::Full, _)) => Err(Error::internal("an append was not checked against the limits").into()),
            Ok((row, _)) => Ok(vec![row]),
            Err(failure) => Err(failure),
        };
        self.answer(vec![job], written);
    }

    fn answer(self: &Arc<Self>, mut batch: Vec<AppendJob>, written: Attempt<Vec<AppendRow>>) {
        match written {
            Ok(rows) if rows.len() == batch.len() => {
                if let Some(job) = batch.first() {
                    let scopes: Vec<_> = batch.iter().map(|job| CommitScope::session(&job.work.append.key)).collect();
                    self.after.committed(&scopes, &job.work.pass);
                }
                for (mut job, row) in batch.into_iter().zip(rows) {
                    if matches!(row, AppendRow::Full) {
                        let writer = Arc::clone(self);
                        tokio::spawn(async move { writer.append_alone(job).await });
                        continue;
                    }
                    let committed = committed(&job.work.append, row);
                    let pass = job.work.pass.clone();
                    let stored = committed.as_ref().ok().filter(|committed| committed.outcome == Outcome::Stored);
                    // The quota is settled before the answer, because the caller may write again at once.
                    let held = take(&mut job.work.held);
                    match stored {
                        Some(_) => held.keep(),
                        None => drop(held),
                    }
                    let seq = stored.and_then(|committed| committed.event.seq).unwrap_or_default();
                    self.after.fold_to(&job.work.append.key, seq, &pass);
                    job.answer(committed);
                }
            }
            Ok(rows) => {
                let error = Error::internal(format!("{} answers to {} appends", rows.len(), batch.len()));
                fail(batch, &error);
            }
            Err(failure) => {
                if failure.fate == CommitFate::Unknown {
                    batch.iter_mut().for_each(|job| take(&mut job.work.held).keep_unsure());
                }
                fail(batch, &failure.error);
            }
        }
    }

    fn aside(&self) -> MutexGuard<'_, HashMap<SessionKey, Vec<AppendJob>>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a batch failed because of one of its appends, while the others may be fine.
fn stands_in_the_way(failure: &Failure) -> bool {
    matches!(failure.fate, CommitFate::NeverApplied | CommitFate::LockTimeout | CommitFate::RolledBack)
}

/// Splits a batch so that no event occurs twice in one part. The second occurrence is a retry sent before the first was
/// answered, and goes into a later part.
fn distinct(mut batch: Vec<AppendJob>) -> Vec<Vec<AppendJob>> {
    let mut batches = Vec::with_capacity(1);
    while !batch.is_empty() {
        let mut seen = HashSet::with_capacity(batch.len());
        let firsts: Vec<bool> = batch.iter().map(|job| seen.insert(id(job))).collect();
        drop(seen);
        let mut first = firsts.into_iter();
        let (now, later) = batch.into_iter().partition(|_| first.next().unwrap_or(true));
        batches.push(now);
        batch = later;
    }
    batches
}

fn id(job: &AppendJob) -> (&SessionKey, &str) {
    (&job.work.append.key, &job.work.append.event.prepared.event.id)
}

fn fail(batch: Vec<AppendJob>, error: &Error) {
    for mut job in batch {
        drop(take(&mut job.work.held));
        job.answer(Err(error.again()));
    }
}

/// Returns the caller's answer to an append.
fn committed(append: &NewAppend, row: AppendRow) -> Result<Committed> {
    answer_to(&append.key, &append.event.prepared, append.event.prepared.event.clone(), row)
}

/// Returns the caller's answer to an append of `sent`. If this call has stored the event, `event` is the event as
/// stored.
pub(super) fn answer_to(key: &SessionKey, sent: &Prepared, mut event: Event, row: AppendRow) -> Result<Committed> {
    match row {
        AppendRow::Stored { seq, logs } => {
            event.seq = Some(rows::number(seq, || format!("the number of an event just stored in {key}"))?);
            Ok(Committed::new(Arc::new(event), Outcome::Stored).with_log_positions(logs))
        }
        AppendRow::Duplicate { seq, text, hash, logs } => {
            let outcome = replay(sent, &hash)?;
            Ok(Committed::new(rows::event(seq, &text, key)?, outcome).with_log_positions(logs))
        }
        AppendRow::NoSession => Err(no_session(key)),
        AppendRow::Refused(error) => Err(error),
        AppendRow::Full => Err(Error::internal(format!("an event of {key} was not checked against the limits"))),
    }
}
