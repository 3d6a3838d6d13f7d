//! Appends: written batch by batch, one by one where a batch cannot be, and answered each for itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batches, Job};
use super::failure::{Again, retry};
use super::gate::Pass;
use super::{AppendRow, Attempt, DatabaseOptions, Dialect, Done, Failure, NewAppend};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::session::{Committed, Outcome, SessionKey, no_session};
use crate::store::commit::{Prepared, replay};
use crate::store::rows;

/// How often a batch that lost against another writer is tried before its appends are tried one by one.
const TRIES_TOGETHER: u32 = 3;

/// An append that waits. It keeps the service open until it is answered.
#[derive(Debug)]
struct Waiting {
    append: NewAppend,
    _pass: Pass,
}

type Queued = Job<Waiting, Committed>;

/// The queue of appends.
#[derive(Debug)]
pub(super) struct Appends {
    batches: Batches<Waiting, Committed>,
}

impl Appends {
    pub(super) fn start<D: Dialect>(dialect: &Arc<D>, options: &DatabaseOptions) -> Self {
        let (dialect, timeout) = (Arc::clone(dialect), options.retry_timeout);
        let commit = move |batch| commit(Arc::clone(&dialect), timeout, batch);
        Self { batches: Batches::start(options.queue_capacity, options.queue_timeout, commit) }
    }

    pub(super) async fn append(&self, append: NewAppend, pass: Pass) -> Result<Committed> {
        let bytes = append.event.bytes();
        self.batches.write(Waiting { append, _pass: pass }, bytes).await
    }
}

/// Writes a batch. An id that is in it twice is a retry that overtook its answer, and waits for it.
async fn commit<D: Dialect>(dialect: Arc<D>, timeout: Duration, mut batch: Vec<Queued>) {
    while !batch.is_empty() {
        let mut seen = HashSet::with_capacity(batch.len());
        let firsts: Vec<bool> = batch.iter().map(|job| seen.insert(id(job))).collect();
        drop(seen);
        let mut first = firsts.into_iter();
        let (now, later) = batch.into_iter().partition(|_| first.next().unwrap_or(true));
        commit_together(&dialect, timeout, now).await;
        batch = later;
    }
}

fn id(job: &Queued) -> (&SessionKey, &str) {
    (&job.work.append.key, &job.work.append.event.prepared.event.id)
}

async fn commit_together<D: Dialect>(dialect: &Arc<D>, timeout: Duration, batch: Vec<Queued>) {
    let written = write(dialect.as_ref(), timeout, &batch).await;
    let one_stands_in_the_way = written.as_ref().is_err_and(|failure| failure.done == Done::Refused);
    if !one_stands_in_the_way || batch.len() == 1 {
        return answer(batch, written);
    }
    // Each for itself, while the next batch goes on.
    for job in batch {
        let dialect = Arc::clone(dialect);
        tokio::spawn(async move {
            let job = vec![job];
            let written = write(dialect.as_ref(), timeout, &job).await;
            answer(job, written);
        });
    }
}

/// Writes a batch, or finds that it cannot be written as one.
async fn write<D: Dialect>(dialect: &D, timeout: Duration, batch: &[Queued]) -> Attempt<Vec<AppendRow>> {
    let appends: Vec<&NewAppend> = batch.iter().map(|job| &job.work.append).collect();
    let appends = appends.as_slice();
    let mut tries = 0;
    retry(timeout, Again::Same, || {
        tries += 1;
        let last = tries == TRIES_TOGETHER && appends.len() > 1;
        async move {
            let written = dialect.append(appends).await;
            written.map_err(|failure| match failure.done {
                Done::Undone if last => Failure::new(Done::Refused, failure.error),
                _ => failure,
            })
        }
    })
    .await
}

fn answer(batch: Vec<Queued>, written: Attempt<Vec<AppendRow>>) {
    match written {
        Ok(rows) if rows.len() == batch.len() => {
            for (job, row) in batch.into_iter().zip(rows) {
                let committed = committed(&job.work.append, row);
                job.answer(committed);
            }
        }
        Ok(rows) => {
            let error = Error::internal(format!("{} answers to {} appends", rows.len(), batch.len()));
            fail(batch, &error);
        }
        Err(failure) => fail(batch, &failure.error),
    }
}

fn fail(batch: Vec<Queued>, error: &Error) {
    for job in batch {
        job.answer(Err(Error::new(error.kind(), error.to_string())));
    }
}

/// What the caller is told of an append.
fn committed(append: &NewAppend, row: AppendRow) -> Result<Committed> {
    answer_to(&append.key, &append.event.prepared, append.event.prepared.event.clone(), row)
}

/// What the caller is told of an event that was sent and then, where it is stored, became this.
pub(super) fn answer_to(key: &SessionKey, sent: &Prepared, mut event: Event, row: AppendRow) -> Result<Committed> {
    match row {
        AppendRow::Stored { seq, logs } => {
            event.seq = Some(rows::number(seq, || format!("the number of an event just stored in {key}"))?);
            Ok(Committed::new(Arc::new(event), Outcome::Stored).with_log_positions(logs))
        }
        AppendRow::Known { seq, text, hash, logs } => {
            let outcome = replay(sent, &hash)?;
            Ok(Committed::new(Arc::new(rows::event(seq, &text, key)?), outcome).with_log_positions(logs))
        }
        AppendRow::NoSession => Err(no_session(key)),
    }
}
