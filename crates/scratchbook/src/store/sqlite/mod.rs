//! Everything in one SQLite file.
//!
//! One thread writes and commits together what has gathered; a few threads read, each on its own snapshot.
//! Nothing here blocks the executor. Processes that write to the same file take turns by a lock beside it.

mod artifact;
mod at;
mod backup;
mod blame;
mod checkpoint;
mod connection;
mod counts;
mod error;
mod feed;
mod fold;
mod fork;
mod growth;
mod lock;
mod options;
mod owned;
mod owners;
mod queue;
mod read;
mod readers;
mod resolve;
mod retention;
mod schema;
mod shown;
mod statements;
mod transaction;
mod watch;
mod write;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use rusqlite::Connection;
use serde_json::{Map, Value};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, TryAcquireError, oneshot};

use super::closed;
use super::commit::{Prepared, prepare_event, prepare_session, prepare_state};
use super::folded::CHECKPOINT_EVENTS;
use super::fork::fork_key;
use super::limits::Limits;
use super::migrate::{Migration, MigrationRun};
use super::query::{EventQuery, ListQuery, StateQuery};
use super::text::{NewEvent, NewSession, TextChange};
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, KeyWriter, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, Outcome,
    PutStateOptions, Session, SessionKey, SessionService, StateChange, StateOwner, StatePage, check_id, check_owner,
    micros_of_seconds, seconds_of_micros,
};
use crate::state::{StateDelta, StateMap};
use error::Fallible;
use queue::{Queue, Taker, Timer};
use readers::Read;
use transaction::Tx;
use watch::Commits;
use write::Appended;
use writer::{Queued, Shared, Writer};

pub use options::{SqliteOptions, Synchronous};

/// Keeps sessions, state and artifacts in a SQLite file.
///
/// A write is acknowledged once it is on the disk. Writes that wait at the same time are committed together,
/// each of them whole or not at all. Several processes may use one file, on a local disk; beside it stand
/// `-wal` and `-shm`, which are SQLite's, and `-lock`, by which writers take turns.
///
/// Dropping the service finishes what was accepted, which blocks for as long as that takes: where another process
/// holds the lock, for `lock_timeout` at most, after which what waits has failed;
/// [`close`](SessionService::close) does not block. It works on any executor.
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
    path: PathBuf,
    environment: Arc<dyn Environment>,
    limits: Limits,
    /// Of a wait for a place in a full queue.
    timer: Timer,
    /// `None` once closed.
    open: Mutex<Option<Open>>,
    running: Receiver<()>,
    writer: Option<JoinHandle<()>>,
}

/// What there is until it is closed.
#[derive(Debug)]
struct Open {
    queues: Arc<Queues>,
    /// Closing waits until every copy of this is gone.
    running: Sender<()>,
}

#[derive(Debug)]
struct Queues {
    writes: Arc<Queue<Queued>>,
    /// The places in the queue of writes.
    room: Arc<Semaphore>,
    capacity: usize,
    reads: Arc<Queue<Read>>,
    commits: Commits,
}

impl Queues {
    /// Takes nothing more; the threads finish what there is and end.
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
    /// Opens a file, making it where it is missing, and brings its tables up to date.
    ///
    /// # Errors
    ///
    /// `NotFound` where its folder is missing, `PermissionDenied` where file or folder is read-only,
    /// `FailedPrecondition` for a file that is no SQLite database, one that is not scratchbook's, and one
    /// written by a newer scratchbook; `InvalidArgument` for `:memory:` and the empty path.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let (environment, timer) = (Arc::clone(&options.environment), Timer::new(options.queue_timeout));
        let limits = options.limits;
        let (running, watching) = channel(());
        let (opened, opening) = oneshot::channel();
        let thread = thread::Builder::new().name("scratchbook-write".to_owned());
        let (name, while_written) = (path.clone(), running.clone());
        let writer = thread.spawn(move || match start(&path, &options, while_written) {
            Ok((writer, queues)) => {
                let path = writer.path().to_owned();
                // Where the opening was given up, the queues end here and the writer at once.
                let _ = opened.send(Ok((path, queues)));
                writer.run();
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        });
        let writer = writer.map_err(|e| lock::io_error(&name, "no thread to write it", e))?;
        let (path, queues) = opening.await.map_err(|_| readers::unanswered())??;
        Ok(Self {
            path,
            environment,
            limits,
            timer,
            open: Mutex::new(Some(Open { queues: Arc::new(queues), running })),
            running: watching,
            writer: Some(writer),
        })
    }

    /// Opens the file that a URI names: `sqlite://PATH`, with `?synchronous=full|normal` and
    /// `&lock_timeout_ms=N` if wanted, and each of the [`Limits`] by its name. Everything up to the `?` is the path as it is, nothing decoded.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for another scheme, parameter or value; and as [`open`](Self::open).
    pub async fn connect(uri: &str) -> Result<Self> {
        let (path, options) = SqliteOptions::from_uri(uri)?;
        Self::open(path, options).await
    }

    /// Copies the database, as it is at this moment, to a new file, while others go on reading and writing.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` where the destination is there already, `NotFound` where its folder is missing.
    pub async fn backup(&self, destination: impl AsRef<Path>) -> Result<()> {
        // Kept until the copy is made: closing waits for it.
        let running = self.opened().as_ref().ok_or_else(closed)?.running.clone();
        let copied = backup::start(self.path.clone(), destination.as_ref().to_owned(), running)?;
        copied.await.map_err(|_| readers::unanswered())?
    }

    fn now(&self) -> f64 {
        self.environment.now()
    }

    /// The time now, by which sessions expire.
    fn now_micros(&self) -> i64 {
        micros_of_seconds(self.now())
    }

    fn queues(&self) -> Result<Arc<Queues>> {
        self.opened().as_ref().map(|open| Arc::clone(&open.queues)).ok_or_else(closed)
    }

    fn opened(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something written, in a commit that has succeeded when this returns.
    async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (queued, answered) = Queued::new(bytes, work);
        self.enqueue(queued).await?;
        answered.await.map_err(|_| readers::unanswered())?
    }

    /// Has something removed, from the file and from its log.
    async fn erase<T: Send + 'static>(&self, work: impl FnMut(&Tx<'_>) -> Fallible<T> + Send + 'static) -> Result<T> {
        let (queued, answered) = Queued::new(0, work);
        self.enqueue(queued.erasing()).await?;
        answered.await.map_err(|_| readers::unanswered())?
    }

    async fn enqueue(&self, queued: Queued) -> Result<()> {
        let queues = self.queues()?;
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
        // The writer makes the place free when it takes the job.
        place.forget();
        Ok(())
    }

    /// A session that this process has just made. By a reader: the user's and the app's state may be large, and everybody
    /// waits for the writer. `None` where somebody was quick to delete it.
    async fn made(&self, key: &SessionKey, events: EventQuery) -> Result<Option<Session>> {
        let key = key.clone();
        self.read(move |connection| read::session(connection, &key, events, &StateQuery::All, i64::MIN)).await
    }

    /// What is to be done behind an append.
    fn after_append(&self, key: &SessionKey, seq: u64) {
        if seq.is_multiple_of(CHECKPOINT_EVENTS)
            && let Ok(queues) = self.queues()
        {
            checkpoint::make(&queues, key.clone());
        }
    }

    fn full(&self, capacity: usize) -> Error {
        let seconds = self.timer.timeout().as_secs_f64();
        let message = format!("{capacity} writes wait already, and none was done within {seconds} s; try again");
        Error::new(ErrorKind::ResourceExhausted, message)
    }

    /// Has something read, on one snapshot.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Fallible<T> + Send + 'static,
    ) -> Result<T> {
        let (read, answered) = readers::queue(work);
        self.queues()?.reads.push(read)?;
        answered.await.map_err(|_| readers::unanswered())?
    }
}

/// The migrations that the file of a URI lacks, carried out or not.
pub(super) async fn migrate(uri: &str, run: MigrationRun) -> Result<Vec<Migration>> {
    let (path, options) = SqliteOptions::from_uri(uri)?;
    let file = path.clone();
    let missing = readers::apart("scratchbook-migrate", &path, move || match file.try_exists() {
        Ok(false) => Ok(schema::all()),
        _ => connection::open_reader(&file).and_then(|c| schema::missing(&c, &file)).map_err(|e| e.into_error(&file)),
    })?;
    let missing = missing.await.map_err(|_| readers::unanswered())??;
    if run == MigrationRun::Real && !missing.is_empty() {
        SqliteSessionService::open(path, options).await?.close().await?;
    }
    Ok(missing)
}

/// An append as the writer gets it. What is large is behind a pointer, so that no future holds it.
enum Write {
    /// It is written as it is.
    Plain(Arc<NewEvent>),
    /// It depends on what is stored.
    Resolved { bytes: usize, of: Box<(Prepared, AppendOptions)> },
}

impl Write {
    fn new(event: Event, options: AppendOptions, environment: &dyn Environment, limits: &Limits) -> Result<Self> {
        let prepared = prepare_event(event, environment, limits)?;
        if prepared.is_plain(&options) {
            return Ok(Self::Plain(Arc::new(NewEvent::new(prepared)?)));
        }
        Ok(Self::Resolved { bytes: prepared.bytes(), of: Box::new((prepared, options)) })
    }
}

/// Opens everything; runs on the writer's thread.
fn start(path: &Path, options: &SqliteOptions, running: Sender<()>) -> Result<(Writer, Queues)> {
    let opened = connection::open_writer(path, options)?;
    let capacity = options.queue_capacity.clamp(1, Semaphore::MAX_PERMITS);
    let (writes, reads, room) = (Queue::new(), Queue::new(), Arc::new(Semaphore::new(capacity)));
    // Where a reader cannot be opened, this closes the queue of those that are there.
    let (jobs, waiting) = (Taker(Arc::clone(&writes)), Arc::new(Taker(Arc::clone(&reads))));
    let commits = Commits::default();
    let queues = Queues { writes, room: Arc::clone(&room), capacity, reads, commits: commits.clone() };
    let reader = |_| {
        let connection = connection::open_reader(&opened.path).map_err(|e| e.into_error(&opened.path))?;
        readers::spawn(connection, opened.path.clone(), Arc::clone(&waiting))
    };
    let readers = (0..options.readers.max(1)).map(reader).collect::<Result<_>>()?;
    Ok((Writer::new(opened, jobs, Shared { room, readers, commits, running }), queues))
}

impl Drop for SqliteSessionService {
    fn drop(&mut self) {
        if let Some(open) = self.opened().take() {
            open.queues.close();
        }
        // Without this wait the end of `main` would cut off what was accepted. Nobody else can be sending:
        // whoever does holds a reference to the service.
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer of {} panicked", self.path.display());
        }
    }
}

#[async_trait]
impl SessionService for SqliteSessionService {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, self.environment.as_ref(), &self.limits)?;
        let (key, created) = (prepared.key.clone(), seconds_of_micros(prepared.created));
        let (own, expires) = (StateMap::from(prepared.initial.clone()), prepared.expires);
        let (now, events) = (self.now_micros(), prepared.events.len() as u64);
        if prepared.is_plain() {
            let new = NewSession::new(prepared)?;
            self.write(new.bytes(), move |tx| write::create(tx, &new, now)).await?;
        } else {
            let (bytes, prepared) = (prepared.bytes(), Box::new(prepared));
            self.write(bytes, move |tx| resolve::create(tx, &prepared, now)).await?;
        }
        // As behind so many appends.
        self.after_append(&key, events - events % CHECKPOINT_EVENTS);
        let made = self.made(&key, EventQuery::All).await?;
        let expires = expires.map(seconds_of_micros);
        // Where there is none any more, this is what was made.
        Ok(made.unwrap_or_else(|| Session::new(key, own).with_last_update_time(created).with_expire_time(expires)))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let (events, state) = (EventQuery::new(config)?, StateQuery::new(&config.state)?);
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| read::session(connection, &key, events, &state, now)).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| read::initial_state(connection, &key, now)).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let (of, now) = (key.clone(), self.now_micros());
        let (state, checkpoints) = self.read(move |connection| at::state(connection, &of, seq, now)).await?;
        if !checkpoints.is_empty() {
            checkpoint::keep(&self.queues()?, key.clone(), checkpoints);
        }
        Ok(state)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        let (key, now) = (key.clone(), self.now_micros());
        self.read(move |connection| blame::all(connection, &key, now)).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let fork = fork_key(key, &config, self.environment.as_ref())?;
        let (of, to, now) = (key.clone(), fork.clone(), self.now_micros());
        self.write(0, move |tx| fork::fork(tx, &of, &to, config.at, now)).await?;
        let made = self.made(&fork, EventQuery::None).await?;
        Ok(made
            .unwrap_or_else(|| Session::new(fork, StateMap::default()).with_last_update_time(seconds_of_micros(now))))
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        config.check()?;
        let (owner, config) = (owner.clone(), config.clone());
        self.read(move |connection| owned::page(connection, &owner, &config)).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        let (owner, name) = (owner.clone(), name.to_owned());
        self.read(move |connection| owned::key_changes(connection, &owner, &name, before, limit)).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let (owner, start, now) = (owner.clone(), start.clone(), self.now_micros());
        self.read(move |connection| feed::page(connection, &owner, &start, limit, now)).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        let open = self.opened();
        let Open { queues, running } = open.as_ref().ok_or_else(closed)?;
        queues.commits.subscribe(&self.path, running)
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        let expires = expiry.map(|expiry| expiry.micros(|| self.now())).transpose()?;
        let (key, now) = (key.clone(), self.now_micros());
        self.write(0, move |tx| retention::set_expiry(tx, &key, expires, now)).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        let (now, mut deleted) = (self.now_micros(), 0);
        // Who has nothing to delete does not wait for the writer.
        while deleted < limit && self.read(move |connection| retention::any_expired(connection, now)).await? {
            deleted += self.erase(move |tx| retention::delete_expired(tx, now, limit - deleted)).await?;
        }
        Ok(deleted as u64)
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        let (key, now) = (key.clone(), self.now_micros());
        self.erase(move |tx| retention::prune_events(tx, &key, before, limit, now)).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        let owner = owner.clone();
        self.erase(move |tx| retention::prune_state_log(tx, &owner, before, limit)).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        check_id("app name", app_name)?;
        let (app_name, query, now) = (app_name.to_owned(), ListQuery::new(config)?, self.now_micros());
        self.read(move |connection| read::list(connection, &app_name, &query, now)).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        let key = key.clone();
        self.erase(move |tx| write::delete_session(tx, &key)).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            drop(self.queues()?);
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let (address, now) = (key.clone(), self.now_micros());
        let new = match Write::new(event, options, self.environment.as_ref(), &self.limits)? {
            Write::Plain(new) => new,
            Write::Resolved { bytes, of } => {
                let append = self.write(bytes, move |tx| resolve::append(tx, &address, &of.0, &of.1, now));
                let committed = append.await?;
                self.after_append(key, committed.event.seq.unwrap_or_default());
                return Ok(committed);
            }
        };
        let shared = Arc::clone(&new);
        let appended = self.write(new.bytes(), move |tx| write::append(tx, &address, &shared, now)).await?;
        Ok(match appended {
            Appended::Replayed(committed) => committed,
            Appended::Stored { seq, position } => {
                // The writer has dropped its share before it answered.
                let mut event = match Arc::try_unwrap(new) {
                    Ok(new) => new.prepared.event,
                    Err(shared) => shared.prepared.event.clone(),
                };
                event.seq = Some(seq);
                self.after_append(key, seq);
                write::committed(event, Outcome::Stored, position)
            }
        })
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let owner = owner.clone();
        self.read(move |connection| owned::state(connection, &owner)).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let ((author, time), owner) = (options.checked(|| self.environment.now())?, owner.clone());
        if !prepared.is_plain() {
            return self.write(0, move |tx| resolve::put_state(tx, &owner, &prepared, &author, time)).await;
        }
        let (changes, limits) = (TextChange::all(&prepared.changes)?, prepared.limits);
        let bytes = changes.iter().map(TextChange::bytes).sum();
        self.write(bytes, move |tx| write::put_state(tx, &owner, &changes, &limits, &author, time)).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        let owner = owner.clone();
        self.read(move |connection| owned::changes(connection, &owner, after, limit)).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        let after = after.cloned();
        self.read(move |connection| owners::after(connection, after.as_ref(), limit)).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        check_owner(app_name, user_id)?;
        let (app_name, user_id) = (app_name.to_owned(), user_id.to_owned());
        self.erase(move |tx| write::delete_user(tx, &app_name, &user_id)).await
    }

    async fn close(&self) -> Result<()> {
        let open = self.opened().take();
        if let Some(Open { queues, running }) = open {
            queues.close();
            drop(running);
        }
        let mut running = self.running.clone();
        // Ends with an error when the writer has dropped its side, the last thing it does.
        while running.changed().await.is_ok() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{SqliteOptions, SqliteSessionService};
    use crate::ErrorKind;

    #[tokio::test]
    async fn a_panic_in_a_write_or_a_read_is_its_own_error_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
        let write = service.write::<()>(0, |tx| {
            tx.execute("INSERT INTO app_states VALUES ('app', 'half', '1', 1, 1)", [])?;
            panic!("a defect")
        });
        let position = service.write(0, |tx| tx.next_position());
        let (broken, position) = tokio::join!(write, position);
        assert_eq!(broken.unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(position.unwrap(), 1);
        let read = service.read::<()>(|_| panic!("a defect")).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Internal);
        let count = "SELECT count(*) FROM app_states";
        let count = service.read(|connection| Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)).await;
        assert_eq!(count.unwrap(), 0);
    }
}
