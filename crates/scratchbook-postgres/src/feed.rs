//! The change feed: the commits between two snapshots.
//!
//! A cursor has a snapshot that contains everything that was read. A cursor in the middle of a window also has the
//! snapshot at the window's end and a position.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::Postgres;
use super::read::{column, sql_limit};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::feed::{Feed, FeedPlace, too_old};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::session::{FeedCommit, FeedEntry, FeedPage, FeedStart, Removal, StateChange, StateOwner};
pub(crate) use scratchbook_database::{Attempt, Feeds, RowRoom};

/// A snapshot that contains nothing: all transactions have higher numbers.
const NOTHING: &str = "3:3:";

/// A number above the maximum number of rows with the same position. The creation of a session has the most such rows.
const AT_ONE_PLACE: usize = 4;

/// The rows to read: the snapshot `to` shows them, the snapshot `from` does not, and they come after a position.
/// Without `to`, the rows that are visible now are read.
#[derive(Debug, PartialEq)]
struct Window {
    from: String,
    to: Option<String>,
    place: FeedPlace,
}

/// The part of a window that one statement has read.
struct WindowPart {
    to: String,
    now: String,
    /// The last position that was read; `None` if the whole window was read.
    last: Option<u64>,
    /// Whether this reader may have missed a removal whose record was dropped.
    is_too_old: bool,
    /// The commits in the order of their positions.
    commits: Vec<(u64, FeedCommit)>,
}

#[async_trait]
impl Feeds for Postgres {
    async fn feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize, room: RowRoom) -> Attempt<FeedPage> {
        let feed = Feed::new(self.database_id().await?, owner);
        let mut window = match start {
            FeedStart::Now => {
                let rows = self.read(&self.statements.feed.now, &[&owner.app_name()]).await?;
                let row = rows.first().ok_or_else(|| Error::internal("the server has no snapshot"))?;
                let now: &str = column(row, 0, || "a snapshot".to_owned())?;
                return Ok(FeedPage::new(Vec::new(), feed.cursor(now)));
            }
            FeedStart::Beginning => Window::after(NOTHING),
            FeedStart::After(cursor) => Window::parse(feed.place(cursor)?)?,
        };
        loop {
            let part = self.read_window(owner, &window, limit, room).await?;
            window.check(&part.now)?;
            if part.is_too_old {
                return Err(too_old().into());
            }
            let page = window.page(&feed, &part, limit);
            let is_over = part.last.is_none() && window.to.is_none();
            if !page.entries.is_empty() || is_over {
                return Ok(page);
            }
            window = match part.last {
                // All of these rows were returned by earlier pages.
                Some(last) => Window { to: Some(part.to), place: FeedPlace::after(last), ..window },
                None => Window::after(&part.to),
            };
        }
    }
}

impl Postgres {
    async fn read_window(
        &self,
        owner: &StateOwner,
        window: &Window,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<WindowPart> {
        let app = owner.app_name();
        let user = owner.user_id();
        let from = match window.place.taken {
            usize::MAX => window.place.position.saturating_add(1),
            _ => window.place.position,
        };
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let rows = sql_limit(limit + AT_ONE_PLACE + 1);
        // The first position is unknown only if the window has not been started.
        let is_new = window.to.is_none() && window.from != NOTHING;
        let feed = &self.statements.feed;
        let pages = if user.is_some() { &feed.of_user } else { &feed.of_app };
        let statement = if is_new { &pages.begin } else { &pages.go_on };
        let now = self.now();
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&app, &user, &window.from, &window.to, &from, &rows, &i64::MAX, &now];
        let rows = self.read_within(statement, &params, room, |_| true).await?;
        Ok(WindowPart::new(app, rows)?)
    }

    /// Returns the id of the database, which is read once.
    async fn database_id(&self) -> Attempt<&str> {
        let id = self.database_id.get_or_try_init(|| async {
            let rows = self.read(&self.statements.feed.database_id, &[]).await?;
            let place = || "the id of the database".to_owned();
            let row = rows.first().ok_or_else(|| rows::damaged(place()))?;
            Ok::<_, scratchbook_database::Failure>(column(row, 0, place)?)
        });
        Ok(id.await?.as_str())
    }
}

impl Window {
    fn after(snapshot: &str) -> Self {
        Self { from: snapshot.to_owned(), to: None, place: FeedPlace::default() }
    }

    fn parse(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("'{text}' is no place in a feed; keep cursors as they are given"));
        let parts: Vec<_> = text.split('/').collect();
        let window = match parts[..] {
            [from] => Self::after(from),
            [from, to, place] => {
                Self { from: from.to_owned(), to: Some(to.to_owned()), place: FeedPlace::parse(place)? }
            }
            _ => return Err(bad()),
        };
        let snapshots = [Some(&window.from), window.to.as_ref()];
        if snapshots.into_iter().flatten().all(|snapshot| is_snapshot(snapshot)) { Ok(window) } else { Err(bad()) }
    }

    /// Refuses a cursor that is ahead of the database, for example because the database was restored from an earlier
    /// copy.
    fn check(&self, now: &str) -> Result<()> {
        let ahead = |snapshot: &String| end_of(snapshot) > end_of(now);
        if ahead(&self.from) || self.to.as_ref().is_some_and(ahead) {
            let message = "the cursor is ahead of the feed: it is of another database, or of a newer copy";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    fn page(&self, feed: &Feed, part: &WindowPart, limit: usize) -> FeedPage {
        let within = |place: FeedPlace| feed.cursor(&format!("{}/{}/{place}", self.from, part.to));
        let at_end = || feed.cursor(&part.to);
        let mut place = FeedPlace { taken: 0, ..self.place };
        let mut entries = Vec::new();
        let mut left = part.commits.len();
        for (position, commit) in &part.commits {
            if entries.len() == limit {
                break;
            }
            left -= 1;
            if *position != place.position {
                place = FeedPlace { position: *position, taken: 0, since: 0 };
            }
            place.taken = rank(commit);
            if *position == self.place.position && place.taken <= self.place.taken {
                continue;
            }
            let is_last = left == 0 && part.last.is_none();
            entries.push(FeedEntry::new(if is_last { at_end() } else { within(place) }, commit.clone()));
        }
        let cursor = entries.last().map_or_else(at_end, |entry| entry.cursor.clone());
        FeedPage::new(entries, cursor)
    }
}

impl WindowPart {
    fn new(app: &str, rows: Vec<Row>) -> Result<Self> {
        let mut part =
            Self { to: String::new(), now: String::new(), last: None, is_too_old: false, commits: Vec::new() };
        let mut states: Vec<(u64, StateOwner, StateChange)> = Vec::new();
        let mut others = Vec::new();
        let of = || format!("a row of the feed of {app}");
        for row in &rows {
            let kind: &str = column(row, 0, of)?;
            if kind == "window" {
                let last: Option<i64> = column(row, 1, of)?;
                part.last = last.map(|last| rows::number(last, of)).transpose()?;
                (part.to, part.now) = (column(row, 2, of)?, column(row, 3, of)?);
                part.is_too_old = column::<Option<i64>>(row, 4, of)?.is_some();
                continue;
            }
            let position = rows::number(column(row, 1, of)?, of)?;
            match kind {
                "event" | "created" => others.push((position, commit(row, kind, app)?)),
                "removed" => others.push((position, FeedCommit::Removed(removal(row, app)?))),
                scope => {
                    let owner = match scope {
                        "user" => StateOwner::user(app, column::<&str>(row, 2, of)?),
                        _ => StateOwner::app(app),
                    };
                    let owner = owner.map_err(|e| rows::damaged(of()).with_source(e))?;
                    states.push((position, owner, state_change(row, position, app)?));
                }
            }
        }
        part.commits = in_order(states, others);
        Ok(part)
    }
}

fn commit(row: &Row, kind: &str, app: &str) -> Result<FeedCommit> {
    let of = || format!("a row of the feed of {app}");
    let session = stored_key(app, column(row, 2, of)?, column(row, 3, of)?)?;
    let text: &str = column(row, 5, of)?;
    if kind == "event" {
        let event = rows::event(column(row, 4, of)?, text, &session)?;
        return Ok(FeedCommit::Event { session, event });
    }
    let place = || format!("the initial state of {session}");
    let state = rows::json(text, place)?;
    let forked_at: Option<i64> = column(row, 4, place)?;
    let forked_at = forked_at.map(|seq| rows::number(seq, place)).transpose()?;
    Ok(FeedCommit::Created { session, state, forked_at })
}

fn removal(row: &Row, app: &str) -> Result<Removal> {
    let of = || format!("a removal in the feed of {app}");
    let names = [column(row, 2, of)?, column(row, 3, of)?, column(row, 5, of)?];
    rows::removal(app, names, rows::number(column(row, 4, of)?, of)?, column(row, 9, of)?)
}

fn state_change(row: &Row, position: u64, app: &str) -> Result<StateChange> {
    let of = || format!("the log of {app} at position {position}");
    let value: Option<&str> = column(row, 5, of)?;
    let value = value.map(|text| rows::json(text, of)).transpose()?;
    let version = rows::number(column(row, 7, of)?, of)?;
    let change = StateChange::new(position, column::<String>(row, 6, of)?, version, value);
    let change = change.with_author(column::<String>(row, 8, of)?, column(row, 9, of)?);
    let session: (Option<&str>, Option<&str>) = (column(row, 10, of)?, column(row, 3, of)?);
    Ok(match session {
        (Some(user), Some(session)) => {
            let seq = rows::number(column(row, 4, of)?, of)?;
            change.with_origin(stored_key(app, user, session)?, seq, "")
        }
        _ => change,
    })
}

/// Returns the rank of a commit among the commits at one position. The rank does not depend on commits that were
/// removed in the meantime.
fn rank(commit: &FeedCommit) -> usize {
    match commit {
        FeedCommit::State { owner, .. } if owner.user_id().is_some() => 1,
        FeedCommit::State { .. } => 2,
        FeedCommit::Created { .. } => 3,
        _ => 4,
    }
}

/// Sorts by position. Within one position the user's keys come first, then the app's, then the session.
fn in_order(mut states: Vec<(u64, StateOwner, StateChange)>, others: Vec<(u64, FeedCommit)>) -> Vec<(u64, FeedCommit)> {
    let is_app = |owner: &StateOwner| owner.user_id().is_none();
    states.sort_by(|(a, of_a, left), (b, of_b, right)| {
        (a, is_app(of_a), &left.name).cmp(&(b, is_app(of_b), &right.name))
    });
    let mut commits: Vec<(u64, FeedCommit)> = Vec::new();
    for (position, owner, change) in states {
        match commits.last_mut() {
            Some((same, FeedCommit::State { owner: of, changes })) if *same == position && *of == owner => {
                changes.push(change);
            }
            _ => commits.push((position, FeedCommit::State { owner, changes: vec![change] })),
        }
    }
    commits.extend(others);
    // The sort is stable, so that the order within a position is kept.
    commits.sort_by_key(|(position, _)| *position);
    commits
}

/// Returns whether a text is a snapshot in PostgreSQL's format `xmin:xmax:xip,xip,...`.
fn is_snapshot(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number > 0 && !text.starts_with('+'));
    let &[from, to, running] = &parts[..] else {
        return false;
    };
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        return false;
    };
    let mut last = from - 1;
    let rising = |running: &str| {
        let next = number(running).filter(|next| *next > last && *next < to);
        last = next.unwrap_or(to);
        next.is_some()
    };
    from <= to && (running.is_empty() || running.split(',').all(rising))
}

/// Returns the first transaction that is newer than a snapshot.
fn end_of(snapshot: &str) -> i64 {
    snapshot.split(':').nth(1).and_then(|end| end.parse().ok()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Window, is_snapshot};

    #[test]
    fn what_is_no_place_is_refused() {
        for good in ["3:3:", "10:20:10,14,19", "5:9:", "3:3:/10:20:12/4096.2", "3:3:/10:20:/4096.all"] {
            assert!(Window::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "3", "3:3", "0:3:", "9:3:", "3:9:9", "3:9:5,4", "3:9:x", "3:3:/4:4:", "3:3:/4:4:/x", "+3:4:"] {
            assert!(Window::parse(bad).is_err(), "{bad}");
        }
        assert!(!is_snapshot("3:9:2"), "before the first that ran");
    }
}
