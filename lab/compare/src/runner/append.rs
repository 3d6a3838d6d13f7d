//! Measures appends. Each task appends to its own session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::{
    CreateSessionConfig, Event, GetSessionConfig, Session, SessionKey, SessionService, SessionServiceExt,
};
use scratchbook_compare::protocol::{CellRequest, Measurement, WrongCounts};
use serde_json::{Map, Value};

use crate::events::{APP, event, event_that_writes, events, written};
use crate::failure::{CellFailure, Result};
use crate::measure::{LatencyClock, repeat, side_by_side};
use crate::shared::compare_one_writer;
use crate::store::BenchStore;

type Make = fn(usize) -> Result<Event>;

/// Measures appends: to sessions of a given length, to a key of the app that all tasks write, or to a state of a given
/// size.
pub(crate) fn append(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    bench.runtime.block_on(async {
        let make: Make = if request.workload == "append_hot" { event_to_a_hot_key } else { event };
        let mut writers = Vec::with_capacity(request.tasks);
        for task in 0..request.tasks {
            writers.push(prepare(bench, request, task).await?);
        }
        let mut clock = LatencyClock::start(None);
        let started = Instant::now();
        let tasks = writers.into_iter().map(|session| {
            let (sessions, seconds) = (Arc::clone(&bench.sessions), request.seconds);
            async move { append_for(seconds, sessions, session, make).await }
        });
        let finished = side_by_side(tasks).await?;
        let elapsed = started.elapsed();
        let mut wrong = WrongCounts::default();
        for writer in finished {
            wrong.add(&writer.compared(&read_back(bench, &writer.key).await?));
            clock.add(writer.latencies, Duration::ZERO);
        }
        clock.add(Vec::new(), elapsed);
        Ok(Measurement { wrong, ..clock.measured() })
    })
}

/// A writer that has finished.
struct FinishedWriter {
    key: SessionKey,
    before: u64,
    latencies: Vec<Duration>,
}

async fn append_for(
    seconds: f64,
    sessions: Arc<dyn SessionService>,
    session: Session,
    make: Make,
) -> Result<FinishedWriter> {
    let (key, before) = (session.key().clone(), session.seq());
    let session = tokio::sync::Mutex::new(session);
    let latencies = repeat(seconds, |n| {
        let (sessions, session) = (&sessions, &session);
        async move {
            sessions.append_event(&mut *session.lock().await, make(n)?).await?;
            Ok(())
        }
    });
    Ok(FinishedWriter { latencies: latencies.await?, key, before })
}

async fn prepare(bench: &BenchStore, request: &CellRequest, task: usize) -> Result<Session> {
    let user = format!("{}-{}-{}-{}-{task}", request.workload, request.size, request.tasks, request.round);
    let config = CreateSessionConfig::default();
    let config = if request.workload == "state" {
        let keys: Map<String, Value> =
            (0..request.size).map(|n| (format!("key-{n}"), "a short value".into())).collect();
        config.with_state(keys)
    } else {
        config.with_events(events(request.size)?)
    };
    Ok(bench.sessions.create_session(APP, &user, config).await?)
}

fn event_to_a_hot_key(n: usize) -> Result<Event> {
    event_that_writes(n, written(n)?.with("app:step", format!("step {n}"))?)
}

async fn read_back(bench: &BenchStore, key: &SessionKey) -> Result<Session> {
    let session = bench.sessions.get_session(key, &GetSessionConfig::default()).await?;
    session.ok_or_else(|| CellFailure::new(format!("the session {key} is gone")))
}

impl FinishedWriter {
    /// Compares what was acknowledged with the session, as it was read afterwards.
    fn compared(&self, session: &Session) -> WrongCounts {
        let appended = session.events().iter().filter(|event| event.seq.is_some_and(|seq| seq > self.before));
        let stored = appended.filter_map(|event| event.invocation_id.strip_prefix("e-")?.parse().ok());
        let last = session.state().get("step").and_then(|step| step.as_str()?.strip_prefix("step ")?.parse().ok());
        compare_one_writer(self.latencies.len(), stored, last)
    }
}
