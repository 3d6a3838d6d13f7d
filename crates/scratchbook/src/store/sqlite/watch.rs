//! Who waits for commits hears of them: of this process's at once, of others' by a look at a counter that SQLite keeps.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use super::connection;
use super::error::Fallible;
use super::lock::io_error;
use crate::error::Result;
use crate::session::{CommitNotices, CommitNotifier};

/// How often other processes' commits are looked for while anybody waits.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// Tells of commits. Copies are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    notifier: CommitNotifier,
    looking: Arc<(Mutex<Looking>, Condvar)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Looking {
    #[default]
    No,
    /// A thread does.
    Yes,
    /// Nothing more is to be told.
    Closed,
}

impl Commits {
    /// Says that this process has committed something.
    pub(super) fn notify(&self) {
        self.notifier.notify();
    }

    /// One more who waits. While anybody does, a thread looks for what other processes commit; closing the store waits for
    /// the end of that thread.
    pub(super) fn subscribe(&self, path: &Path, running: &watch::Sender<()>) -> Result<CommitNotices> {
        let mut looking = self.looking();
        // Counted before the thread may find that nobody waits.
        let notices = self.notifier.subscribe();
        if *looking == Looking::No {
            let (commits, of, running) = (self.clone(), path.to_owned(), running.clone());
            let thread = thread::Builder::new().name("scratchbook-watch".to_owned());
            let spawned = thread.spawn(move || {
                commits.look(&of);
                drop(running);
            });
            spawned.map_err(|e| io_error(path, "no thread to watch it", e))?;
            *looking = Looking::Yes;
        }
        Ok(notices)
    }

    /// Ends the thread, and tells whoever waits.
    pub(super) fn close(&self) {
        *self.looking() = Looking::Closed;
        self.looking.1.notify_all();
        self.notifier.close();
    }

    /// Looks for other processes' commits for as long as anybody waits.
    fn look(&self, path: &Path) {
        let (mut connection, mut seen) = (None, None);
        let mut looking = self.looking();
        while *looking == Looking::Yes {
            if !self.notifier.is_heard() {
                *looking = Looking::No;
                return;
            }
            drop(looking);
            match version(&mut connection, path) {
                // At first as well: something may have been committed before there was a thread.
                Ok(version) if seen != Some(version) => {
                    seen = Some(version);
                    self.notifier.notify();
                }
                Ok(_) => {}
                // Whoever waits will hear from the feed what is wrong, or that it is right again.
                Err(error) => {
                    tracing::debug!(error = %error.into_error(path), "commits cannot be watched");
                    (connection, seen) = (None, None);
                    self.notifier.notify();
                }
            }
            looking = self.looking();
            if *looking == Looking::Yes {
                let waited = self.looking.1.wait_timeout(looking, LOOK_AGAIN);
                looking = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn looking(&self) -> MutexGuard<'_, Looking> {
        self.looking.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that changes whenever another connection commits.
fn version(connection: &mut Option<Connection>, path: &Path) -> Fallible<i64> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connection::open_reader(path)?),
    };
    Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Looking;
    use crate::{ErrorKind, SessionService, SqliteOptions, SqliteSessionService};

    #[tokio::test]
    async fn other_processes_are_looked_for_while_anybody_waits_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let service = SqliteSessionService::open(folder.path().join("a.db"), SqliteOptions::default()).await.unwrap();
        let commits = service.queues().unwrap().commits.clone();
        for _ in 0..3 {
            assert_eq!(*commits.looking(), Looking::No);
            let (first, second) = (service.commits().unwrap(), service.commits().unwrap());
            assert_eq!(*commits.looking(), Looking::Yes);
            drop(first);
            thread::sleep(Duration::from_millis(60));
            assert_eq!(*commits.looking(), Looking::Yes);
            drop(second);
            let deadline = Instant::now() + Duration::from_secs(10);
            while *commits.looking() == Looking::Yes {
                assert!(Instant::now() < deadline, "nobody waits, and yet it is looked");
                thread::sleep(Duration::from_millis(5));
            }
        }
        let mut notices = service.commits().unwrap();
        service.close().await.unwrap();
        assert_eq!(notices.next().await.unwrap_err().kind(), ErrorKind::FailedPrecondition);
        assert_eq!(service.commits().unwrap_err().kind(), ErrorKind::FailedPrecondition);
    }
}
