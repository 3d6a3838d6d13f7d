//! The writer thread: it commits together the writes that queued up while it was busy.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::watch;

use super::connection::{OpenedDatabase, count_pages};
use super::error::Fallible;
use super::files::{DatabaseFiles, Extent, beside};
use super::group::{GroupWriter, WriteGroup};
use super::locks::FileLock;
use super::pace::CallerPace;
use super::queue::Next;
use super::transaction::Tx;
use super::watch::{Commits, OtherProcesses};
use super::write_queue::{QueuedWrite, WriteReceiver};
use scratchbook_core::error::{Error, Result};

/// Above this size the write-ahead log is checkpointed and truncated, which SQLite does not do on its own while
/// there are readers.
const LARGE_WAL: u64 = 64 << 20;
const CUT_AGAIN: Duration = Duration::from_secs(1);
const ERASE_AGAIN: Duration = Duration::from_millis(300);

/// How long one attempt waits for SQLite's lock while holding ours.
const BUSY_SLICE: Duration = Duration::from_millis(100);

/// The writer thread, before it runs.
pub(super) struct WriterThread {
    connection: Connection,
    committer: Committer,
    /// Dropped last, after the connection and its files are closed.
    running: watch::Sender<()>,
}

/// Everything the thread owns except the connection, from which its statements borrow.
struct Committer {
    lock: FileLock,
    files: Arc<DatabaseFiles>,
    wal: PathBuf,
    extent: Extent,
    /// The page size, in bytes.
    page: u64,
    /// When the next attempt to truncate the log is due, after a reader was in the way.
    next_cut: Instant,
    /// Whether the log may still contain erased data.
    erased: bool,
    writes: WriteReceiver,
    readers: Vec<JoinHandle<()>>,
    commits: Commits,
    others: OtherProcesses,
    pace: CallerPace,
}

/// What the writer shares with other threads.
pub(super) struct WriterHandles {
    pub(super) readers: Vec<JoinHandle<()>>,
    pub(super) commits: Commits,
    /// Dropped once everything is closed.
    pub(super) running: watch::Sender<()>,
}

impl WriterThread {
    pub(super) fn new(opened: OpenedDatabase, writes: WriteReceiver, shared: WriterHandles) -> Self {
        let OpenedDatabase { connection, lock, files, extent, page } = opened;
        let WriterHandles { readers, commits, running } = shared;
        let committer = Committer {
            lock,
            wal: beside(files.path(), "-wal"),
            files,
            extent,
            page,
            next_cut: Instant::now(),
            erased: false,
            writes,
            readers,
            commits,
            others: OtherProcesses::default(),
            pace: CallerPace::default(),
        };
        Self { connection, committer, running }
    }

    /// Returns the files that the writer writes to.
    pub(super) fn files(&self) -> Arc<DatabaseFiles> {
        Arc::clone(&self.committer.files)
    }

    /// Runs until the queue is closed and empty.
    pub(super) fn run(self) {
        let Self { connection, mut committer, running } = self;
        committer.work(&Tx::new(&connection));
        committer.finish(&connection);
        if let Err((_, error)) = connection.close() {
            tracing::debug!(%error, "the database could not be closed");
        }
        drop(running);
    }
}

impl Committer {
    fn work(&mut self, tx: &Tx<'_>) {
        loop {
            let patience = if self.erased { ERASE_AGAIN } else { Duration::MAX };
            let next = match self.pace.take_soon(&self.writes) {
                Some(write) => Next::Item(write),
                None => self.writes.take_within(patience.min(self.commits.patience())),
            };
            match next {
                Next::Item(first) => self.serve(tx, first),
                Next::TimedOut => {}
                Next::Closed => break,
            }
            self.cut_wal(tx.connection());
            self.commits.look(&mut self.others, tx.connection());
        }
    }

    fn serve(&mut self, tx: &Tx<'_>, first: QueuedWrite) {
        let started = Instant::now();
        self.pace.next_write(first.since);
        let mut group = self.locked_group(tx, first);
        self.check_written(tx, &mut group);
        // Watchers are notified before the answers, so that a caller who has an answer finds them notified.
        self.commits.notify(group.scopes());
        let (jobs, bytes) = group.size();
        group.answer(|failure| failure.into_error(self.files.path()));
        self.pace.answered(jobs, Instant::now());
        tracing::debug!(jobs, bytes, micros = started.elapsed().as_micros() as u64, "committed a group of writes");
    }

    fn locked_group(&mut self, tx: &Tx<'_>, first: QueuedWrite) -> WriteGroup {
        if let Err(error) = self.begin(tx, first.since) {
            return WriteGroup::failed(first, error);
        }
        let group = WriteGroup::commit(self, tx, first);
        if group.has_erased() {
            self.erased = true;
            self.checkpoint(tx.connection());
        }
        self.lock.release();
        group
    }

    /// Refuses to write to a file that was replaced or truncated.
    fn check_files(&mut self, connection: &Connection) -> Result<()> {
        let stored = self.files.check()? / self.page;
        if stored < self.extent.stored {
            // If the pages cannot be counted, the database counts as truncated.
            let pages = count_pages(connection).unwrap_or(u64::MAX);
            return self.see(Extent { stored, pages });
        }
        self.extent.stored = stored;
        Ok(())
    }

    fn see(&mut self, now: Extent) -> Result<()> {
        if self.extent.is_cut_to(now) {
            return Err(self.files.cut());
        }
        self.extent = now;
        Ok(())
    }

    /// Turns success into an error if the file was replaced or truncated while it was written.
    fn check_written(&mut self, tx: &Tx<'_>, group: &mut WriteGroup) {
        if group.has_failed() {
            return;
        }
        let stored = self.files.check_all().map(|bytes| bytes / self.page);
        let Err(error) = stored.and_then(|stored| self.see(Extent { stored, pages: tx.pages() })) else {
            return;
        };
        tracing::error!(%error, "the last writes may be lost");
        group.fail(&error);
    }

    /// Begins a transaction and holds our lock, for a write that has waited since `since`. If the write has already
    /// waited for its whole timeout, this succeeds only if our lock and SQLite's are free at once.
    ///
    /// A program that does not know our lock may hold SQLite's lock. Between attempts our lock is released, so that
    /// other processes waiting for it can time out on their own.
    fn begin(&mut self, tx: &Tx<'_>, since: Instant) -> Fallible<()> {
        loop {
            self.lock.acquire(since)?;
            if let Err(error) = self.check_files(tx.connection()) {
                self.lock.release();
                return Err(error.into());
            }
            let begun = tx.begin(self.lock.left(since).min(BUSY_SLICE));
            let Err(error) = begun else {
                return Ok(());
            };
            self.lock.release();
            if !error.is_busy() || self.lock.left(since).is_zero() {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Truncates the log if it is large or contains erased data. If a reader is in the way, the writer tries again
    /// after another group.
    fn cut_wal(&mut self, connection: &Connection) {
        let due = self.erased || self.wal_size() >= LARGE_WAL;
        if due && Instant::now() >= self.next_cut && self.lock.try_acquire().unwrap_or_default() {
            self.checkpoint(connection);
            self.lock.release();
        }
    }

    fn wal_size(&self) -> u64 {
        fs::metadata(&self.wal).map_or(0, |found| found.len())
    }

    /// Copies the log into the database and truncates it. If this fails, nothing is lost, because the log remains.
    fn checkpoint(&mut self, connection: &Connection) {
        // If the database was truncated, the log is the last intact copy of its pages.
        if self.check_files(connection).is_err() && self.files.is_cut() {
            return;
        }
        let checkpoint = || {
            // The wait for readers is short, because truncating the log is not worth delaying writes.
            connection.busy_timeout(Duration::from_millis(50))?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        };
        let emptied = match checkpoint() {
            Ok(busy) => busy == 0,
            Err(error) => {
                tracing::debug!(%error, "the write-ahead log could not be checkpointed");
                false
            }
        };
        self.erased &= !emptied;
        if !emptied {
            self.next_cut = Instant::now() + if self.erased { ERASE_AGAIN } else { CUT_AGAIN };
        }
    }

    fn finish(mut self, connection: &Connection) {
        for reader in self.readers.drain(..) {
            // A reader that panicked has nothing left to finish.
            let _ = reader.join();
        }
        if self.check_files(connection).is_err() && self.files.is_cut() {
            // Closing must not checkpoint either, for the same reason as in `checkpoint`.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            return;
        }
        // If other processes are writing, they will checkpoint the log.
        if self.lock.try_acquire().unwrap_or_default() {
            self.checkpoint(connection);
            self.lock.release();
        }
    }
}

impl GroupWriter for Committer {
    fn writes(&self) -> &WriteReceiver {
        &self.writes
    }

    fn begin_again(&mut self, tx: &Tx<'_>, since: Instant) -> Fallible<()> {
        self.lock.release();
        self.begin(tx, since)
    }
}

/// Checks that writes work, by committing a row of 64 KiB.
pub(super) fn check_writable(tx: &Tx<'_>) -> Fallible<()> {
    // Rewriting the row takes no new page of the database, which may have reached its size. A longer row does, and is
    // rolled back.
    let mut room = Ok(0);
    let undone = tx.savepoint(|| {
        room = tx.execute(
            "INSERT INTO write_checks (one, filler) VALUES (1, hex(zeroblob(16384)))
             ON CONFLICT DO UPDATE SET filler = filler || excluded.filler",
            [],
        );
        Err(Error::internal("undone").into())
    });
    debug_assert!(undone.is_err(), "a savepoint keeps what failed");
    room?;
    // SQLite writes only pages that have changed, and they have to find room in the log. So the text is random.
    tx.execute(
        "INSERT INTO write_checks (one, filler) VALUES (1, hex(randomblob(32768)))
         ON CONFLICT DO UPDATE SET filler = excluded.filler",
        [],
    )
    .map(drop)
}
