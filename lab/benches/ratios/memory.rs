//! Checks that costs of the memory store do not grow with the session.

use futures_util::FutureExt;
use scratchbook::{AppendOptions, GetSessionConfig, InMemorySessionService, SessionKey, SessionService};
use scratchbook_benches::{event, session};

use crate::{CompareFn, ComparisonRow, RatioTarget, compare, time_each};

pub(crate) const COMPARISONS: &[(&str, CompareFn)] = &[
    ("memory: get at 100,000 events against 10", get),
    ("memory: append at event 100,000 against the first thousand", append),
];

/// Returns a future's result. The memory store never waits, so its futures are ready when they are first polled.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the memory store never waits")
}

fn with_events(events: usize) -> (InMemorySessionService, SessionKey) {
    let service = InMemorySessionService::new();
    let key = now(session(&service, "s", events, 10));
    (service, key)
}

fn get(name: &'static str) -> ComparisonRow {
    let ((long, key), (short, _)) = (with_events(100_000), with_events(10));
    let config = GetSessionConfig::default();
    let get = |service: &InMemorySessionService| {
        time_each(200_000, || drop(std::hint::black_box(now(service.get_session(&key, &config)).unwrap())))
    };
    compare(name, RatioTarget::CostAtMost(1.2), "gets", || get(&long), || get(&short))
}

fn append(name: &'static str) -> ComparisonRow {
    let (long, key) = with_events(100_000);
    let thousand = |service: &InMemorySessionService| {
        let mut events = (0..1000).map(event).collect::<Vec<_>>().into_iter();
        time_each(1000, || {
            let event = events.next().unwrap();
            now(service.append(&key, event, AppendOptions::default())).unwrap();
        })
    };
    // Each side makes several thousand appends in a round. The new sessions are kept, so that both sides allocate new
    // memory.
    let mut kept = Vec::new();
    let first = || {
        let fresh: Vec<_> = (0..5).map(|_| with_events(0).0).collect();
        let seconds = fresh.iter().map(thousand).sum::<f64>() / 5.0;
        kept.extend(fresh);
        seconds
    };
    let late = || (0..5).map(|_| thousand(&long)).sum::<f64>() / 5.0;
    compare(name, RatioTarget::CostAtMost(1.2), "appends", late, first)
}
