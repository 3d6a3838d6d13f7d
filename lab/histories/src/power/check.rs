//! Checks a database after a power cut.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::Connection;
use scratchbook::session::{FeedCommit, FeedStart, SessionServiceExt as _, StateOwner};
use scratchbook::{AppendOptions, Event, GetSessionConfig, Result, SessionService, SqliteSessionService, StateDelta};

use super::Durability;
use super::append::{APP, SESSIONS, USER, key, open, secret};

/// How many entries a page of the feed has.
const PAGE: usize = 500;

/// What was acknowledged before the power was cut.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged {
    /// Events, as [`stored`] writes them.
    pub(super) events: HashSet<String>,
    /// Sessions that were deleted.
    pub(super) deleted: Vec<String>,
    /// Copies of the database.
    pub(super) copies: Vec<String>,
    /// How many events were on the disk when the processes began.
    pub(super) at_least: usize,
}

impl Acknowledged {
    /// Adds what a process has printed. Other lines come from the runtime.
    pub(super) fn add(&mut self, printed: &str) {
        for line in printed.lines() {
            match line.split_once(' ') {
                Some(("stored", event)) => drop(self.events.insert(event.to_owned())),
                Some(("deleted", session)) => self.deleted.push(session.to_owned()),
                Some(("copied", copy)) => self.copies.push(copy.to_owned()),
                _ => {}
            }
        }
    }
}

/// What is found in a database.
#[derive(Clone, Debug, Default)]
pub(super) struct DatabaseContents {
    /// Events in the order of the feed, as [`stored`] writes them.
    pub(super) events: Vec<String>,
}

/// What was lost although it was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missing {
    pub(super) events: usize,
    pub(super) deletions: usize,
    /// Deletions whose text is still in a file, although nothing reads it there.
    pub(super) traces: usize,
}

/// Checks a database after a power cut. `whole` has all events, in their order, that would be there without the cut.
/// Returns what is there and what is missing, and adds to `violations` what no database may show.
pub(super) async fn check(
    path: &Path,
    setting: Durability,
    whole: &DatabaseContents,
    acknowledged: &Acknowledged,
    violations: &mut Vec<String>,
) -> (DatabaseContents, Missing) {
    let mut missing = Missing::default();
    for copy in &acknowledged.copies {
        if let Err(why) = check_copy(&path.with_file_name(copy), setting).await {
            violations.push(format!("the copy {copy} was acknowledged: {why}"));
        }
    }
    missing.traces = traces(path, &acknowledged.deleted);
    let read = read(path, setting, &acknowledged.deleted).await;
    let (found, deletions) = read.unwrap_or_else(|why| {
        violations.push(why.to_string());
        Default::default()
    });
    missing.deletions = deletions;
    if !whole.events.starts_with(&found.events) {
        let at = whole.events.iter().zip(&found.events).take_while(|(whole, found)| whole == found).count();
        violations.push(format!("the events are not the first of those committed: entry {at} differs"));
    }
    let there: HashSet<_> = found.events.iter().map(String::as_str).collect();
    missing.events = acknowledged.events.iter().filter(|event| !there.contains(event.as_str())).count();
    if setting == Durability::Full && (missing.events > 0 || missing.deletions > 0) {
        violations.push(format!("{} events and {} deletions were acknowledged", missing.events, missing.deletions));
    }
    if found.events.len() < acknowledged.at_least {
        let (at_least, there) = (acknowledged.at_least, found.events.len());
        violations.push(format!("{at_least} events were on the disk before, and {there} are there"));
    }
    if let Err(why) = is_whole(path) {
        violations.push(format!("SQLite: {why}"));
    }
    (found, missing)
}

/// Reads all events of a database.
pub(super) async fn found_in(path: &Path, setting: Durability) -> Result<DatabaseContents> {
    let service = open(path, setting).await?;
    let found = events_of(&service).await?;
    service.close().await?;
    Ok(found)
}

/// Reads and verifies everything, and writes to it. Also returns how many deletions are missing.
async fn read(path: &Path, setting: Durability, deleted: &[String]) -> Result<(DatabaseContents, usize)> {
    let service = open(path, setting).await?;
    let found = events_of(&service).await?;
    let mut counts = BTreeMap::<&str, u64>::new();
    for event in &found.events {
        *counts.entry(event.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    for session in SESSIONS {
        let key = key(USER, session)?;
        let count = counts.get(session).copied().unwrap_or_default();
        let Some(stored) = service.get_session(&key, &GetSessionConfig::default()).await? else {
            if count > 0 {
                return Err(damaged(format!("the feed has {count} events of the session {session}, which is missing")));
            }
            continue;
        };
        let numbers: Vec<_> = stored.events().iter().filter_map(|event| event.seq).collect();
        if stored.seq() != count || numbers != (1..=count).collect::<Vec<_>>() {
            return Err(damaged(format!("the session {session} has the numbers {numbers:?}, the feed {count} events")));
        }
        service.verify_session(&key).await?;
        let event = Event::new("agent").with_state_delta(StateDelta::new().with("user:after", count)?);
        let seq = service.append(&key, event, AppendOptions::default()).await?.event.seq;
        if seq != Some(count + 1) {
            return Err(damaged(format!("the next event of {session} has the number {seq:?} after {count}")));
        }
    }
    for owner in [StateOwner::app(APP)?, StateOwner::user(APP, USER)?] {
        service.verify_state(&owner).await?;
    }
    let mut missing = 0;
    for session in deleted {
        let config = GetSessionConfig::state_only();
        missing += usize::from(service.get_session(&key(super::append::GONE, session)?, &config).await?.is_some());
    }
    service.close().await?;
    Ok((found, missing))
}

async fn events_of(service: &SqliteSessionService) -> Result<DatabaseContents> {
    let owner = StateOwner::user(APP, USER)?;
    let (mut found, mut start) = (DatabaseContents::default(), FeedStart::Beginning);
    loop {
        let page = service.list_feed(&owner, &start, PAGE).await?;
        if page.entries.is_empty() {
            return Ok(found);
        }
        for entry in page.entries {
            if let FeedCommit::Event { session, event } = &entry.commit {
                found.events.push(format!("{} {} {}", session.session_id(), event.seq.unwrap_or_default(), event.id));
            }
        }
        start = FeedStart::After(page.cursor);
    }
}

async fn check_copy(path: &Path, setting: Durability) -> Result<()> {
    if !path.exists() {
        return Err(damaged("there is no such file".to_owned()));
    }
    let service = open(path, setting).await?;
    for session in SESSIONS {
        service.verify_session(&key(USER, session)?).await?;
    }
    service.close().await?;
    is_whole(path)
}

/// Asks SQLite whether a database is whole. No process may have it open.
fn is_whole(path: &Path) -> Result<()> {
    let asked = || -> rusqlite::Result<Vec<String>> {
        let connection = Connection::open(path)?;
        let mut statement = connection.prepare("PRAGMA integrity_check")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    match asked() {
        Ok(said) if said == ["ok"] => Ok(()),
        Ok(said) => Err(damaged(said.join("; "))),
        Err(error) => Err(damaged(error.to_string())),
    }
}

/// Returns how many deleted sessions have left their text in a file.
fn traces(path: &Path, deleted: &[String]) -> usize {
    let files = ["", "-wal", "-journal"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::read(name).unwrap_or_default()
    });
    let is_in = |file: &Vec<u8>, text: &[u8]| file.windows(text.len()).any(|window| window == text);
    deleted.iter().filter(|session| files.iter().any(|file| is_in(file, secret(session).as_bytes()))).count()
}

fn damaged(why: String) -> scratchbook::Error {
    scratchbook::Error::new(scratchbook::ErrorKind::DataCorrupted, why)
}
