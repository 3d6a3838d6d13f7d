//! The oldest events of a session.

use scratchbook::{GetSessionConfig, Session, SessionKey};

use super::{Run, STEP};
use crate::args::Moment;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::plural;

/// Which events of a session go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Those up to the first that is not before this; all, where nothing is said.
    pub(super) before: Option<Moment>,
    /// But never the last so many.
    pub(super) keep: u64,
}

impl Rule {
    pub(super) fn in_words(self) -> String {
        let what = match self.before {
            Some(before) => format!("the events up to the first one since {:.0}", before.0),
            None => "all events".to_owned(),
        };
        match self.keep {
            0 => what,
            keep => format!("{what}, but for the last {}", plural(keep, "event")),
        }
    }
}

/// Prunes a session, step by step; says how many events went, or would go.
///
/// Nothing is read but what goes, and the first event that stays.
pub(super) async fn prune(database: &Database, session: &Session, rule: Rule, run: Run) -> Result<u64, Failure> {
    let (key, last) = (session.key(), session.seq().saturating_sub(rule.keep));
    if last == 0 {
        return Ok(0);
    }
    // One event first: in most sessions nothing, or nothing more, is old enough.
    let Found { first, until, .. } = find(database, key, 0, last, 1, rule.before).await?;
    if until == 0 {
        return Ok(0);
    }
    if rule.before.is_none() {
        return go(database, key, first, last, run).await;
    }
    let (mut read, mut gone) = (0, 0);
    loop {
        let Found { first, until, is_end } = find(database, key, read, last, STEP, rule.before).await?;
        if until > 0 {
            gone += go(database, key, first, until, run).await?;
            read = until;
        }
        if is_end {
            return Ok(gone);
        }
    }
}

/// The events from one number to another go, or would go.
async fn go(database: &Database, key: &SessionKey, first: u64, until: u64, run: Run) -> Result<u64, Failure> {
    match run {
        Run::Dry => Ok(until + 1 - first),
        Run::Real => all_before(database, key, until + 1).await,
    }
}

async fn all_before(database: &Database, key: &SessionKey, before: u64) -> Result<u64, Failure> {
    let mut gone = 0;
    loop {
        let pruned = database.sessions.prune_events(key, before, STEP).await?;
        gone += pruned;
        if pruned < STEP as u64 {
            return Ok(gone);
        }
    }
}

/// A page of events that go.
struct Found {
    first: u64,
    /// The last of them; 0 for none.
    until: u64,
    /// Whether the next one stays.
    is_end: bool,
}

async fn find(
    database: &Database,
    key: &SessionKey,
    after: u64,
    last: u64,
    page: usize,
    before: Option<Moment>,
) -> Result<Found, Failure> {
    let config = GetSessionConfig::default().without_state().with_events_after(after, page);
    let session = database.sessions.get_session(key, &config).await?;
    let events = session.map(|session| session.events().clone()).unwrap_or_default();
    let goes = |event: &scratchbook::Event| {
        let is_old = before.is_none_or(|before| event.timestamp.is_some_and(|time| time < before.seconds()));
        is_old && event.seq.is_some_and(|seq| seq <= last)
    };
    let numbers: Vec<_> = events.iter().take_while(|event| goes(event)).filter_map(|event| event.seq).collect();
    Ok(Found {
        first: numbers.first().copied().unwrap_or_default(),
        until: numbers.last().copied().unwrap_or_default(),
        is_end: numbers.len() < page,
    })
}
