//! Measures the creation of sessions.

use std::sync::Arc;
use std::time::Instant;

use scratchbook::CreateSessionConfig;
use scratchbook_compare::protocol::{CellRequest, Measurement};

use crate::events::{APP, created_with};
use crate::failure::Result;
use crate::measure::{LatencyClock, repeat, side_by_side};
use crate::store::BenchStore;

/// Measures the creation of sessions with a number of keys. Each task creates sessions of its own user.
pub(crate) fn create(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    bench.runtime.block_on(async {
        let state = created_with(request.size);
        let mut clock = LatencyClock::start(None);
        let started = Instant::now();
        let tasks = (0..request.tasks).map(|task| {
            let (sessions, seconds, state) = (Arc::clone(&bench.sessions), request.seconds, state.clone());
            async move {
                let user = format!("user-{task}");
                repeat(seconds, |_| async {
                    let config = CreateSessionConfig::default().with_state(state.clone());
                    sessions.create_session(APP, &user, config).await?;
                    Ok(())
                })
                .await
            }
        });
        let latencies = side_by_side(tasks).await?;
        clock.add(latencies.concat(), started.elapsed());
        Ok(clock.measured())
    })
}
