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
//! One thread writes, and commits together the writes that are waiting; a few threads read, each on its own
//! snapshot. No call blocks the executor. Processes that write to the same file take turns through a lock file
//! beside it.

mod artifacts;
mod backup;
mod connection;
mod counts;
mod error;
mod events;
mod feed;
mod files;
mod fork;
mod growth;
mod list;
mod locate;
mod locks;
mod options;
mod owners;
mod past;
mod queue;
mod read;
mod removal;
mod resolve;
mod retention;
mod row;
mod schema;
mod service;
mod sessions;
mod state;
mod state_log;
mod statements;
mod transaction;
mod usage;
mod watch;
mod writer;

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use futures_util::future::{Either, select};
use rusqlite::Connection;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, TryAcquireError, oneshot};

use error::Fallible;
use events::EventPage;
use files::Files;
use queue::{Queue, QueueReceiver, Timer};
use read::QueuedRead;
use scratchbook_core::environment::Environment;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::query::{EventQuery, StateQuery};
use scratchbook_core::plan::quota::{Charge, Quotas};
use scratchbook_core::session::{Session, SessionKey, SessionService, Whose, micros_of_seconds};
use scratchbook_core::store::closed;
use transaction::Tx;
use watch::Commits;
use writer::{QueuedWrite, Shared, Writer};

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
/// use scratchbook::{SessionService, SqliteOptions, SqliteSessionService};
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
    files: Arc<Files>,
    environment: Arc<dyn Environment>,
    mode: SqliteMode,
    limits: Limits,
    quotas: Quotas,
    timer: Timer,
    /// `None` once the service is closed.
    open: Mutex<Option<Open>>,
    running: Receiver<()>,
    writer: Option<JoinHandle<()>>,
}

/// The part of the service that ends when it is closed.
#[derive(Debug)]
struct Open {
    queues: Arc<Queues>,
    /// Closing waits until every copy of this sender is dropped.
    running: Sender<()>,
}

#[derive(Debug)]
struct Queues {
    writes: Arc<Queue<QueuedWrite>>,
    room: Arc<Semaphore>,
    capacity: usize,
    reads: Arc<Queue<QueuedRead>>,
    commits: Commits,
}

impl Queues {
    /// Accepts no more work. The threads finish what was accepted and end.
    fn close(&self) {
        self.room.close();
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
    /// `NotFound` if the folder is missing, or the file in a mode that creates none; `PermissionDenied` if the file
    /// or folder is read-only; `FailedPrecondition` if the file is not a SQLite database, not scratchbook's, or
    /// written by a newer scratchbook, or by an older one if it is opened read-only; `InvalidArgument` for
    /// `:memory:` and the empty path.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let (environment, timer) = (Arc::clone(&options.environment), Timer::new(options.queue_timeout));
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
            timer,
            mode,
            open: Mutex::new(Some(Open { queues: Arc::new(queues), running })),
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

    /// As [`connect`](Self::connect), with limits that `derive` makes from those of the URI. Returns the URI's
    /// limits as well.
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

    fn now(&self) -> f64 {
        self.environment.now()
    }

    /// The present time in microseconds, for comparison with expiry times.
    fn now_micros(&self) -> i64 {
        micros_of_seconds(self.now())
    }

    fn queues(&self) -> Result<Arc<Queues>> {
        self.opened().as_ref().map(|open| Arc::clone(&open.queues)).ok_or_else(closed)
    }

    /// The queues, for a write.
    fn writable(&self) -> Result<Arc<Queues>> {
        if self.mode == SqliteMode::ReadOnly {
            let message = "the file is opened with mode=ro, for reading alone; open it without";
            return Err(Error::new(ErrorKind::PermissionDenied, message));
        }
        self.queues()
    }

    fn opened(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write. When this returns successfully, the write is committed, and the watchers of `whose` have been
    /// notified.
    async fn write<T: Send + 'static>(
        &self,
        whose: Whose,
        bytes: usize,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        self.write_charged(whose, bytes, Charge::none(), work).await
    }

    /// As [`write`](Self::write), for a write that reserves room of a quota.
    async fn write_charged<T: Send + 'static>(
        &self,
        whose: Whose,
        bytes: usize,
        charge: Charge<T>,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (queued, answered) = QueuedWrite::charged(bytes, charge, work);
        self.enqueue(queued.of(whose)).await?;
        answered.await.map_err(|_| read::thread_ended())?
    }

    /// Runs a write that removes data, and removes it from the write-ahead log as well.
    async fn erase<T: Send + 'static>(
        &self,
        whose: Whose,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (queued, answered) = QueuedWrite::new(0, work);
        self.enqueue(queued.of(whose).erasing()).await?;
        answered.await.map_err(|_| read::thread_ended())?
    }

    async fn enqueue(&self, queued: QueuedWrite) -> Result<()> {
        let queues = self.writable()?;
        let place = match queues.room.try_acquire() {
            Ok(place) => place,
            Err(TryAcquireError::Closed) => return Err(closed()),
            Err(TryAcquireError::NoPermits) => {
                match select(pin!(queues.room.acquire()), pin!(self.timer.wait())).await {
                    Either::Left((place, _)) => place.map_err(|_| closed())?,
                    Either::Right(_) => return Err(self.full(queues.capacity)),
                }
            }
        };
        queues.writes.push(queued)?;
        // The writer frees the slot when it takes the job.
        place.forget();
        Ok(())
    }

    /// Reads a session that this process has just created. A reader thread does it, because the user's and the
    /// app's state may be large and all writes wait for the writer. `None` if the session was deleted in the
    /// meantime.
    async fn made(&self, key: &SessionKey, events: EventQuery) -> Result<Option<Session>> {
        let key = key.clone();
        self.read(move |connection| {
            sessions::get(connection, &key, EventPage::from(events), &StateQuery::All, i64::MIN)
        })
        .await
    }

    /// Starts the work that follows an append: every so often, a checkpoint.
    fn after_append(&self, key: &SessionKey, seq: u64) {
        if seq > 0
            && seq.is_multiple_of(CHECKPOINT_EVENTS)
            && let Ok(queues) = self.writable()
        {
            past::make_checkpoints(&queues, key.clone());
        }
    }

    fn full(&self, capacity: usize) -> Error {
        let seconds = self.timer.timeout().as_secs_f64();
        let message = format!("{capacity} writes wait already, and none was done within {seconds} s; try again");
        Error::new(ErrorKind::ResourceExhausted, message)
    }

    /// Runs a read on one snapshot. Dropping the returned future interrupts the read.
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
        Ok(false) => Ok(schema::all()),
        _ => connection::open_reader(&file).and_then(|c| schema::missing(&c, &file)).map_err(|e| e.into_error(&file)),
    })?;
    let missing = missing.await.map_err(|_| read::thread_ended())??;
    if run == MigrationRun::Real && !missing.is_empty() {
        SqliteSessionService::open(path, options).await?.close().await?;
    }
    Ok(missing)
}

/// Opens the database and starts the readers. Runs on the writer's thread.
fn start(path: &Path, options: &SqliteOptions, running: Sender<()>) -> Result<(Writer, Queues)> {
    let opened = connection::open_writer(path, options)?;
    let capacity = options.queue_capacity.clamp(1, Semaphore::MAX_PERMITS);
    let (writes, reads, room) = (Queue::new(), Queue::new(), Arc::new(Semaphore::new(capacity)));
    // If a reader cannot be opened, dropping these closes the queues, which ends the readers already started.
    let (jobs, waiting) = (QueueReceiver(Arc::clone(&writes)), Arc::new(QueueReceiver(Arc::clone(&reads))));
    let commits = Commits::default();
    let queues = Queues { writes, room: Arc::clone(&room), capacity, reads, commits: commits.clone() };
    let reader = |_| {
        let path = opened.files.path();
        let connection = connection::open_reader(path).map_err(|e| e.into_error(path))?;
        read::spawn(connection, Arc::clone(&opened.files), Arc::clone(&waiting))
    };
    let readers = (0..options.readers.max(1)).map(reader).collect::<Result<_>>()?;
    Ok((Writer::new(opened, jobs, Shared { room, readers, commits, running }), queues))
}

impl Drop for SqliteSessionService {
    fn drop(&mut self) {
        if let Some(open) = self.opened().take() {
            open.queues.close();
        }
        // Without this wait the end of `main` would cut off accepted writes. No caller can be submitting any more,
        // because each holds a reference to the service.
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer of {} panicked", self.files.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::{SqliteOptions, SqliteSessionService, Whose};
    use scratchbook_core::error::{Error, ErrorKind};

    #[tokio::test]
    async fn a_small_write_does_not_wait_for_a_large_one_that_came_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let service = SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap();
        let ((begin, begun), (go, gone)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        let mut first = pin!(
            service
                .write(Whose::Nobody, 9, move |_| begun.recv().map_err(|_| Error::internal("nobody lets it").into()))
        );
        let mut small = pin!(service.write(Whose::Nobody, 9, |tx| tx.next_position()));
        let mut large = pin!(service.write(Whose::Nobody, 2 << 20, move |_| {
            gone.recv().map_err(|_| Error::internal("nobody lets it").into())
        }));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(small.as_mut().now_or_never().is_none());
        assert!(large.as_mut().now_or_never().is_none());
        begin.send(()).unwrap();
        first.await.unwrap();
        timeout(Duration::from_secs(9), small).await.expect("the large one is still being written").unwrap();
        go.send(()).unwrap();
        large.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_in_a_write_or_a_read_is_its_own_error_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
        let write = service.write::<()>(Whose::Nobody, 0, |tx| {
            tx.execute("INSERT INTO app_states VALUES ('app', 'half', '1', 1, 1)", [])?;
            panic!("a defect")
        });
        let position = service.write(Whose::Nobody, 0, |tx| tx.next_position());
        let (broken, position) = tokio::join!(write, position);
        assert_eq!(broken.unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(position.unwrap(), 1);
        let read = service.read::<()>(|_| panic!("a defect")).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Internal);
        let count = "SELECT count(*) FROM app_states";
        let count = service.read(|connection| Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)).await;
        assert_eq!(count.unwrap(), 0);
    }

    /// Runs for hours unless it is interrupted.
    const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_ends_and_the_next_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
        let query = |sql: &'static str| {
            service.read(move |connection| Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?))
        };
        for pause in [0, 1, 5, 20, 50] {
            let endless = tokio::time::timeout(Duration::from_millis(pause), query(ENDLESS)).await;
            assert!(endless.is_err());
            // QueuedWrite reads are dropped like the running one.
            let many = futures_util::future::join_all((0..100).map(|_| query(ENDLESS)));
            assert!(tokio::time::timeout(Duration::from_millis(pause), many).await.is_err());
            let next = tokio::time::timeout(Duration::from_secs(10), query("SELECT 7")).await;
            assert_eq!(next.expect("the reader is free").unwrap(), 7);
        }
    }

    /// Interrupting one read never interrupts another.
    #[tokio::test(flavor = "multi_thread")]
    async fn reads_beside_those_that_are_dropped_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(2)).await.unwrap();
        let count = |most: i64| {
            let sql =
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT count(*) FROM n";
            service.read(move |connection| Ok(connection.query_row(sql, [most], |row| row.get::<_, i64>(0))?))
        };
        for round in 0..300 {
            let dropped = tokio::time::timeout(Duration::from_micros(round * 7), count(20_000));
            let (_, whole) = tokio::join!(dropped, count(1000));
            assert_eq!(whole.unwrap(), 1000);
        }
    }
}
