//! The change feed of an app: all commits, in an order that keeps the order of each session, user and app.
//!
//! A commit does not number its entries in the feed, because concurrent commits would have to wait for each other.
//! Instead, reading the feed assigns numbers to the commits that have none yet. The statement that reads these commits
//! sees, together with a commit, all earlier commits to the same session, user or app. It orders them by the positions
//! of the logs and by the events' own numbers. Commits that are numbered later come later in the feed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use async_trait::async_trait;
use mysql_async::{Row, Value};

use super::MySql;
use super::batch::json;
use super::events::{number, sql_limit};
use super::lease::Lease;
use super::removals::removal;
use super::row::RowCells;
use super::state_log::{COLUMNS, change_of};
use scratchbook_core::error::Result;
use scratchbook_core::plan::feed::{Feed, FeedPlace, ahead};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::{damaged, stored_key};
use scratchbook_core::session::{FeedCommit, FeedPage, FeedStart, StateOwner};
use scratchbook_core::state::Scope;
use scratchbook_database::{Attempt, Feeds, Idempotency, RowRoom};

/// The maximum number of commits that one transaction numbers.
const AT_ONCE: usize = 1000;

/// The kind of a row. Rows at the same position in the user's and the app's log come in this order: a removal comes
/// before the next session or user of the same name.
const REMOVED: i64 = -1;
const STATE: i64 = 1;
const CREATED: i64 = 2;
const EVENT: i64 = 3;

/// A page as it was read: commits by their positions, with `None` for those that have been pruned.
struct FeedRead {
    commits: BTreeMap<u64, Option<FeedCommit>>,
    /// The last number in the feed.
    end: u64,
    /// Whether there are commits without a number.
    pending: bool,
    /// The position up to which the records of removals were deleted.
    let_go: u64,
}

#[async_trait]
impl Feeds for MySql {
    async fn feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize, room: RowRoom) -> Attempt<FeedPage> {
        let feed = Feed::new(self.database_id().await?, owner);
        let app = owner.app_name();
        let mut after = match start {
            FeedStart::Beginning => None,
            FeedStart::Now => {
                self.number_all(app).await?;
                let end = self.read_entries(owner, u64::MAX, 1, RowRoom::WHOLE).await?.end;
                self.watched(app, end);
                return Ok(FeedPage::new(Vec::new(), feed.cursor(&FeedPlace::after(end).to_string())));
            }
            FeedStart::After(cursor) => Some(FeedPlace::parse(feed.place(cursor)?)?),
        };
        loop {
            let from = after.map_or(0, |after| after.position);
            let FeedRead { commits, end, pending, let_go } = self.read_entries(owner, from, limit, room).await?;
            if from > end {
                return Err(ahead().into());
            }
            let place = after.unwrap_or(FeedPlace { since: end, ..FeedPlace::default() });
            place.check(let_go)?;
            let is_full = commits.len() >= limit;
            let last = commits.keys().nth(limit - 1).or(commits.keys().next_back()).copied();
            let found = commits.into_iter().take(limit).filter_map(|(at, commit)| Some((at, commit?)));
            let page = feed.page(FeedPlace { taken: usize::MAX, ..place }, found, limit);
            if !page.entries.is_empty() {
                self.watched(app, end);
                return Ok(page);
            }
            if is_full {
                // All commits of this page were pruned.
                after = Some(FeedPlace { position: last.unwrap_or(from), ..place });
            } else if pending {
                self.number_some(app).await?;
            } else {
                self.watched(app, end);
                return Ok(FeedPage::new(Vec::new(), feed.cursor(&FeedPlace::after(end).to_string())));
            }
        }
    }
}

impl MySql {
    /// Reads the entries with a number above `after`, at most `limit` of each kind.
    async fn read_entries(&self, owner: &StateOwner, after: u64, limit: usize, room: RowRoom) -> Attempt<FeedRead> {
        let app = Value::from(owner.app_name());
        let user = owner.user_id().map(Value::from);
        let of_user = |alias: &str| user.as_ref().map_or_else(String::new, |_| format!("AND {alias}.user_id = ?"));
        let feed = if user.is_some() { "user_feed" } else { "feed" };
        let of_scope = if user.is_some() { "AND c.scope = 'user'" } else { "" };
        let sql = format!(
            "SELECT 0 AS kind, COALESCE((SELECT position FROM `{{prefix}}feeds` WHERE app_name = ?), 0) AS place,
                 NULL AS scope, NULL AS user_id, NULL AS id, {PENDING} AS position, NULL AS `key`,
                 COALESCE((SELECT position FROM `{{prefix}}removal_ends` WHERE app_name = ?), 0) AS version, NULL AS value, NULL AS session_user, NULL AS session_id, NULL AS seq, NULL AS event_id,
                 NULL AS author, NULL AS time
             UNION ALL SELECT {STATE}, c.feed_position, c.scope, c.user_id, NULL, {COLUMNS} FROM (
                 SELECT c.scope, c.user_id, c.position, c.feed_position
                 FROM `{{prefix}}state_commits` AS c FORCE INDEX (state_commits_by_{feed})
                 WHERE c.app_name = ? AND c.feed_position > ? {of_scope} {}
                 ORDER BY c.feed_position LIMIT ?
             ) AS c
             LEFT JOIN `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
                 ON l.app_name = ? AND l.scope = c.scope AND l.user_id = c.user_id AND l.position = c.position
             UNION ALL (SELECT {CREATED}, i.feed_position, NULL, i.user_id, i.session_id, i.forked_at, NULL, 0, i.state,
                     NULL, NULL, NULL, NULL, NULL, NULL
                 FROM `{{prefix}}initial_states` AS i FORCE INDEX (initial_states_by_{feed})
                 STRAIGHT_JOIN `{{prefix}}sessions` AS s FORCE INDEX (PRIMARY)
                     ON s.app_name = i.app_name AND s.user_id = i.user_id AND s.id = i.session_id
                     AND (s.expire_time IS NULL OR s.expire_time > ?)
                 WHERE i.app_name = ? AND i.feed_position > ? {}
                 ORDER BY i.feed_position LIMIT ?)
             UNION ALL (SELECT {EVENT}, e.feed_position, NULL, e.user_id, e.session_id, e.seq, NULL, 0, e.event,
                     NULL, NULL, NULL, NULL, NULL, NULL
                 FROM `{{prefix}}events` AS e FORCE INDEX (events_by_{feed})
                 STRAIGHT_JOIN `{{prefix}}sessions` AS s FORCE INDEX (PRIMARY)
                     ON s.app_name = e.app_name AND s.user_id = e.user_id AND s.id = e.session_id
                     AND (s.expire_time IS NULL OR s.expire_time > ?)
                 WHERE e.app_name = ? AND e.feed_position > ? {}
                 ORDER BY e.feed_position LIMIT ?)
             UNION ALL (SELECT {REMOVED}, r.feed_position, NULL, r.user_id, r.session_id, r.count, NULL, r.time, r.kind,
                     NULL, NULL, NULL, NULL, NULL, NULL
                 FROM `{{prefix}}removals` AS r FORCE INDEX (removals_by_{feed})
                 WHERE r.app_name = ? AND r.feed_position > ? {}
                 ORDER BY r.feed_position LIMIT ?)",
            of_user("c"),
            of_user("i"),
            of_user("e"),
            of_user("r"),
        );
        let now = Value::from(self.now());
        let limit = sql_limit(limit);
        let user = user.as_slice();
        let place = [app.clone(), number(after)];
        let end = [limit];
        let head = [&app; 6].map(Clone::clone);
        let of_app = [app];
        let now = [now];
        let created = [&now[..], &place, user, &end].concat();
        let removed = [&place[..], user, &end].concat();
        let values = [&head[..], &place, user, &end, &of_app, &created, &created, &removed];
        let rows = self.read_within(&sql, values.concat(), room, |_| true).await?;
        Ok(read(owner, rows)?)
    }

    /// Numbers all commits of an app that have no number yet.
    pub(super) async fn number_all(&self, app: &str) -> Attempt<()> {
        while self.number_some(app).await? == AT_ONCE {}
        Ok(())
    }

    /// Numbers commits of an app that have no number yet, up to the maximum of one transaction, and returns how many.
    async fn number_some(&self, app: &str) -> Attempt<usize> {
        let of_app = Value::from(app);
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        let lock = self.sql(
            "INSERT INTO `{prefix}feeds` (app_name, position) VALUES (?, 0)
             ON DUPLICATE KEY UPDATE position = `{prefix}feeds`.position",
        );
        lease.rows(&lock, vec![of_app.clone()]).await?;
        // One row more of each kind is read than can be numbered, so that all unread rows come after the numbered rows.
        let limit = sql_limit(AT_ONCE + 1);
        let sql = self.sql(&format!(
            "SELECT 0 AS kind, position AS app_position, 0 AS user_position, NULL AS user_id, NULL AS id, NULL AS scope,
                 0 AS number
             FROM `{{prefix}}feeds` WHERE app_name = ?
             UNION ALL (SELECT {STATE}, c.app_position, c.user_position, IF(c.scope = 'user', c.user_id, COALESCE((
                     SELECT l.session_user FROM `{{prefix}}state_log` AS l FORCE INDEX (PRIMARY)
                     WHERE l.app_name = c.app_name AND l.scope = 'app' AND l.user_id = '' AND l.position = c.position
                     LIMIT 1
                 ), '')), c.user_id, c.scope, c.position
                 FROM `{{prefix}}state_commits` AS c FORCE INDEX (state_commits_by_feed)
                 WHERE c.app_name = ? AND c.feed_position = -1 ORDER BY c.app_position, c.user_position LIMIT ?)
             UNION ALL (SELECT {CREATED}, app_position, user_position, user_id, session_id, NULL, 0
                 FROM `{{prefix}}initial_states` FORCE INDEX (initial_states_by_feed)
                 WHERE app_name = ? AND feed_position = -1 ORDER BY app_position, user_position LIMIT ?)
             UNION ALL (SELECT {EVENT}, app_position, user_position, user_id, session_id, NULL, seq
                 FROM `{{prefix}}events` FORCE INDEX (events_by_feed)
                 WHERE app_name = ? AND feed_position = -1 ORDER BY app_position, user_position LIMIT ?)
             UNION ALL (SELECT {REMOVED}, app_position, user_position, user_id, session_id, NULL, pruned
                 FROM `{{prefix}}removals` FORCE INDEX (removals_by_feed)
                 WHERE app_name = ? AND feed_position = -1 ORDER BY app_position, user_position LIMIT ?)"
        ));
        let some = [of_app.clone(), limit];
        let rows = lease.rows(&sql, [std::slice::from_ref(&of_app), &some, &some, &some, &some].concat()).await?;
        let mut commits = rows.into_iter().map(Unnumbered::read).collect::<Result<Vec<_>>>()?;
        commits.sort();
        // The first row has the last number in the feed.
        let position = commits.first().map_or(0, |feed| feed.app_position);
        let commits: Vec<_> = commits.iter().skip(1).take(AT_ONCE).collect();
        if commits.is_empty() {
            lease.rollback().await?;
            return Ok(0);
        }
        self.write_numbers(&mut lease, app, position, &commits).await?;
        lease.commit().await?;
        Ok(commits.len())
    }

    async fn write_numbers(&self, lease: &mut Lease<'_>, app: &str, from: i64, commits: &[&Unnumbered]) -> Attempt<()> {
        let tables = [
            (STATE, "state_commits", "t.scope = j.scope AND t.user_id = j.id AND t.position = j.number"),
            (CREATED, "initial_states", "t.user_id = j.user_id AND t.session_id = j.id"),
            (EVENT, "events", "t.user_id = j.user_id AND t.session_id = j.id AND t.seq = j.number"),
            (REMOVED, "removals", "t.user_id = j.user_id AND t.session_id = j.id AND t.pruned = j.number"),
        ];
        for (kind, table, which) in tables {
            let numbered = commits.iter().zip(from + 1..).filter(|(commit, _)| commit.kind == kind);
            let numbered: Vec<_> = numbered.map(|(c, n)| (n, &c.scope, &c.user_id, &c.id, c.number)).collect();
            let Some(numbered) = json(&numbered)? else {
                continue;
            };
            let sql = self.sql(&format!(
                "UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                     n BIGINT PATH '$[0]' ERROR ON ERROR,
                     scope VARCHAR(4) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                     user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                     id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[3]' ERROR ON ERROR,
                     number BIGINT PATH '$[4]' ERROR ON ERROR
                 )) AS j
                 STRAIGHT_JOIN `{{prefix}}{table}` AS t FORCE INDEX (PRIMARY) ON t.app_name = ? AND {which}
                 SET t.feed_position = j.n"
            ));
            lease.renew();
            lease.rows(&sql, vec![numbered.into(), app.into()]).await?;
        }
        let sql = self.sql("UPDATE `{prefix}feeds` SET position = position + ? WHERE app_name = ?");
        lease.rows(&sql, vec![(commits.len() as i64).into(), app.into()]).await.map(drop)
    }

    /// Returns the id of this database.
    async fn database_id(&self) -> Attempt<&str> {
        let read = async {
            let rows = self.read("SELECT id FROM `{prefix}database_id`", Vec::new()).await?;
            let row = rows.into_iter().next().ok_or_else(|| damaged("the id of the database"))?;
            Attempt::Ok(RowCells::from(row).text(0, || "the id of the database".to_owned())?)
        };
        self.id.get_or_try_init(|| read).await.map(String::as_str)
    }
}

/// Whether an app has commits without a number. The app's name is needed four times.
const PENDING: &str = "(
    EXISTS (SELECT 1 FROM `{prefix}events` FORCE INDEX (events_by_feed) WHERE app_name = ? AND feed_position = -1)
    OR EXISTS (SELECT 1 FROM `{prefix}state_commits` FORCE INDEX (state_commits_by_feed)
        WHERE app_name = ? AND feed_position = -1)
    OR EXISTS (SELECT 1 FROM `{prefix}initial_states` FORCE INDEX (initial_states_by_feed)
        WHERE app_name = ? AND feed_position = -1)
    OR EXISTS (SELECT 1 FROM `{prefix}removals` FORCE INDEX (removals_by_feed)
        WHERE app_name = ? AND feed_position = -1)
)";

/// A commit without a number. `Ord` is the order in which commits are numbered.
#[derive(Debug, PartialEq, Eq)]
struct Unnumbered {
    kind: i64,
    app_position: i64,
    user_position: i64,
    /// The user to whom the session or the keys belong.
    user_id: String,
    /// The id of the session; for state, the id of the user who owns the keys.
    id: String,
    scope: Option<String>,
    number: i64,
}

impl Unnumbered {
    fn read(row: Row) -> Result<Self> {
        let mut cells = RowCells::from(row);
        let place = || "a commit without a number in the feed".to_owned();
        Ok(Self {
            kind: cells.integer(0, place)?,
            app_position: cells.integer(1, place)?,
            user_position: cells.integer(2, place)?,
            user_id: cells.optional_text(3, place)?.unwrap_or_default(),
            id: cells.optional_text(4, place)?.unwrap_or_default(),
            scope: cells.optional_text(5, place)?,
            number: cells.integer(6, place)?,
        })
    }
}

impl Ord for Unnumbered {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |c: &Self| (c.kind != 0, c.app_position, c.user_position);
        // Within one creation, the user's keys come before the app's.
        let scope = |c: &Self| c.scope.as_deref() == Some(Scope::App.as_str());
        place(self).cmp(&place(other)).then_with(|| {
            let a = self;
            let b = other;
            (&a.user_id, a.kind, scope(a), &a.id, a.number).cmp(&(&b.user_id, b.kind, scope(b), &b.id, b.number))
        })
    }
}

impl PartialOrd for Unnumbered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn read(owner: &StateOwner, rows: Vec<Row>) -> Result<FeedRead> {
    let app = owner.app_name();
    let place = || format!("the feed of {app:?}");
    let mut found = FeedRead { commits: BTreeMap::new(), end: 0, pending: false, let_go: 0 };
    for row in rows {
        let mut cells = RowCells::from(row);
        let kind = cells.integer(0, place)?;
        let at = rows::number(cells.integer(1, place)?, place)?;
        match kind {
            STATE => {
                let of_app = cells.optional_text(2, place)?.as_deref() == Some(Scope::App.as_str());
                let user = cells.text(3, place)?;
                let of = if of_app { StateOwner::app(app) } else { StateOwner::user(app, &user) };
                let of = of.map_err(|e| damaged(place()).with_source(e))?;
                let commit = found.commits.entry(at).or_insert(None);
                // If a row has no key, its changes were pruned.
                if cells.integer(5, place).is_ok() {
                    let change = change_of(&of, of.scope(), &mut cells, 5)?;
                    match commit {
                        Some(FeedCommit::State { changes, .. }) => changes.push(change),
                        _ => *commit = Some(FeedCommit::State { owner: of, changes: vec![change] }),
                    }
                }
            }
            CREATED => {
                let session = stored_key(app, &cells.text(3, place)?, &cells.text(4, place)?)?;
                let forked_at = cells.integer(5, place).ok().map(|at| rows::number(at, place)).transpose()?;
                let of = || format!("the state where {session} begins");
                let state = rows::json(&cells.text(8, of)?, of)?;
                found.commits.insert(at, Some(FeedCommit::Created { session, state, forked_at }));
            }
            EVENT => {
                let session = stored_key(app, &cells.text(3, place)?, &cells.text(4, place)?)?;
                let seq = cells.integer(5, place)?;
                let text = cells.text(8, || format!("the event {seq} of {session}"))?;
                let event = rows::event(seq, &text, &session)?;
                found.commits.insert(at, Some(FeedCommit::Event { session, event }));
            }
            REMOVED => {
                found.commits.insert(at, Some(FeedCommit::Removed(removal(app, &mut cells)?)));
            }
            _ => {
                found.end = at;
                found.let_go = rows::number(cells.integer(7, place)?, place)?;
                found.pending = cells.integer(5, place)? != 0;
            }
        }
    }
    for commit in found.commits.values_mut().flatten() {
        if let FeedCommit::State { changes, .. } = commit {
            changes.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    Ok(found)
}
