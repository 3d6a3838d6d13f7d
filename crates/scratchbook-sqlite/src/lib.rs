//! The [scratchbook](https://docs.rs/scratchbook) store that keeps everything in one SQLite file.
//!
//! ```
//! use scratchbook_core::event::Event;
//! use scratchbook_core::session::SessionService;
//! use scratchbook_core::state::StateDelta;
//! use scratchbook_sqlite::{SqliteOptions, SqliteSessionService};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook_core::error::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("agents.db");
//! let service = SqliteSessionService::open(&path, SqliteOptions::default()).await?;
//! let session = service.create_session("my_app", "alice", Default::default()).await?;
//!
//! let event = Event::new("agent").with_state_delta(StateDelta::new().with("step", 1)?);
//! service.append(session.key(), event, Default::default()).await?;
//!
//! let session = service.get_session(session.key(), &Default::default()).await?.unwrap();
//! assert_eq!(session.state().get("step"), Some(&1.into()));
//! service.close().await?;
//! # Ok(()) }
//! ```
//!
//! # How it works
//!
//! One thread writes: it commits together all writes that are waiting. A few threads read, each on its own snapshot. No
//! call blocks the executor. Processes that write to the same file take turns through a lock file beside it.

mod artifacts;
mod backup;
mod connection;
mod counts;
mod error;
mod events;
mod feed;
mod files;
mod fork;
mod group;
mod growth;
mod hashes;
mod list;
mod locate;
mod locks;
mod options;
mod owners;
mod pace;
mod past;
mod queue;
mod read;
mod removals;
mod resolve;
mod retention;
mod row;
mod schema;
mod service;
mod sessions;
mod state;
mod state_log;
mod statements;
mod sync;
#[cfg(test)]
mod tests;
mod transaction;
mod usage;
mod watch;
mod write_queue;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::sync::watch::{Receiver, Sender, channel};

use error::Fallible;
use events::EventPageQuery;
use files::{DatabaseFiles, FileAccess};
use queue::{Queue, QueueReceiver};
use read::QueuedRead;
use scratchbook_core::environment::Environment;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::quota::{Charge, Quotas};
use scratchbook_core::session::{CommitScope, Session, SessionKey, SessionService, micros_of_seconds};
use scratchbook_core::store::closed;
use transaction::Tx;
use watch::Commits;
use write_queue::{QueuedWrite, WriteQueue};
use writer::{WriterHandles, WriterThread};

pub use options::{SqliteMode, SqliteOptions, Synchronous};

/// Keeps sessions, state and artifacts in a SQLite file.
///
/// A write is acknowledged once it is on the disk. Writes that wait at the same time are committed together, each
/// of them completely or not at all. Several processes may use one file on a local disk. Three files stand beside
/// it: `-wal` and `-shm` are SQLite's, and `-lock` is the lock between writing processes.
///
/// Dropping the service first finishes the accepted writes and blocks until they are done. If another process holds
/// the lock, this takes at most `lock_timeout`, and the waiting writes fail. [`close`](SessionService::close) does
/// not block. The service works on any executor.
///
/// ```
/// use scratchbook::store::SqliteOptions;
/// use scratchbook::{SessionService, SqliteSessionService};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("agents.db");
/// let service = SqliteSessionService::open(&path, SqliteOptions::default()).await?;
/// let session = service.create_session("my_app", "alice", Default::default()).await?;
/// service.close().await?;
///
/// let service = SqliteSessionService::open(&path, SqliteOptions::default()).await?;
/// assert!(service.get_session(session.key(), &Default::default()).await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SqliteSessionService {
    files: Arc<DatabaseFiles>,
    environment: Arc<dyn Environment>,
    mode: SqliteMode,
    limits: Limits,
    quotas: Quotas,
    /// `None` once the service is closed.
    open: Mutex<Option<OpenQueues>>,
    running: Receiver<()>,
    writer: Option<JoinHandle<()>>,
}

/// The part of the service that ends when it is closed.
#[derive(Debug)]
struct OpenQueues {
    queues: Arc<Queues>,
    /// Closing waits until every copy of this sender is dropped.
    running: Sender<()>,
}

#[derive(Debug)]
struct Queues {
    writes: WriteQueue,
    reads: Arc<Queue<QueuedRead>>,
    commits: Commits,
}

impl Queues {
    /// Accepts no more work. The threads finish the accepted work and end.
    fn close(&self) {
        self.writes.close();
        self.reads.close();
        self.commits.close();
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.close();
    }
}

impl SqliteSessionService {
    /// Opens a file, creates it if it is missing, and brings its tables up to date, as far as the options' mode
    /// allows.
    ///
    /// # Errors
    ///
    /// `NotFound` if the folder is missing, or if the file is missing and the mode does not create it;
    /// `PermissionDenied` if the file or folder is read-only, unless the file is opened read-only and is complete
    /// without a log; `FailedPrecondition` if the file is not a SQLite database, if it is not scratchbook's, if a newer
    /// scratchbook has written it, or if an older one has and the file is opened read-only; `InvalidArgument` for
    /// `:memory:` and the empty path.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let environment = Arc::clone(&options.environment);
        let (limits, mode) = (options.limits, options.mode);
        let (running, watching) = channel(());
        let (opened, opening) = oneshot::channel();
        let thread = thread::Builder::new().name("scratchbook-write".to_owned());
        let (name, while_written) = (path.clone(), running.clone());
        let writer = thread.spawn(move || match start(&path, &options, while_written) {
            Ok((writer, queues)) => {
                // If the caller no longer waits, the queues are dropped here and the writer ends at once.
                let _ = opened.send(Ok((writer.files(), queues)));
                writer.run();
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        });
        let writer = writer.map_err(|e| locks::io_error(&name, "no thread to write it", e))?;
        let (files, queues) = opening.await.map_err(|_| read::thread_ended())??;
        Ok(Self {
            files,
            environment,
            quotas: Quotas::new(&limits),
            limits,
            mode,
            open: Mutex::new(Some(OpenQueues { queues: Arc::new(queues), running })),
            running: watching,
            writer: Some(writer),
        })
    }

    /// Opens the file that a URI names: `sqlite://PATH`, optionally with `?mode=ro|rw|rwc`,
    /// `synchronous=full|normal`, `lock_timeout_ms=N`, and each of the [`Limits`] by its name. The path is
    /// everything up to the `?`, taken literally: nothing in it is decoded.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for another scheme, and for an unknown parameter or value; otherwise as
    /// [`open`](Self::open).
    pub async fn connect(uri: &str) -> Result<Self> {
        Ok(Self::connect_with_limits(uri, |limits| limits).await?.0)
    }

    /// Opens a URI as [`connect`](Self::connect) does, but with the limits that `derive` computes from the URI's
    /// limits. Also returns the URI's limits.
    pub async fn connect_with_limits(uri: &str, derive: impl FnOnce(Limits) -> Limits) -> Result<(Self, Limits)> {
        let (path, mut options) = SqliteOptions::from_uri(uri)?;
        let limits = options.limits;
        options.limits = derive(limits);
        Ok((Self::open(path, options).await?, limits))
    }

    /// Copies the database in its present state to a new file, while other calls continue to read and write.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the destination exists, `NotFound` if its folder is missing.
    pub async fn backup(&self, destination: impl AsRef<Path>) -> Result<()> {
        // Held until the copy is complete, because closing waits for it.
        let running = self.opened().as_ref().ok_or_else(closed)?.running.clone();
        let copied = backup::start(Arc::clone(&self.files), destination.as_ref().to_owned(), running)?;
        copied.await.map_err(|_| read::thread_ended())?
    }

    /// Copies the database file of a URI as it is to a new file, while other programs continue to read and write it.
    ///
    /// Unlike [`connect`](Self::connect) and then [`backup`](Self::backup), this changes nothing in the source: if its
    /// tables are those of an older version, so are the copy's. They are brought up to date when the copy is opened.
    ///
    /// # Errors
    ///
    /// As for [`backup`](Self::backup) and, for the source, as for [`open`](Self::open) read-only.
    pub async fn backup_file(uri: &str, destination: impl AsRef<Path>) -> Result<()> {
        let (source, _) = SqliteOptions::from_uri(uri)?;
        let copied = backup::start_of_file(source, destination.as_ref().to_owned())?;
        copied.await.map_err(|_| read::thread_ended())?
    }

    fn now(&self) -> f64 {
        self.environment.now()
    }

    /// Returns the present time in microseconds, for comparison with expiry times.
    fn now_micros(&self) -> i64 {
        micros_of_seconds(self.now())
    }

    fn queues(&self) -> Result<Arc<Queues>> {
        self.opened().as_ref().map(|open| Arc::clone(&open.queues)).ok_or_else(closed)
    }

    /// Returns the queues for a write. Refuses the write in read-only mode.
    fn writable(&self) -> Result<Arc<Queues>> {
        if self.mode == SqliteMode::ReadOnly {
            let message = "the file is opened with mode=ro, for reading alone; open it without";
            return Err(Error::new(ErrorKind::PermissionDenied, message));
        }
        self.queues()
    }

    fn opened(&self) -> MutexGuard<'_, Option<OpenQueues>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write. When this returns successfully, the write is committed, and the watchers of `whose` have been
    /// notified.
    async fn write<T: Send + 'static>(
        &self,
        scope: CommitScope,
        bytes: usize,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        self.write_charged(scope, bytes, Charge::none(), work).await
    }

    /// Does the same as [`write`](Self::write) for a write that has reserved part of a quota.
    async fn write_charged<T: Send + 'static>(
        &self,
        scope: CommitScope,
        bytes: usize,
        charge: Charge<T>,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (write, answer) = QueuedWrite::charged(bytes, charge, work);
        self.writable()?.writes.submit(write.of(scope)).await?;
        answer.await.map_err(|_| read::thread_ended())?
    }

    /// Runs a write that removes data. The data is removed from the write-ahead log as well.
    async fn erase<T: Send + 'static>(
        &self,
        scope: CommitScope,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (write, answer) = QueuedWrite::new(0, work);
        self.writable()?.writes.submit(write.of(scope).erasing()).await?;
        answer.await.map_err(|_| read::thread_ended())?
    }

    /// Reads a session that this process has just created. A reader thread does the work, because the user's and the
    /// app's state may be large, and all writes would wait for the writer. Returns `None` if the session was deleted in
    /// the meantime.
    async fn made(&self, key: &SessionKey, events: EventQuery) -> Result<Option<Session>> {
        let key = key.clone();
        self.read(move |connection| {
            sessions::get(connection, &key, EventPageQuery::from(events), &StateQuery::All, i64::MIN)
        })
        .await
    }

    /// Starts the work that follows an append: making the missing checkpoints after every `CHECKPOINT_EVENTS` events.
    fn after_append(&self, key: &SessionKey, seq: u64) {
        if seq > 0
            && seq.is_multiple_of(CHECKPOINT_EVENTS)
            && let Ok(queues) = self.writable()
        {
            past::make_checkpoints(&queues, key.clone());
        }
    }

    /// Runs a read on one snapshot. Dropping the returned future ends the read.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (read, asked) = read::with_answer(work);
        self.queues()?.reads.push(read)?;
        asked.answer().await
    }
}

/// Lists the migrations that the file of a URI lacks, and applies them unless `run` is a dry run.
pub async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
    let (path, options) = SqliteOptions::from_uri(uri)?;
    let file = path.clone();
    let missing = read::on_own_thread("scratchbook-migrate", &path, move || match file.try_exists() {
        Ok(false) => schema::all(),
        _ => connection::open_reader(&file, FileAccess::Shared)
            .and_then(|c| schema::missing(&c, &file))
            .map_err(|e| e.into_error(&file)),
    })?;
    let missing = missing.await.map_err(|_| read::thread_ended())??;
    if run == MigrationRun::Real && !missing.is_empty() {
        SqliteSessionService::open(path, options).await?.close().await?;
    }
    Ok(missing)
}

/// Opens the database and starts the readers. Runs on the writer's thread.
fn start(path: &Path, options: &SqliteOptions, running: Sender<()>) -> Result<(WriterThread, Queues)> {
    let opened = connection::open_writer(path, options)?;
    // If a reader cannot be opened, dropping the receivers closes the queues, which ends the readers already started.
    let (writes, write_receiver) = WriteQueue::new(options.queue_capacity, options.queue_timeout);
    let reads = Queue::new();
    let read_receiver = Arc::new(QueueReceiver(Arc::clone(&reads)));
    let commits = Commits::default();
    let queues = Queues { writes, reads, commits: commits.clone() };
    let reader = |_| {
        let path = opened.files.path();
        let connection = connection::open_reader(path, opened.files.access()).map_err(|e| e.into_error(path))?;
        read::spawn(connection, Arc::clone(&opened.files), Arc::clone(&read_receiver))
    };
    let readers = (0..options.readers.max(1)).map(reader).collect::<Result<_>>()?;
    Ok((WriterThread::new(opened, write_receiver, WriterHandles { readers, commits, running }), queues))
}

impl Drop for SqliteSessionService {
    fn drop(&mut self) {
        if let Some(open) = self.opened().take() {
            open.queues.close();
        }
        // Without this wait the end of `main` would cut off accepted writes. No caller can still be submitting writes,
        // because each caller holds a reference to the service.
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer of {} panicked", self.files.path().display());
        }
    }
}
