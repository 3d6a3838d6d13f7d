//! The log of a run, and its readers.

#[allow(dead_code)]
#[path = "../../../crates/scratchbook-server/src/runs/backlog.rs"]
mod backlog;
#[allow(dead_code)]
#[path = "../../../crates/scratchbook-server/src/runs/log.rs"]
mod log;

mod sync {
    pub(super) use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, watch};
}

use scratchbook::Event;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::thread;

use crate::sync::{Arc, perhaps_dropped};
use log::{RunLog, RunOutcome, RunReader};

/// The events of the run: pieces of replies have no number.
const EVENTS: [Option<u64>; 5] = [None, Some(1), Some(2), None, Some(3)];

fn event(seq: Option<u64>) -> Event {
    let mut event = Event::new("agent");
    (event.seq, event.partial) = (seq, seq.is_none().then_some(true));
    event
}

fn write(log: &Arc<RunLog>) -> thread::JoinHandle<()> {
    let log = Arc::clone(log);
    thread::spawn(move || {
        EVENTS.map(event).into_iter().for_each(|event| log.push(event));
        log.end(RunOutcome::Completed);
    })
}

/// Reads to the end. Some waits are given up and begun again.
async fn read(mut reader: RunReader) -> Vec<Option<u64>> {
    let mut seen = Vec::new();
    loop {
        match perhaps_dropped(reader.next()).await {
            None => {}
            Some(Some(event)) => seen.push(event.seq),
            Some(None) => break,
        }
    }
    assert!(reader.outcome().is_some(), "a reader ends with the run");
    seen
}

/// A reader sees each event once and in order, whenever it begins and however often its wait is dropped: from the
/// beginning with all pieces, later with every whole event. A reader that skips what it has read sees the rest.
pub fn every_reader_sees_each_event_once() {
    let log = Arc::new(RunLog::new());
    let first = log.read();
    let begin = |skipped: u64| -> JoinHandle<Vec<Option<u64>>> {
        let log = Arc::clone(&log);
        spawn(async move {
            let mut reader = log.read();
            reader.skip_to(skipped);
            read(reader).await
        })
    };
    let (late, resumed) = (begin(0), begin(2));
    let writer = write(&log);
    block_on(async {
        assert_eq!(read(first).await, EVENTS);
        let wholes = |seen: &[Option<u64>]| seen.iter().copied().flatten().collect::<Vec<_>>();
        let late = late.await.unwrap_or_default();
        assert_eq!(wholes(&late), [1, 2, 3]);
        let mut all = EVENTS.iter();
        assert!(late.iter().all(|seen| all.any(|event| event == seen)), "out of order: {late:?}");
        assert_eq!(wholes(&resumed.await.unwrap_or_default()), [3]);
    });
    assert!(writer.join().is_ok());
}

/// Everybody who waits for the end of a run sees it, even a reader that begins to wait at that moment.
pub fn the_end_of_a_run_is_seen_by_all_who_wait() {
    let log = Arc::new(RunLog::new());
    let waiting = [(); 3].map(|()| {
        let log = Arc::clone(&log);
        spawn(async move { matches!(log.ended().await, RunOutcome::Completed) })
    });
    let writer = write(&log);
    block_on(async {
        for waiting in waiting {
            assert!(waiting.await.unwrap_or_default());
        }
    });
    assert!(writer.join().is_ok());
}
