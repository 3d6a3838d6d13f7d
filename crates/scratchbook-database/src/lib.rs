//! Services on a database server: what all of them do the same way. What differs is a [`Backend`].
//!
//! # Layout
//!
//! - `backend.rs`: what a database has to carry out. A database's own folder implements it, and holds nothing else.
//! - `batch.rs`, `append.rs`: appends that wait are written together.
//! - `resolve.rs`: writes that read first wait for their turn.
//! - `past.rs`: the state at an event, and the checkpoints that shorten the way to it.
//! - `after.rs`: what follows a commit: those who wait for commits are told.
//! - `failure.rs`: what is tried again after a failure, and what is not.
//! - `session.rs`, `artifact.rs`: the two services; `usage.rs`: what is in them, for quotas.
//! - `uri.rs`, `options.rs`: where the database is and how it is used.

mod after;
mod artifacts;
mod backend;
mod batch;
mod events;
mod failure;
mod gate;
mod options;
mod page;
mod past;
mod resolve;
mod sessions;
mod uri;
mod usage;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use scratchbook_core::environment::Environment;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::quota::{Charge, Quotas};
use scratchbook_core::session::Whose;

use after::{AfterCommit, Listeners};
use events::Appends;
use failure::retry;
use gate::Gate;
use resolve::ResolvePermits;

#[doc(hidden)]
pub use backend::{AppendRow, Backend, NewAppend, NewFork, Unresolved};
#[doc(hidden)]
pub use failure::{Attempt, CommitFate, Failure, Idempotency};
#[doc(hidden)]
pub use options::check_name;
pub use options::{DatabaseOptions, Migrate, TlsMode};
#[doc(hidden)]
pub use page::{RowCount, RowRoom};
#[doc(hidden)]
pub use past::{Checkpoint, Past, PastScopes};
#[doc(hidden)]
pub use uri::DatabaseUri;

/// How long a statement waits for a lock before it is given up and tried again. A commit of ours holds its locks for
/// milliseconds; whoever holds one for longer must not hold up what does not need it.
#[doc(hidden)]
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// After this many rows of one answer others have a turn.
const ROWS_AT_ONCE: usize = 256;

/// Between the rows of an answer, once for each: now and then lets others have a turn, and the call end here if it was dropped.
#[doc(hidden)]
pub async fn yield_between_rows(count: usize) {
    if count % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}

/// Keeps sessions, state and artifacts in a database on a server, shared by as many processes as there are.
///
/// Appends that wait at the same time are written together in one statement, each of them whole or not at all. What
/// the database undoes in favour of another writer is tried again, and so is what was under way when a connection was
/// lost, for [`retry_timeout`](DatabaseOptions::retry_timeout): events are known again by their ids, so nothing
/// is lost and nothing doubled.
///
/// It needs a Tokio runtime. Dropping the service finishes the appends that were accepted, as long as the runtime
/// lives; [`close`](scratchbook_core::session::SessionService::close) waits for them.
pub struct DatabaseSessionService<D: Backend> {
    backend: Arc<D>,
    gate: Gate,
    appends: Appends,
    resolve_permits: ResolvePermits,
    after: Arc<AfterCommit<D>>,
    listeners: Listeners<D>,
    quotas: Quotas,
    options: DatabaseOptions,
}

impl<D: Backend> fmt::Debug for DatabaseSessionService<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseSessionService").field(&self.backend).finish()
    }
}

impl<D: Backend> DatabaseSessionService<D> {
    /// Opens the database that a URI names, with the options that are its parameters.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for another scheme, parameter or value; `Unauthenticated` for a wrong user or password,
    /// `NotFound` for a missing database, `PermissionDenied` where the role may not do what is needed, `Unavailable`
    /// where the server cannot be reached within the time a connection may take; `FailedPrecondition` where the
    /// tables are missing, too old or too new, and where the server refuses the encryption asked for.
    pub async fn connect(uri: &str) -> Result<Self> {
        Ok(Self::connect_with_limits(uri, |limits| limits).await?.0)
    }

    /// The same with limits made of the URI's, which are returned as they were.
    #[doc(hidden)]
    pub async fn connect_with_limits(uri: &str, room: impl FnOnce(Limits) -> Limits) -> Result<(Self, Limits)> {
        let (uri, mut options) = D::read_uri(uri)?;
        let limits = options.limits;
        options.limits = room(limits);
        Ok((Self::start(uri, options).await?, limits))
    }

    /// Opens a database with options, which stand above the URI's parameters: those are only the driver's own here.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn open(uri: &str, options: DatabaseOptions) -> Result<Self> {
        let (uri, _) = D::read_uri(uri)?;
        Self::start(uri, options).await
    }

    /// The migrations that a database lacks, carried out or not.
    #[doc(hidden)]
    pub async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
        let (uri, options) = D::read_uri(uri)?;
        D::migrate(uri, &options.bounded(), run).await
    }

    async fn start(uri: DatabaseUri, options: DatabaseOptions) -> Result<Self> {
        let options = options.bounded();
        let backend = Arc::new(D::open(uri, &options).await?);
        let after = Arc::new(AfterCommit::new(&backend));
        let appends = Appends::start(&after, &options);
        let listeners = Listeners::new(&after);
        let (resolve_permits, quotas) = (ResolvePermits::new(&options), Quotas::new(&options.limits));
        Ok(Self { backend, gate: Gate::new(), appends, resolve_permits, after, listeners, quotas, options })
    }

    fn environment(&self) -> &dyn Environment {
        self.options.environment.as_ref()
    }

    /// Has something read, which is tried again until it succeeds or the time is over.
    async fn read<T, F: Future<Output = Attempt<T>>>(&self, attempt: impl FnMut() -> F) -> Result<T> {
        let _pass = self.gate.enter()?;
        retry(self.options.retry_timeout, Idempotency::Idempotent, attempt).await.map_err(|failure| failure.error)
    }

    /// Has something written, in a task of its own: dropping the call does not take it back. Those wake who follow whose it
    /// is.
    async fn write<T, F>(
        &self,
        whose: Whose,
        idempotency: Idempotency,
        attempt: impl FnMut(Arc<D>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Attempt<T>> + Send,
    {
        self.write_charged(whose, idempotency, Charge::none(), attempt).await
    }

    /// The same for a write that holds room of a quota.
    async fn write_charged<T, F>(
        &self,
        whose: Whose,
        idempotency: Idempotency,
        charge: Charge<T>,
        mut attempt: impl FnMut(Arc<D>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Attempt<T>> + Send,
    {
        let pass = self.gate.enter()?;
        let (after, timeout) = (Arc::clone(&self.after), self.options.retry_timeout);
        let task = tokio::spawn(async move {
            let done = retry(timeout, idempotency, || attempt(Arc::clone(&after.backend))).await;
            match &done {
                Ok(value) => {
                    after.committed(&[whose], &pass);
                    charge.settle(value);
                }
                Err(failure) if failure.fate == CommitFate::Unknown => charge.keep_unsure(),
                Err(_) => drop(charge),
            }
            done
        });
        let done = task.await.map_err(|e| Error::internal("a write ended without an answer").with_source(e))?;
        done.map_err(|failure| failure.error)
    }
}
