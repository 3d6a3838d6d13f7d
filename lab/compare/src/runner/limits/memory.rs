//! The limit of reads from memory: a copy of as many bytes as the session has.

use std::hint::black_box;
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, Measurement};

use crate::events::event;
use crate::failure::Result;
use crate::measure::LatencyClock;

/// Copies the JSON of a session's events.
pub(super) fn measure(request: &CellRequest) -> Result<Measurement> {
    let count = match request.workload.as_str() {
        "get" | "get_json" => request.size,
        "get_recent" => 10.min(request.size),
        _ => return Err(super::unsupported(request)),
    };
    let mut bytes = Vec::new();
    for n in 0..usize::try_from(count)? {
        serde_json::to_writer(&mut bytes, &event(n)?)?;
    }
    let mut clock = LatencyClock::start(None);
    let (mut latencies, started) = (Vec::new(), Instant::now());
    let end = Duration::from_secs_f64(request.seconds);
    let mut before = started;
    while latencies.is_empty() || started.elapsed() < end {
        black_box(black_box(&bytes).clone());
        let now = Instant::now();
        latencies.push(now - before);
        before = now;
    }
    clock.add(latencies, started.elapsed());
    Ok(clock.measured())
}
