//! The change feed. Positions are in commit order, so a page consists of the entries after a position.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::error::Fallible;
use super::events;
use super::removals;
use super::retention::no_session_expired;
use super::row::{decode, lossy, named, number, sql_number, text_length};
use super::state_log::{CHANGE, change};
use scratchbook_core::plan::feed::{Feed, FeedPlace};
use scratchbook_core::plan::sql::rows::{damaged, stored_key};
use scratchbook_core::session::{FeedCommit, FeedPage, FeedStart, StateChange, StateOwner};

/// Roughly how many bytes are read for one page, so that a page of large events does not fill the memory.
const PAGE_BYTES: u64 = 16 << 20;

/// At most three entries share a position: the user's keys, the app's keys, and a creation or an event.
const ENTRIES_AT_ONE: usize = 3;

/// Returns a page of an owner's feed, without sessions that have expired. `now` is in microseconds.
pub(super) fn page(
    connection: &Connection,
    owner: &StateOwner,
    start: &FeedStart,
    limit: usize,
    now: i64,
) -> Fallible<FeedPage> {
    let sql = "SELECT feed.position, database_id.id FROM feed, database_id";
    let found = connection.prepare_cached(sql)?.query_row([], |row| Ok((number(row, 0)?, row.get::<_, String>(1)?)));
    let (end, database) = named(found, || "the feed's position".to_owned())?;
    let feed = Feed::new(&database, owner);
    let after = feed.start_since(start, end, removals::deleted_until(connection, owner.app_name())?)?;
    let limit = limit.clamp(1, 1000);
    let reader = FeedReader { connection, owner, after, limit: limit + ENTRIES_AT_ONE, now };
    let parts = [reader.states()?, reader.created()?, reader.events()?, reader.removals()?];
    // If a table was not read completely, entries after the last position read there belong to the next page.
    let cut = parts.iter().filter_map(|part| part.end).min();
    let mut commits: Vec<_> = parts.into_iter().flat_map(|part| part.commits).collect();
    // The sort is stable: at one position, state changes come before a creation, and a creation before an event.
    commits.sort_by_key(|(position, _)| *position);
    commits.retain(|(position, _)| cut.is_none_or(|cut| *position <= cut));
    let mut page = feed.page(after, commits, limit);
    if page.entries.is_empty() {
        // The cursor moves past the commits of other owners, so that the next page need not scan them again.
        page.cursor = feed.cursor(&FeedPlace::after(end).to_string());
    }
    Ok(page)
}

/// The entries that one table contributes to a page.
#[derive(Default)]
struct TablePage {
    commits: Vec<(u64, FeedCommit)>,
    bytes: u64,
    /// The last position that was read completely, if the table may have more entries.
    end: Option<u64>,
}

struct FeedReader<'a> {
    connection: &'a Connection,
    owner: &'a StateOwner,
    after: FeedPlace,
    limit: usize,
    now: i64,
}

impl FeedReader<'_> {
    /// Returns the first position to read.
    fn from(&self) -> i64 {
        sql_number(self.after.position + u64::from(self.after.taken == usize::MAX))
    }

    /// Reads the state changes that were written outside of events.
    fn states(&self) -> Fallible<TablePage> {
        let (app, user) = (self.owner.app_name(), self.owner.user_id());
        let (index, of_user) = match user {
            Some(_) => ("state_log_of_user_without_event", "AND scope = 'user' AND user_id = ?3"),
            None => ("state_log_without_event", "AND ?3 IS NULL"),
        };
        // At one position, a user's keys come before the app's.
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {CHANGE}, scope, user_id FROM state_log INDEXED BY {index}
             WHERE app_name = ?1 AND position >= ?2 AND (seq IS NULL OR seq = 0) {of_user}
             ORDER BY position, scope DESC, user_id, key"
        ))?;
        let mut rows = statement.query(params![app, self.from(), user])?;
        let mut part = TablePage::default();
        let mut open: Option<(StateOwner, Vec<StateChange>)> = None;
        while let Some(row) = rows.next()? {
            let place = || format!("the log of {app} at position {}", row.get::<_, i64>(0).unwrap_or_default());
            let (scope, user): (String, String) = (named(row.get(10), place)?, named(row.get(11), place)?);
            let owner = if scope == "user" { StateOwner::user(app, &user) } else { StateOwner::app(app) };
            let owner = owner.map_err(|e| damaged(place()).with_source(e))?;
            part.bytes += text_length(row, 3);
            let change = change(row, &owner)?;
            if let Some((of, changes)) = &mut open
                && *of == owner
                && changes.last().is_some_and(|last| last.position == change.position)
            {
                changes.push(change);
                continue;
            }
            part.push_state(open.take());
            let is_next = part.commits.last().is_some_and(|(at, _)| *at < change.position);
            if is_next && part.is_full(self.limit) {
                return Ok(part);
            }
            open = Some((owner, vec![change]));
        }
        part.push_state(open);
        Ok(part)
    }

    /// Reads the sessions that were created with state of their own, or as forks.
    fn created(&self) -> Fallible<TablePage> {
        let (app, user) = (self.owner.app_name(), self.owner.user_id());
        let (index, of_user) = match user {
            Some(_) => ("initial_states_of_user", "AND user_id = ?4"),
            None => ("initial_states_by_position", "AND ?4 IS NULL"),
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT position, user_id, session_id, forked_at, state
             FROM initial_states AS made INDEXED BY {index}
             WHERE app_name = ?1 AND position >= ?2 {of_user} AND (forked_at IS NOT NULL OR state <> '{{}}') AND {}
             ORDER BY position LIMIT {}",
            no_session_expired("made", 3),
            self.limit + 1
        ))?;
        let mut rows = statement.query(params![app, self.from(), self.now, user])?;
        let mut part = TablePage::default();
        while let Some(row) = rows.next()? {
            let place = || format!("the session {app}/{}/{}", lossy(row, 1), lossy(row, 2));
            let position = named(number(row, 0), place)?;
            if part.is_full(self.limit) {
                break;
            }
            part.bytes += text_length(row, 4);
            let (user, id): (String, String) = (named(row.get(1), place)?, named(row.get(2), place)?);
            let session = stored_key(app, &user, &id)?;
            let forked_at = match row.get_ref(3)? {
                ValueRef::Null => None,
                _ => Some(named(number(row, 3), place)?),
            };
            let state = decode(row.get_ref(4)?, || format!("the state at the creation of {session}"))?;
            part.commits.push((position, FeedCommit::Created { session, state, forked_at }));
        }
        Ok(part)
    }

    /// Reads the removals of sessions, users and events.
    fn removals(&self) -> Fallible<TablePage> {
        let mut commits = removals::read(self.connection, self.owner, self.from(), self.limit + 1)?;
        let is_cut = commits.len() > self.limit;
        commits.truncate(self.limit);
        let end = commits.last().filter(|_| is_cut).map(|(position, _)| *position);
        Ok(TablePage { commits, bytes: 0, end })
    }

    /// Reads the events, except those that a fork copied.
    fn events(&self) -> Fallible<TablePage> {
        let (app, user) = (self.owner.app_name(), self.owner.user_id());
        let (index, of_user) = match user {
            Some(_) => ("events_of_user", "AND user_id = ?4"),
            None => ("events_of_app", "AND ?4 IS NULL"),
        };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT seq, event, position, user_id, session_id FROM events AS made INDEXED BY {index}
             WHERE position >= ?2 AND app_name = ?1 {of_user} AND log_position IS NULL AND {}
             ORDER BY position LIMIT {}",
            no_session_expired("made", 3),
            self.limit + 1
        ))?;
        let mut rows = statement.query(params![app, self.from(), self.now, user])?;
        let mut part = TablePage::default();
        while let Some(row) = rows.next()? {
            if part.is_full(self.limit) {
                break;
            }
            let place = || format!("the session {app}/{}/{}", lossy(row, 3), lossy(row, 4));
            let (user, id): (String, String) = (named(row.get(3), place)?, named(row.get(4), place)?);
            let session = stored_key(app, &user, &id)?;
            part.bytes += text_length(row, 1);
            let event = events::event(row, &session)?;
            part.commits.push((named(number(row, 2), place)?, FeedCommit::Event { session, event }));
        }
        Ok(part)
    }
}

impl TablePage {
    fn push_state(&mut self, state: Option<(StateOwner, Vec<StateChange>)>) {
        let Some((owner, changes)) = state else {
            return;
        };
        let position = changes.last().map_or(0, |change| change.position);
        self.commits.push((position, FeedCommit::State { owner, changes }));
    }

    /// Returns whether the part is full, so that the following entries go to the next page.
    fn is_full(&mut self, limit: usize) -> bool {
        let count = self.commits.len();
        if count >= limit || count > ENTRIES_AT_ONE && self.bytes > PAGE_BYTES {
            self.end = self.commits.last().map(|(position, _)| *position);
        }
        self.end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{SqliteOptions, SqliteSessionService};
    use scratchbook_core::event::Event;
    use scratchbook_core::session::CommitScope;
    use scratchbook_core::session::{CreateSessionConfig, FeedStart, SessionService, StateOwner};
    use serde_json::json;

    /// Reads a feed page that comes after this many events of another app and another user, and returns the shortest
    /// time of several reads.
    async fn page(foreign: i64, owner: &StateOwner) -> Duration {
        let folder = tempfile::tempdir().unwrap();
        let service = SqliteSessionService::open(folder.path().join("a.db"), SqliteOptions::default()).await.unwrap();
        for app in ["other", "app"] {
            let sql = foreign_events(app, foreign);
            service.write(CommitScope::Nothing, 0, move |tx| tx.execute_text(&sql, [])).await.unwrap();
        }
        let moved = "UPDATE feed SET position = (SELECT max(position) FROM events)";
        service.write(CommitScope::Nothing, 0, move |tx| tx.execute(moved, [])).await.unwrap();
        let events = (0..20).map(|n| Event::new("agent").with_timestamp(f64::from(n))).collect();
        let config = CreateSessionConfig::default().with_state(json!({"a": 1, "user:b": 1})).with_events(events);
        service.create_session("late", "alice", config.clone()).await.unwrap();
        service.create_session("app", "alice", config).await.unwrap();
        let mut best = Duration::MAX;
        for _ in 0..10 {
            let begun = Instant::now();
            let page = service.list_feed(owner, &FeedStart::Beginning, 10).await.unwrap();
            best = best.min(begun.elapsed());
            assert_eq!(page.entries.len(), 10);
        }
        best
    }

    fn foreign_events(app: &str, foreign: i64) -> String {
        format!(
            "INSERT INTO events (position, app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
                 event)
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {foreign})
             SELECT coalesce((SELECT max(position) FROM events), 0) + n, '{app}', 'bob', 's', n, 'e' || n, x'00', '', 'a', 1.0,
                 '{{}}'
             FROM n"
        )
    }

    #[tokio::test]
    async fn a_page_of_a_feed_costs_the_same_behind_many_events_of_others() {
        for owner in [StateOwner::user("app", "alice").unwrap(), StateOwner::app("late").unwrap()] {
            let (few, many) = (page(500, &owner).await, page(50_000, &owner).await);
            println!("{owner:?}: {few:?} behind 1,000, {many:?} behind 100,000");
            assert!(many < few * 10, "{few:?} behind 1,000 events of others, {many:?} behind 100,000");
        }
    }
}
