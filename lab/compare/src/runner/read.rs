//! Measures reads of sessions, and of lists of sessions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::session::ListSessionsConfig;
use scratchbook::{CreateSessionConfig, GetSessionConfig, SessionKey};
use scratchbook_compare::protocol::{CellRequest, Measurement};

use crate::events::APP;
use crate::failure::{CellFailure, Result};
use crate::measure::{LatencyClock, repeat, side_by_side};
use crate::store::BenchStore;

/// How many sessions a user has in a list.
const EACH_USER: u64 = 10;
/// How long the creation of a list's sessions may take.
const PREPARATION: Duration = Duration::from_secs(50);

/// Measures reads of a whole session or of its last 10 events, with or without conversion to JSON.
pub(crate) fn get(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let config = match request.workload.as_str() {
        "get_recent" => GetSessionConfig::default().with_num_recent_events(10),
        _ => GetSessionConfig::default(),
    };
    let in_json = request.workload == "get_json";
    bench.runtime.block_on(async {
        let key = bench.kept_session(request.size).await?.key().clone();
        let mut clock = LatencyClock::start(None);
        let started = Instant::now();
        let latencies = repeat(request.seconds, |_| async {
            let session = bench.sessions.get_session(&key, &config).await?;
            let session = session.ok_or_else(|| CellFailure::new(format!("the session {key} is gone")))?;
            if in_json {
                black_box(serde_json::to_string(&session)?);
            }
            black_box(session);
            Ok(())
        });
        clock.add(latencies.await?, started.elapsed());
        Ok(clock.measured())
    })
}

/// Measures listing one user's sessions in an app with many sessions.
pub(crate) fn list(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let app = format!("{APP}-{}", request.size);
    bench.runtime.block_on(async {
        fill(bench, &app, request.size).await?;
        let mut clock = LatencyClock::start(None);
        let started = Instant::now();
        let latencies = repeat(request.seconds, |_| async {
            let config = ListSessionsConfig::default().with_user_id("user-0");
            let page = bench.sessions.list_sessions(&app, &config).await?;
            match page.sessions.len() as u64 {
                EACH_USER => Ok(()),
                count => Err(CellFailure::new(format!("the list has {count} sessions, not {EACH_USER}"))),
            }
        });
        clock.add(latencies.await?, started.elapsed());
        Ok(clock.measured())
    })
}

/// Creates the sessions of an app, unless an earlier round has created them.
async fn fill(bench: &BenchStore, app: &str, size: u64) -> Result<()> {
    const TASKS: u64 = 64;
    let last = (size - 1).to_string();
    let last_key = SessionKey::new(app, &user_of(size - 1), &last)?;
    if bench.sessions.get_session(&last_key, &GetSessionConfig::state_only()).await?.is_some() {
        return Ok(());
    }
    let end = Instant::now() + PREPARATION;
    let tasks = (0..TASKS).map(|task| {
        let (sessions, app) = (Arc::clone(&bench.sessions), app.to_owned());
        async move {
            let mut n = task;
            while n < size - 1 && Instant::now() < end {
                let config = CreateSessionConfig::default().with_session_id(n.to_string());
                match sessions.create_session(&app, &user_of(n), config).await {
                    Err(error) if error.kind() != scratchbook::ErrorKind::AlreadyExists => return Err(error.into()),
                    _ => n += TASKS,
                }
            }
            Ok(n / TASKS)
        }
    });
    let made: u64 = side_by_side(tasks).await?.iter().sum();
    if Instant::now() >= end && made < size {
        let seconds = PREPARATION.as_secs() * size / made.max(1);
        return Err(CellFailure::Unsupported(format!("to make {size} sessions takes {seconds} seconds")));
    }
    // This session is created last. If it exists, all sessions exist.
    bench
        .sessions
        .create_session(app, last_key.user_id(), CreateSessionConfig::default().with_session_id(last))
        .await?;
    Ok(())
}

fn user_of(n: u64) -> String {
    format!("user-{}", n / EACH_USER)
}
