//! Prunes the oldest events of a session.

use scratchbook::session::Prune;
use scratchbook::{GetSessionConfig, Session, SessionKey};

use super::{PruneMode, STEP};
use crate::args::PointInTime;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::plural;

/// The rule that selects the events to prune.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRule {
    /// Prune the events up to the first that is not before this time. Without a time, prune all events.
    pub(super) before: Option<PointInTime>,
    /// Keep at least this many of the last events.
    pub(super) keep: u64,
}

impl EventRule {
    pub(super) fn in_words(self) -> String {
        let what = match self.before {
            Some(before) => format!("the events from before {:.0}", before.0),
            None => "all events".to_owned(),
        };
        match self.keep {
            0 => what,
            keep => format!("{what}, but for the last {}", plural(keep, "event")),
        }
    }
}

/// Prunes a session in steps, and returns how many events were pruned, or would be in a dry run.
///
/// The function reads only the events to prune and the first event that stays.
pub(super) async fn prune(
    database: &OpenDatabase,
    session: &Session,
    rule: EventRule,
    mode: PruneMode,
) -> Result<u64, CommandFailure> {
    let (key, last) = (session.key(), session.seq().saturating_sub(rule.keep));
    if last == 0 {
        return Ok(0);
    }
    // Only one event is read first, because most sessions have no event that is old enough.
    let EventRange { first, until, .. } = find(database, key, 0, last, 1, rule.before).await?;
    if until == 0 {
        return Ok(0);
    }
    if rule.before.is_none() {
        return go(database, key, first, last, mode).await;
    }
    let (mut read, mut gone) = (0, 0);
    loop {
        let EventRange { first, until, is_end } = find(database, key, read, last, STEP, rule.before).await?;
        if until > 0 {
            gone += go(database, key, first, until, mode).await?;
            read = until;
        }
        if is_end {
            return Ok(gone);
        }
    }
}

/// Prunes the events from one number to another, or counts them in a dry run.
async fn go(
    database: &OpenDatabase,
    key: &SessionKey,
    first: u64,
    until: u64,
    mode: PruneMode,
) -> Result<u64, CommandFailure> {
    match mode {
        PruneMode::Dry => Ok(until + 1 - first),
        PruneMode::Real => all_before(database, key, until + 1).await,
    }
}

async fn all_before(database: &OpenDatabase, key: &SessionKey, before: u64) -> Result<u64, CommandFailure> {
    let mut gone = 0;
    loop {
        let pruned = database.sessions.prune(Prune::events(key, before), STEP).await?;
        gone += pruned;
        if pruned < STEP as u64 {
            return Ok(gone);
        }
    }
}

/// A range of events to prune.
struct EventRange {
    first: u64,
    /// The number of the last event; 0 if there is no event to prune.
    until: u64,
    /// Whether the next event stays.
    is_end: bool,
}

async fn find(
    database: &OpenDatabase,
    key: &SessionKey,
    after: u64,
    last: u64,
    page: usize,
    before: Option<PointInTime>,
) -> Result<EventRange, CommandFailure> {
    let config = GetSessionConfig::default().without_state().with_events_after(after, page);
    let session = database.sessions.get_session(key, &config).await?;
    let events = session.map(|session| session.events().clone()).unwrap_or_default();
    let goes = |event: &scratchbook::Event| {
        let is_old = before.is_none_or(|before| event.timestamp.is_some_and(|time| time < before.seconds()));
        is_old && event.seq.is_some_and(|seq| seq <= last)
    };
    let numbers: Vec<_> = events.iter().take_while(|event| goes(event)).filter_map(|event| event.seq).collect();
    Ok(EventRange {
        first: numbers.first().copied().unwrap_or_default(),
        until: numbers.last().copied().unwrap_or_default(),
        is_end: numbers.len() < page,
    })
}
