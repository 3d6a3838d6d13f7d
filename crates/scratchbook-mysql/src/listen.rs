//! Finding the commits of other processes by polling, which is frequent while there are commits and rare otherwise. For
//! feeds that were read, the poll searches for new commits. For followed sessions, it reads the last numbers of all of
//! them at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mysql_async::Value;

use super::MySql;
use super::batch::json;
use super::events::number;
use super::row::RowCells;
use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{CommitNotifier, CommitScope, Followed, SessionKey, StateOwner};
use scratchbook_core::state::Scope;
use scratchbook_database::{Attempt, Listen};

/// The polling intervals: right after a commit, and when there has been none for a while.
const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(500);

/// The polling interval for followed sessions.
const SESSIONS: Duration = Duration::from_secs(1);

/// All callers are woken after this time in any case.
const AT_LEAST: Duration = Duration::from_secs(30);

/// The number of commits of each kind that are read to find out to whom they belong.
const COMMITS: usize = 500;

/// How many sessions one statement checks.
const SESSIONS_AT_ONCE: usize = 1000;

/// The apps whose feeds were read, and the position up to which their commits were reported.
#[derive(Debug, Default)]
pub(super) struct ReportedPositions(Mutex<HashMap<String, u64>>);

/// The last numbers of followed sessions and their incarnations; `None` for a session that is gone.
type LastNumbers = HashMap<SessionKey, Option<(i64, i64)>>;

impl ReportedPositions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Listen for MySql {
    async fn listen(&self, notifier: &CommitNotifier) {
        let mut pause = SOON;
        let mut woken = Instant::now();
        let mut looked = Instant::now();
        let mut numbers = LastNumbers::new();
        while notifier.is_heard() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATE);
            match self.unreported(notifier).await {
                // Only commits that somebody follows make polling more frequent.
                Ok(scopes) => {
                    if notifier.notify_scopes(scopes) {
                        pause = SOON;
                    }
                }
                Err(failure) => return deaf(&failure.error),
            }
            if looked.elapsed() >= SESSIONS {
                match self.moved_sessions(notifier, &mut numbers).await {
                    Ok(scopes) => drop(notifier.notify_scopes(scopes)),
                    Err(failure) => return deaf(&failure.error),
                }
                looked = Instant::now();
            }
            if woken.elapsed() >= AT_LEAST {
                notifier.notify();
                woken = Instant::now();
            }
        }
    }

    fn may_be_listened_to(&self) -> bool {
        // Other processes find commits by polling.
        false
    }

    async fn announce(&self, _: &[CommitScope]) -> Attempt<()> {
        Ok(())
    }
}

impl MySql {
    /// Records that the feed of an app was read. Its commits were numbered up to this position.
    pub(super) fn watched(&self, app: &str, end: u64) {
        let mut watched = self.watched.lock();
        if !watched.contains_key(app) {
            watched.insert(app.to_owned(), end);
        }
    }

    /// Returns the owners of the commits that were not reported yet, in the feeds that are followed.
    async fn unreported(&self, notifier: &CommitNotifier) -> Attempt<HashSet<CommitScope>> {
        let followed: HashMap<String, u64> = {
            let watched = self.watched.lock();
            let followed = watched.iter().filter(|(app, _)| notifier.is_followed(app));
            followed.map(|(app, reported)| (app.clone(), *reported)).collect()
        };
        let mut all = HashSet::new();
        for app in self.feeds_with_more(&followed).await? {
            // The commits are numbered first, so that a position shows which commits were reported.
            self.number_all(&app).await?;
            let reported = followed.get(&app).copied().unwrap_or_default();
            let (scopes, reported) = self.unreported_in(&app, reported).await?;
            self.watched.lock().insert(app, reported);
            all.extend(scopes);
        }
        Ok(all)
    }

    /// Returns which of these apps have commits without a number, or with a number above the last reported one.
    async fn feeds_with_more(&self, followed: &HashMap<String, u64>) -> Attempt<Vec<String>> {
        let feeds: Vec<_> = followed.iter().collect();
        let Some(feeds) = json(&feeds)? else {
            return Ok(Vec::new());
        };
        let pending = |table| {
            format!(
                "EXISTS (SELECT 1 FROM `{{prefix}}{table}` AS t FORCE INDEX ({table}_by_feed)
                 WHERE t.app_name = j.app_name AND t.feed_position = -1)"
            )
        };
        let sql = format!(
            "SELECT j.app_name FROM JSON_TABLE(?, '$[*]' COLUMNS (
                 app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                 reported BIGINT PATH '$[1]' ERROR ON ERROR
             )) AS j
             WHERE {} OR {} OR {} OR {} OR EXISTS (
                 SELECT 1 FROM `{{prefix}}feeds` AS f FORCE INDEX (PRIMARY)
                 WHERE f.app_name = j.app_name AND f.position > j.reported
             )",
            pending("events"),
            pending("state_commits"),
            pending("initial_states"),
            pending("removals"),
        );
        let rows = self.read(&sql, vec![feeds.into()]).await?;
        let place = || "a feed that is followed".to_owned();
        Ok(rows.into_iter().map(|row| RowCells::from(row).text(0, place)).collect::<Result<_>>()?)
    }

    /// Returns the owners of the commits in an app's feed that come after what was reported, and the last position.
    async fn unreported_in(&self, app: &str, reported: u64) -> Attempt<(HashSet<CommitScope>, u64)> {
        let tables = [
            ("state_commits", "scope, user_id, NULL"),
            ("initial_states", "NULL, user_id, session_id"),
            ("events", "NULL, user_id, session_id"),
            ("removals", "NULL, user_id, session_id"),
        ];
        let mut sql = "SELECT COALESCE((SELECT position FROM `{prefix}feeds` WHERE app_name = ?), 0) AS place,
                 NULL AS scope, NULL AS user_id, NULL AS session_id"
            .to_owned();
        let mut values = vec![Value::from(app)];
        for (table, columns) in tables {
            sql += &format!(
                " UNION ALL (SELECT -1, {columns} FROM `{{prefix}}{table}` FORCE INDEX ({table}_by_feed)
                 WHERE app_name = ? AND feed_position > ? ORDER BY feed_position LIMIT {COMMITS})"
            );
            values.extend([app.into(), number(reported)]);
        }
        let rows = self.read(&sql, values).await?;
        let place = || format!("the feed of {app:?}");
        let mut scopes = HashSet::new();
        let mut end = reported;
        let count = rows.len();
        for row in rows {
            let mut cells = RowCells::from(row);
            if let Ok(position) = rows::number(cells.integer(0, place)?, place) {
                end = position;
                continue;
            }
            scopes.insert(scope_of(app, &mut cells, place)?);
        }
        // There may be more commits than were read.
        if count > COMMITS {
            scopes = HashSet::from([CommitScope::all_of(&StateOwner::app(app)?)]);
        }
        Ok((scopes, end))
    }

    /// Returns the followed sessions whose numbers have changed since the last check.
    async fn moved_sessions(&self, notifier: &CommitNotifier, numbers: &mut LastNumbers) -> Attempt<Vec<CommitScope>> {
        let sessions = notifier.followed().into_iter().filter_map(|followed| match followed {
            Followed::Session(key) => Some(key),
            Followed::Owner(_) => None,
        });
        let sessions: Vec<_> = sessions.collect();
        let mut found = LastNumbers::with_capacity(sessions.len());
        for some in sessions.chunks(SESSIONS_AT_ONCE) {
            self.numbers_of(some, &mut found).await?;
        }
        // A session that is checked for the first time may have changed since it was read.
        let moved = found.iter().filter(|(key, number)| numbers.get(key) != Some(number));
        let scopes = moved.map(|(key, _)| CommitScope::session(key)).collect();
        *numbers = found;
        Ok(scopes)
    }

    async fn numbers_of(&self, sessions: &[SessionKey], found: &mut LastNumbers) -> Attempt<()> {
        let names: Vec<_> = sessions.iter().map(|key| [key.app_name(), key.user_id(), key.session_id()]).collect();
        let Some(names) = json(&names)? else {
            return Ok(());
        };
        let sql = "SELECT s.app_name, s.user_id, s.id, s.seq, s.create_time FROM JSON_TABLE(?, '$[*]' COLUMNS (
                 app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                 user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                 id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR
             )) AS j
             STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                 ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.id
             WHERE s.expire_time IS NULL OR s.expire_time > ?";
        let rows = self.read(sql, vec![names.into(), self.now().into()]).await?;
        found.extend(sessions.iter().map(|key| (key.clone(), None)));
        for row in rows {
            let mut cells = RowCells::from(row);
            let place = || "a session that is followed".to_owned();
            let key = stored_key(&cells.text(0, place)?, &cells.text(1, place)?, &cells.text(2, place)?)?;
            found.insert(key, Some((cells.integer(3, place)?, cells.integer(4, place)?)));
        }
        Ok(())
    }
}

fn scope_of(app: &str, cells: &mut RowCells, place: impl Fn() -> String + Copy) -> Result<CommitScope> {
    let scope = cells.optional_text(1, place)?;
    let user = cells.text(2, place)?;
    Ok(match cells.optional_text(3, place)? {
        // This is the removal of a user.
        Some(session) if session.is_empty() => CommitScope::all_of(&StateOwner::user(app, &user)?),
        Some(session) => CommitScope::session(&stored_key(app, &user, &session)?),
        None if scope.as_deref() == Some(Scope::App.as_str()) => CommitScope::owner(&StateOwner::app(app)?),
        None => CommitScope::owner(&StateOwner::user(app, &user)?),
    })
}

fn deaf(error: &scratchbook_core::error::Error) {
    tracing::debug!(%error, "cannot look for the commits of other processes");
}
