//! Notifies watchers of commits. Commits of this process are reported at once. Those of other processes are found by
//! polling a counter that SQLite keeps.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error::Fallible;
use super::read::snapshot;
use scratchbook_core::session::{CommitNotices, CommitNotifier, CommitScope, SessionKey, StateOwner};

/// How often the writer looks for commits of other processes while there are watchers.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// The minimum time between two wake-ups of all watchers. All watchers are woken for commits without an entry in the
/// feed, and after failed searches.
const ALL_AGAIN: Duration = Duration::from_secs(1);

/// The maximum number of new positions whose owners are looked up. If there are more, all watchers are woken.
const EVENTS: i64 = 1000;

/// Notifies watchers of commits. Clones share the watchers.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    notifier: CommitNotifier,
}

/// Tells the writer whether other processes have committed. The writer's own commits do not change the counter that its
/// connection sees.
#[derive(Debug, Default)]
pub(super) struct OtherProcesses {
    seen: Option<Counters>,
    /// When the writer last looked, and when it last woke all watchers.
    looked: Option<Instant>,
    woken: Option<Instant>,
    /// Whether other processes have committed since all watchers were last woken.
    owed: bool,
}

/// The database's counters at the last look.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// A number that changes whenever another connection commits.
    version: i64,
    /// The last position of the feed.
    position: i64,
}

impl Commits {
    /// Reports commits of this process.
    pub(super) fn notify(&self, scopes: impl IntoIterator<Item = CommitScope>) {
        self.notifier.notify_scopes(scopes);
    }

    /// Adds a watcher. While there are any, the writer looks for commits of other processes.
    pub(super) fn subscribe(&self) -> CommitNotices {
        self.notifier.subscribe()
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        self.notifier.close();
    }

    /// Returns how long the writer may sleep until it has to look again.
    pub(super) fn patience(&self) -> Duration {
        if self.notifier.is_heard() { LOOK_AGAIN } else { Duration::MAX }
    }

    /// Looks for commits of other processes, if there are watchers and it is time.
    pub(super) fn look(&self, others: &mut OtherProcesses, connection: &Connection) {
        if !self.notifier.is_heard() {
            *others = OtherProcesses::default();
        } else if others.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN) {
            others.looked = Some(Instant::now());
            let scopes = snapshot(connection, |connection| others.look(connection)).unwrap_or_else(|error| {
                // The watchers will see the error, or the recovery, when they read the feed.
                tracing::debug!(?error, "the search for commits of other processes failed");
                others.seen = None;
                others.all_at_most()
            });
            self.notifier.notify_scopes(scopes);
        }
    }
}

impl OtherProcesses {
    /// Returns the owners of the data that other processes have committed since the last look.
    fn look(&mut self, connection: &Connection) -> Fallible<Vec<CommitScope>> {
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let position = connection.prepare_cached("SELECT position FROM feed")?.query_row([], |row| row.get(0))?;
        let seen = self.seen.replace(Counters { version, position });
        let is_new = seen.is_none_or(|seen| seen.version != version);
        self.owed |= is_new;
        // Commits without an entry in the feed, such as a changed expiry, may concern any watcher.
        if self.owed && self.may_wake_all() {
            return Ok(self.all());
        }
        match seen.filter(|_| is_new) {
            Some(seen) => Ok(appended(connection, seen.position, position)?.unwrap_or_else(|| self.all())),
            None => Ok(Vec::new()),
        }
    }

    fn may_wake_all(&self) -> bool {
        self.woken.is_none_or(|woken| woken.elapsed() >= ALL_AGAIN)
    }

    fn all(&mut self) -> Vec<CommitScope> {
        (self.woken, self.owed) = (Some(Instant::now()), false);
        vec![CommitScope::Unknown]
    }

    fn all_at_most(&mut self) -> Vec<CommitScope> {
        if self.may_wake_all() { self.all() } else { Vec::new() }
    }
}

/// Returns the sessions and users of the events and removals between two positions; `None` if other entries are between
/// the positions. Some of the entries may be our own.
fn appended(connection: &Connection, after: i64, until: i64) -> Fallible<Option<Vec<CommitScope>>> {
    if until - after > EVENTS {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(
        "SELECT app_name, user_id, session_id, count(*) FROM events NOT INDEXED
         WHERE position > ?1 AND position <= ?2 GROUP BY app_name, user_id, session_id",
    )?;
    let mut rows = statement.query([after, until])?;
    let (mut found, mut scopes) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        let [app, user, session]: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
        found += row.get::<_, i64>(3)?;
        match SessionKey::new(&app, &user, &session) {
            Ok(key) => scopes.push(CommitScope::session(&key)),
            Err(_) => return Ok(None),
        }
    }
    let mut statement = connection
        .prepare_cached("SELECT app_name, user_id, session_id FROM removals WHERE position > ?1 AND position <= ?2")?;
    let mut rows = statement.query([after, until])?;
    while let Some(row) = rows.next()? {
        let [app, user, session]: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
        found += 1;
        let of_session = || SessionKey::new(&app, &user, &session).map(|key| CommitScope::session(&key));
        let of = if session.is_empty() {
            StateOwner::user(&app, &user).map(|u| CommitScope::all_of(&u))
        } else {
            of_session()
        };
        match of {
            Ok(of) => scopes.push(of),
            Err(_) => return Ok(None),
        }
    }
    Ok((found == until - after).then_some(scopes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{SqliteOptions, SqliteSessionService};
    use scratchbook_core::error::ErrorKind;
    use scratchbook_core::session::SessionService;

    /// The time that the writer would sleep shows whether the writer looks for commits of other processes.
    #[tokio::test]
    async fn other_processes_are_looked_for_while_anybody_waits_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let service = SqliteSessionService::open(folder.path().join("a.db"), SqliteOptions::default()).await.unwrap();
        let commits = service.queues().unwrap().commits.clone();
        for _ in 0..3 {
            assert_eq!(commits.patience(), Duration::MAX);
            let (first, second) = (service.commits().unwrap(), service.commits().unwrap());
            drop(first);
            assert!(commits.patience() < Duration::from_secs(1));
            drop(second);
        }
        let mut notices = service.commits().unwrap();
        service.close().await.unwrap();
        assert_eq!(notices.next().await.unwrap_err().kind(), ErrorKind::FailedPrecondition);
        assert_eq!(service.commits().unwrap_err().kind(), ErrorKind::FailedPrecondition);
    }

    /// A service treats another service on the same file as another process.
    #[tokio::test]
    async fn what_others_append_wakes_only_those_who_follow_it() {
        let folder = tempfile::tempdir().unwrap();
        let open = || SqliteSessionService::open(folder.path().join("a.db"), SqliteOptions::default());
        let (service, other) = (open().await.unwrap(), open().await.unwrap());
        let busy = other.create_session("app", "busy", Default::default()).await.unwrap().key().clone();
        let quiet = other.create_session("app", "quiet", Default::default()).await.unwrap().key().clone();
        let mut of_busy = service.commits().unwrap().of_session(&busy);
        let mut of_quiet = service.commits().unwrap().of_session(&quiet);
        let (mut woken, begun) = ([0, 0], Instant::now());
        while begun.elapsed() < Duration::from_secs(3) {
            other.append(&busy, scratchbook_core::event::Event::new("user"), Default::default()).await.unwrap();
            for (notices, woken) in [&mut of_busy, &mut of_quiet].into_iter().zip(&mut woken) {
                *woken += usize::from(tokio::time::timeout(Duration::from_millis(20), notices.next()).await.is_ok());
                notices.forget();
            }
        }
        assert!(woken[0] > 20, "{woken:?}");
        assert!(woken[1] <= 5, "once a second, in case of what the feed does not show: {woken:?}");
    }
}
