//! The parts that scratchbook's stores on database servers share: batches of appends, retries, closing and options.
//! The parts that differ are a [`Backend`], which `scratchbook-postgres` and `scratchbook-mysql` implement.
//!
//! ```
//! use scratchbook_database::{Backend, DatabaseOptions, DatabaseSessionService, TlsMode};
//! use scratchbook_core::error::Result;
//!
//! /// Opens a store with eight connections, encrypted, in any database.
//! async fn open<B: Backend>(uri: &str) -> Result<DatabaseSessionService<B>> {
//!     let options = DatabaseOptions::default().with_pool_size(8).with_tls(TlsMode::VerifyFull);
//!     DatabaseSessionService::open(uri, options).await
//! }
//! ```
//!
//! # Layout
//!
//! - `backend.rs`: the traits that a database implements, one for each theme; `requests.rs`: the arguments and results
//!   of these traits. The crate of a database contains only their implementation.
//! - `batch.rs`, `events.rs`: appends that wait at the same time are written together.
//! - `resolve.rs`: writes that read first, and the permits that limit how many of them run.
//! - `past.rs`: point-in-time state, and the checkpoints that make it cheaper to compute.
//! - `after.rs`: notices of commits, in this process and to others.
//! - `failure.rs`: the facts about a failed statement, and when it is retried.
//! - `sessions.rs`, `artifacts.rs`: the two services; `usage.rs`: how much is stored, for quotas.
//! - `capacity.rs`: how many connections calls may use. `tls.rs`: the checks of a server's certificate. `page.rs`: pages with a limit in bytes. `gate.rs`: closing.
//!   `uri.rs`, `options.rs`: the address and the options.

mod after;
mod artifacts;
mod backend;
mod batch;
mod capacity;
mod creations;
mod events;
mod failure;
mod gate;
mod options;
mod page;
mod past;
mod requests;
mod resolve;
mod sessions;
mod sync;
mod tls;
mod uri;
mod usage;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use scratchbook_core::environment::Environment;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::quota::{Charge, Quotas};
use scratchbook_core::session::CommitScope;

use after::{AfterCommit, Listeners};
use creations::CreationQueue;
use events::AppendQueue;
use failure::retry;
use gate::CallGate;
use resolve::ResolvePermits;

#[doc(hidden)]
pub use backend::{
    Appends, Artifacts, Backend, Connect, Creations, Feeds, Forks, Hashes, History, Listen, Owners, Reads, Removals,
    ResolvedWrites, Retention, Sessions, StateLogs, States, Usages,
};
#[doc(hidden)]
pub use capacity::Capacity;
#[doc(hidden)]
pub use failure::{Attempt, CommitFate, Failure, Idempotency};
#[doc(hidden)]
#[doc(hidden)]
pub use options::check_name;
pub use options::{DatabaseOptions, Migrate, TlsMode};
#[doc(hidden)]
pub use page::{RowCount, RowRoom};
#[doc(hidden)]
pub use past::{Checkpoint, Past, PastScopes};
#[doc(hidden)]
pub use requests::{AppendRow, CreationOutcome, NewAppend, NewCreation, NewFork, Unresolved};
#[doc(hidden)]
pub use tls::{CertificateCheck, client_config, describe as describe_tls, trusted_certificates};
#[doc(hidden)]
pub use uri::DatabaseUri;

/// How long a statement waits for a lock before it is given up and retried. Our own commits hold their locks for
/// milliseconds; a writer that holds a lock for longer must not delay writes that do not need that lock.
#[doc(hidden)]
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// After this many rows of an answer, reading yields to other tasks.
const ROWS_AT_ONCE: usize = 256;

/// Called after each row of an answer: yields to other tasks from time to time, so that a call that was dropped can end
/// here.
#[doc(hidden)]
pub async fn yield_between_rows(count: usize) {
    if count % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
        tokio::task::yield_now().await;
    }
}

/// Keeps sessions, state and artifacts in a database on a server, which any number of processes can share.
///
/// Appends that wait at the same time are written together in one statement; each append is written completely or not
/// at all. On PostgreSQL, creations of sessions are written together as well if they write only the sessions' own
/// state. If the database rolls a write back in favour of another writer, or a connection is lost during a write, the
/// write is retried for [`retry_timeout`](DatabaseOptions::retry_timeout). A retried event is recognized by its id, so
/// nothing is lost and nothing is stored twice.
///
/// The service needs a Tokio runtime. Dropping the service finishes the appends that it has accepted, as long as the
/// runtime lives; [`close`](scratchbook_core::session::SessionService::close) waits for them.
pub struct DatabaseSessionService<D: Backend> {
    backend: Arc<D>,
    gate: CallGate,
    appends: AppendQueue,
    creations: CreationQueue,
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
    /// Opens the database at a URI, with the options in the URI's parameters.
    ///
    /// # Errors
    ///
    /// - `InvalidArgument` if the scheme, a parameter or a value is invalid;
    /// - `Unauthenticated` if the user or password is wrong;
    /// - `NotFound` if the database does not exist;
    /// - `PermissionDenied` if the role lacks a permission;
    /// - `Unavailable` if the server cannot be reached within the connect timeout;
    /// - `FailedPrecondition` if the tables are missing, too old or too new, or if the server refuses the requested
    ///   encryption.
    pub async fn connect(uri: &str) -> Result<Self> {
        Ok(Self::connect_with_limits(uri, |limits| limits).await?.0)
    }

    /// Like [`connect`](Self::connect), with limits that a function makes from the limits of the URI. Also returns the
    /// limits of the URI.
    #[doc(hidden)]
    pub async fn connect_with_limits(uri: &str, room: impl FnOnce(Limits) -> Limits) -> Result<(Self, Limits)> {
        let (uri, mut options) = D::read_uri(uri)?;
        let limits = options.limits;
        options.limits = room(limits);
        Ok((Self::start(uri, options).await?, limits))
    }

    /// Opens a database with these options, which replace the URI's parameters: only the driver's own parameters are
    /// used.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn open(uri: &str, options: DatabaseOptions) -> Result<Self> {
        let (uri, _) = D::read_uri(uri)?;
        Self::start(uri, options).await
    }

    /// Returns the migrations that a database lacks, and runs them if `run` says so.
    #[doc(hidden)]
    pub async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
        let (uri, options) = D::read_uri(uri)?;
        D::migrate(uri, &options.bounded(), run).await
    }

    async fn start(uri: DatabaseUri, options: DatabaseOptions) -> Result<Self> {
        let options = options.bounded();
        let backend = Arc::new(D::open(uri, &options).await?);
        let after = Arc::new(AfterCommit::new(&backend, options.pool_size));
        let appends = events::start(&after, &options);
        let creations = creations::start(&after, &options);
        let listeners = Listeners::new(&after);
        let resolve_permits = ResolvePermits::new(&options);
        let quotas = Quotas::new(&options.limits);
        Ok(Self {
            backend,
            gate: CallGate::new(),
            appends,
            creations,
            resolve_permits,
            after,
            listeners,
            quotas,
            options,
        })
    }

    fn environment(&self) -> &dyn Environment {
        self.options.environment.as_ref()
    }

    /// Runs a read, and retries it until it succeeds or the retry timeout has passed.
    async fn read<T, F: Future<Output = Attempt<T>>>(&self, attempt: impl FnMut() -> F) -> Result<T> {
        let _pass = self.gate.enter()?;
        retry(self.options.retry_timeout, Idempotency::Idempotent, attempt).await.map_err(|failure| failure.error)
    }

    /// Runs a write in a separate task, so that dropping the call does not cancel the write. Each attempt is one call
    /// of the backend with these arguments. A commit notifies the followers of `scope`.
    async fn write<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        scope: CommitScope,
        idempotency: Idempotency,
        args: A,
        attempt: impl for<'a> Fn(&'a D, &'a A) -> BoxFuture<'a, Attempt<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let after = Arc::clone(&self.after);
        self.write_charged(scope, idempotency, Charge::none(), args, move |backend, args| {
            let after = Arc::clone(&after);
            let attempt = attempt(backend, args);
            Box::pin(async move { after.attempt(attempt).await })
        })
        .await
    }

    /// Like [`write`](Self::write), for a write that has reserved part of a quota.
    async fn write_charged<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        scope: CommitScope,
        idempotency: Idempotency,
        charge: Charge<T>,
        args: A,
        attempt: impl for<'a> Fn(&'a D, &'a A) -> BoxFuture<'a, Attempt<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let pass = self.gate.enter()?;
        let after = Arc::clone(&self.after);
        let timeout = self.options.retry_timeout;
        let task = tokio::spawn(async move {
            let write = || attempt(&after.backend, &args);
            after.write(scope, &pass, charge, retry(timeout, idempotency, write)).await
        });
        let done = task.await.map_err(|e| Error::internal("a write ended without an answer").with_source(e))?;
        done.map_err(|failure| failure.error)
    }
}
