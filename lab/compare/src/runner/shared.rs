//! Several writers that append to one session, each with the `Session` that it read at the beginning.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::{CreateSessionConfig, GetSessionConfig, Session, SessionServiceExt, StateDelta};
use scratchbook_compare::protocol::{CellRequest, Measurement, WrongCounts};

use crate::events::{APP, event_that_writes, events};
use crate::failure::{CellFailure, Result};
use crate::measure::{LatencyClock, side_by_side};
use crate::store::BenchStore;

/// How many events each writer appends to a session.
const EACH: usize = 25;

/// An append that was acknowledged: the writer, and the number of its event.
type AcknowledgedAppend = (usize, usize);

/// Measures appends to shared sessions, and counts the events that are missing or in the wrong order.
pub(crate) fn append(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    bench.runtime.block_on(async {
        let (mut clock, mut wrong, mut attempted, mut acknowledged) =
            (LatencyClock::start(None), WrongCounts::default(), 0, 0);
        let mut turn = 0;
        while turn == 0 || clock.elapsed().as_secs_f64() < request.seconds {
            let round = write_one(bench, request, turn, &mut clock).await?;
            attempted += request.tasks * EACH;
            acknowledged += round.acknowledged.len();
            wrong.refused += round.refused;
            wrong.add(&compare(&round.acknowledged, &round.session));
            turn += 1;
        }
        let measured = clock.measured();
        let (operations, attempted) = (acknowledged as u64, Some(attempted as u64));
        Ok(Measurement { operations, attempted, wrong, ..measured })
    })
}

/// The result of appending to one shared session.
struct Round {
    acknowledged: Vec<AcknowledgedAppend>,
    refused: u64,
    /// The session, as it is read afterwards.
    session: Session,
}

async fn write_one(bench: &BenchStore, request: &CellRequest, turn: usize, clock: &mut LatencyClock) -> Result<Round> {
    let id = format!("shared-{}-{}-{turn}", request.size, request.round);
    let config = CreateSessionConfig::default().with_session_id(&id).with_events(events(request.size)?);
    let key = bench.sessions.create_session(APP, "user-0", config).await?.key().clone();
    let missing = || CellFailure::new(format!("the session {key} is gone"));
    let mut writers = Vec::new();
    for writer in 0..request.tasks {
        let session = bench.sessions.get_session(&key, &GetSessionConfig::default()).await?.ok_or_else(missing)?;
        writers.push((writer, session));
    }
    let started = Instant::now();
    let tasks = writers.into_iter().map(|(writer, mut session)| {
        let sessions = Arc::clone(&bench.sessions);
        async move {
            let (mut acknowledged, mut refused, mut latencies) = (Vec::new(), 0, Vec::new());
            for n in 0..EACH {
                let delta = StateDelta::new().with(key_of(writer, n), "done")?;
                let mut event = event_that_writes(n, delta)?;
                event.author = format!("writer-{writer}");
                let before = Instant::now();
                match sessions.append_event(&mut session, event).await {
                    Ok(_) => acknowledged.push((writer, n)),
                    Err(_) => refused += 1,
                }
                latencies.push(before.elapsed());
            }
            Ok((acknowledged, refused, latencies))
        }
    });
    let results = side_by_side(tasks).await?;
    clock.add(Vec::new(), started.elapsed());
    let session = bench.sessions.get_session(&key, &GetSessionConfig::default()).await?.ok_or_else(missing)?;
    let mut round = Round { acknowledged: Vec::new(), refused: 0, session };
    for (acknowledged, refused, latencies) in results {
        round.acknowledged.extend(acknowledged);
        round.refused += refused;
        clock.add(latencies, Duration::ZERO);
    }
    Ok(round)
}

fn key_of(writer: usize, n: usize) -> String {
    format!("writer-{writer}-{n}")
}

/// Compares the acknowledged appends with a session.
fn compare(acknowledged: &[AcknowledgedAppend], session: &Session) -> WrongCounts {
    let mut times: HashMap<AcknowledgedAppend, u64> = HashMap::new();
    let mut last: HashMap<usize, usize> = HashMap::new();
    let mut wrong = WrongCounts::default();
    for append in session.events().iter().filter_map(|event| append_of(&event.author, &event.invocation_id)) {
        let (writer, n) = append;
        wrong.disordered += u64::from(last.insert(writer, n).is_some_and(|before| before > n));
        *times.entry(append).or_default() += 1;
    }
    wrong.doubled = times.values().map(|count| count - 1).sum();
    let is_there = |(writer, n): &AcknowledgedAppend| {
        times.contains_key(&(*writer, *n)) && session.state().get(&key_of(*writer, *n)).is_some()
    };
    wrong.lost = acknowledged.iter().filter(|append| !is_there(append)).count() as u64;
    wrong
}

/// Compares the events of one writer, numbered from 0, with the numbers of the stored events. Each event writes its number
/// into a key, which has the number `last` afterwards.
pub(crate) fn compare_one_writer(
    acknowledged: usize,
    stored: impl Iterator<Item = usize>,
    last: Option<usize>,
) -> WrongCounts {
    let (mut times, mut before, mut wrong) = (vec![0_u64; acknowledged], None, WrongCounts::default());
    for n in stored {
        wrong.disordered += u64::from(before.replace(n).is_some_and(|before| before > n));
        times.get_mut(n).into_iter().for_each(|count| *count += 1);
    }
    wrong.doubled = times.iter().map(|count| count.saturating_sub(1)).sum();
    wrong.lost = times.iter().filter(|count| **count == 0).count() as u64;
    let lacks_key = last != acknowledged.checked_sub(1);
    wrong.lost += u64::from(lacks_key && times.last().is_some_and(|count| *count > 0));
    wrong
}

/// Returns the writer and the number of an event, if a writer appended it.
fn append_of(author: &str, invocation_id: &str) -> Option<AcknowledgedAppend> {
    Some((author.strip_prefix("writer-")?.parse().ok()?, invocation_id.strip_prefix("e-")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use scratchbook::{Event, SessionKey, StateMap};

    use super::*;

    /// Returns a session with these events. Its state has the keys of all these events.
    fn session(appends: &[AcknowledgedAppend]) -> Session {
        let key = SessionKey::new("bench", "user-0", "s").unwrap();
        let events = appends.iter().map(|(writer, n)| {
            std::sync::Arc::new(Event::new(format!("writer-{writer}")).with_invocation_id(format!("e-{n}")))
        });
        let state: serde_json::Map<_, _> =
            appends.iter().map(|(writer, n)| (key_of(*writer, *n), serde_json::json!("done"))).collect();
        Session::new(key, StateMap::from(state)).with_events(events.collect())
    }

    #[test]
    fn what_became_of_the_events_of_one_writer_is_counted() {
        let compare = |stored: &[usize], last| compare_one_writer(3, stored.iter().copied(), last);
        assert!(compare(&[0, 1, 2], Some(2)).is_nothing());
        let found = compare(&[1, 0, 0], Some(0));
        assert_eq!((found.lost, found.disordered, found.doubled), (1, 1, 1));
        assert_eq!(compare(&[0, 1, 2], Some(1)).lost, 1);
        assert!(compare_one_writer(0, std::iter::empty(), None).is_nothing());
    }

    #[test]
    fn lost_disordered_and_doubled_appends_are_counted() {
        let acknowledged = [(0, 0), (0, 1), (1, 0), (1, 1)];
        assert!(compare(&acknowledged, &session(&[(0, 0), (1, 0), (0, 1), (1, 1)])).is_nothing());
        let found = compare(&acknowledged, &session(&[(0, 1), (0, 0), (1, 0), (1, 0)]));
        assert_eq!((found.lost, found.disordered, found.doubled), (1, 1, 1));
    }
}
