//! Writes that depend on stored data. Each of them uses its own connection and holds locks from its reads to its
//! writes. A semaphore therefore limits how many of them run and leaves connections for the other calls.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::events::answer_to;
use super::failure::Idempotency;
use super::{AppendRow, Attempt, Backend, CommitFate, DatabaseOptions, DatabaseSessionService, Failure, Unresolved};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{PreparedSession, PreparedState};
use scratchbook_core::plan::quota::{Charge, Reservation};
use scratchbook_core::session::{CommitScope, Committed, Outcome, StateOwner};

/// Limits the number of concurrent writes that read before they write.
#[derive(Clone, Debug)]
pub(super) struct ResolvePermits {
    free: Arc<Semaphore>,
    timeout: Duration,
}

impl ResolvePermits {
    pub(super) fn new(options: &DatabaseOptions) -> Self {
        Self { free: Arc::new(Semaphore::new((options.pool_size / 2).max(1))), timeout: options.queue_timeout }
    }

    /// Waits for a permit and runs the work with it.
    async fn take<T>(self, work: impl Future<Output = Attempt<T>>) -> Attempt<T> {
        let turn = tokio::time::timeout(self.timeout, self.free.acquire()).await;
        let _turn = turn.map_err(|_| {
            let seconds = self.timeout.as_secs_f64();
            let message = format!("too many writes with operations or guards wait: none was done within {seconds} s");
            Failure { fate: CommitFate::NotSent, error: Error::new(ErrorKind::ResourceExhausted, message) }
        })?;
        work.await
    }
}

impl<D: Backend> DatabaseSessionService<D> {
    /// Appends an event that depends on stored values. It is not part of a batch, because its content is known only
    /// under its own locks.
    pub(super) async fn append_resolved(&self, new: Unresolved, held: Reservation) -> Result<Committed> {
        let new = Arc::new(new);
        let pass = self.gate.enter()?;
        let charge = held.kept_if(|(row, _): &(AppendRow, Event)| matches!(row, AppendRow::Stored { .. }));
        let scope = CommitScope::session(&new.key);
        let (row, event) = self
            .write_with_permit(scope, Idempotency::Idempotent, charge, Arc::clone(&new), |backend, new| {
                backend.append_resolved(new)
            })
            .await?;
        let committed = answer_to(&new.key, &new.prepared, event, row)?;
        if committed.outcome == Outcome::Stored {
            self.after.fold_to(&new.key, committed.event.seq.unwrap_or_default(), &pass);
        }
        Ok(committed)
    }

    pub(super) async fn create_resolved(&self, new: PreparedSession, held: Reservation) -> Result<bool> {
        let scope = CommitScope::session(&new.key);
        let args = (new, self.environment().new_id());
        let charge = held.kept_if(|made| *made);
        self.write_with_permit(scope, Idempotency::Idempotent, charge, args, |backend, (new, token)| {
            backend.create_resolved(new, token)
        })
        .await
    }

    pub(super) async fn put_resolved(
        &self,
        owner: StateOwner,
        new: PreparedState,
        author: String,
        time: f64,
    ) -> Result<u64> {
        let scope = CommitScope::owner(&owner);
        let args = (owner, new, author);
        self.write_with_permit(
            scope,
            Idempotency::NotIdempotent,
            Charge::none(),
            args,
            move |backend, (owner, new, author)| backend.put_resolved(owner, new, author, time),
        )
        .await
    }

    async fn write_with_permit<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        scope: CommitScope,
        idempotency: Idempotency,
        charge: Charge<T>,
        args: A,
        attempt: impl for<'a> Fn(&'a D, &'a A) -> BoxFuture<'a, Attempt<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let permits = self.resolve_permits.clone();
        let after = Arc::clone(&self.after);
        // Each attempt takes a new permit, so that a write does not hold a permit while it pauses between two attempts.
        self.write_charged(scope, idempotency, charge, args, move |backend, args| {
            let permits = permits.clone();
            let after = Arc::clone(&after);
            let attempt = attempt(backend, args);
            Box::pin(async move { permits.take(after.attempt(attempt)).await })
        })
        .await
    }
}
