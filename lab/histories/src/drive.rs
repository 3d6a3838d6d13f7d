//! A run: its workers, the follower of its feed, and the reads at its end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scratchbook::SessionKey;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::check::feed;
use crate::client::{CallFailure, CommittedEvent, FeedEvent, HistoryClient};
use crate::history::{EntryKind, HistoryEntry, HistoryRecorder};
use crate::worker::{Worker, keys, reads};
use crate::workload::{List, Workload};

/// How many workers run transactions.
pub const WORKERS: usize = 12;

/// How long a call without an answer is repeated.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a client may take to find a session that another client has created.
const FINDING: Duration = Duration::from_secs(30);

/// The pause before a call is repeated.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// How often the feed is read from its beginning again because a cursor was refused.
const MOST_REFUSALS: usize = 20;

/// From how many of its earlier cursors the feed is read again at the end.
const CURSORS_READ_AGAIN: usize = 8;

/// How many lists are read at once at the end.
const AT_ONCE: usize = 200;

/// What a run did.
#[derive(Debug, Default)]
pub struct Observed {
    /// The history, ending with a read of every list.
    pub entries: Vec<HistoryEntry>,
    /// Writes that were refused because one of their keys was written since it was read.
    pub refusals: Vec<RefusedWrite>,
    /// The app's feed, as a follower read it page by page; `None` if the follower failed.
    pub feed: Option<Vec<FeedEvent>>,
    /// The appends that were answered.
    pub committed: Vec<(SessionKey, String, CommittedEvent)>,
    /// Unexplained refusals, reads of the past that differ from the answer to the event's append, and feeds that differ
    /// when they are read again.
    pub wrong: Vec<String>,
    /// Answers that report a defect or damaged data, and failed checks of the stored state.
    pub defects: Vec<String>,
    /// The appends with an unknown outcome: their sessions and lists.
    pub unknown: Vec<(SessionKey, Vec<List>)>,
    /// Those of them that should have been refused if one of their keys was written since it was read.
    pub unknown_by_key: Vec<GuardedWrite>,
}

/// A write with an unknown outcome that should have been refused if one of its keys was written since it was read.
#[derive(Clone, Debug)]
pub struct GuardedWrite {
    /// The lists, what they contained when the writer read them, and the elements that it appended.
    pub appended: Vec<(String, Vec<u64>, u64)>,
}

/// How many calls of workers have failed so far.
#[derive(Clone, Debug, Default)]
pub struct FailedCalls(Arc<AtomicU64>);

impl FailedCalls {
    /// Returns the number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A write that was refused because one of its keys was written since it was read.
#[derive(Clone, Debug)]
pub struct RefusedWrite {
    /// The lists that the writer had read, and what they contained.
    pub read: Vec<(String, Vec<u64>)>,
    /// The place of the refusal in the history.
    pub at: usize,
}

/// A run of transactions.
#[derive(Debug)]
pub struct HistoryRun {
    shared: Arc<WorkerContext>,
    follower: JoinHandle<Result<Vec<FeedEvent>, CallFailure>>,
}

/// The parts of a run that its workers share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) clients: Vec<Arc<dyn HistoryClient>>,
    pub(crate) workload: Workload,
    pub(crate) recorder: HistoryRecorder,
    pub(crate) failures: FailedCalls,
    is_over: AtomicBool,
    observed: Mutex<Observed>,
}

impl HistoryRun {
    /// Creates the sessions, and begins to follow the feed of their app.
    ///
    /// # Errors
    ///
    /// The sessions cannot be created.
    pub async fn begin(clients: Vec<Arc<dyn HistoryClient>>, workload: Workload) -> Result<Self, CallFailure> {
        for session in workload.sessions() {
            until_answered(|| clients[0].create(session)).await?;
            for client in &clients {
                until_found(client.as_ref(), session).await?;
            }
        }
        let (recorder, is_over, observed) = (HistoryRecorder::default(), AtomicBool::new(false), Mutex::default());
        let failures = FailedCalls::default();
        let shared = Arc::new(WorkerContext { clients, workload, recorder, failures, is_over, observed });
        Ok(Self { follower: tokio::spawn(follow(Arc::clone(&shared))), shared })
    }

    /// Returns the time at which the history began.
    pub(crate) fn begun(&self) -> Instant {
        self.shared.recorder.begun()
    }

    /// Returns how many calls of workers have failed.
    pub(crate) fn failures(&self) -> FailedCalls {
        self.shared.failures.clone()
    }

    /// Lets several workers run transactions for some time. Each worker uses one client.
    ///
    /// # Errors
    ///
    /// A worker has panicked.
    pub async fn work(&self, workers: usize, time: Duration, seed: u64) -> Result<(), CallFailure> {
        let end = Instant::now() + time;
        let tasks: Vec<_> =
            (0..workers).map(|n| tokio::spawn(Worker::new(Arc::clone(&self.shared), seed, n).work(end))).collect();
        for task in tasks {
            task.await.map_err(|error| CallFailure::Unknown(error.to_string()))?;
        }
        Ok(())
    }

    /// Reads everything by each client, and checks the stored state. All faults have to be over.
    ///
    /// # Errors
    ///
    /// A read, or the follower of the feed, gets no answer. The observations until then are returned together with the
    /// error.
    pub async fn end(self) -> (Observed, Result<(), CallFailure>) {
        let mut result = self.shared.read_everything().await;
        self.shared.is_over.store(true, Relaxed);
        let feed = match self.follower.await {
            Ok(feed) => feed,
            Err(error) => Err(CallFailure::Unknown(error.to_string())),
        };
        let mut observed = std::mem::take(&mut *self.shared.observed());
        observed.entries = self.shared.recorder.entries();
        match feed {
            Ok(feed) => observed.feed = Some(feed),
            Err(error) => result = result.and(Err(error)),
        }
        (observed, result)
    }
}

/// Repeats a call until it is answered.
async fn until_answered<T, C: Future<Output = Result<T, CallFailure>>>(call: impl Fn() -> C) -> Result<T, CallFailure> {
    let begun = Instant::now();
    loop {
        match call().await {
            Err(error) if error.is_without_answer() && begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            answered => return answered,
        }
    }
}

/// Waits until a client finds a session. On a standby, this takes a moment.
async fn until_found(client: &dyn HistoryClient, session: &SessionKey) -> Result<(), CallFailure> {
    let begun = Instant::now();
    loop {
        match until_answered(|| client.read(session, &[])).await {
            Err(CallFailure::Refused(_)) if begun.elapsed() < FINDING => sleep(PAUSE).await,
            Err(CallFailure::Refused(why)) => {
                let message = format!("{why}: another client has created it, so they do not use one database");
                return Err(CallFailure::Refused(message));
            }
            found => return found.map(drop),
        }
    }
}

/// Follows the feed of the app from its beginning until the run is over. Each call passes the cursor of the previous
/// call. At the end, the feed is read again from some of the earlier cursors.
async fn follow(run: Arc<WorkerContext>) -> Result<Vec<FeedEvent>, CallFailure> {
    let app = run.workload.sessions()[0].app_name().to_owned();
    // Only cursors of the same form can be passed on.
    let form = run.clients[0].cursor_form();
    let clients: Vec<_> = run.clients.iter().filter(|client| client.cursor_form() == form).collect();
    let (mut events, mut cursors, mut refusals) = (Vec::new(), Vec::<(String, usize)>::new(), 0);
    let mut over_since = None;
    // Each page comes from another server, which knows only the cursor.
    for client in clients.iter().cycle() {
        if over_since.is_none() && run.is_over.load(Relaxed) {
            over_since = Some(Instant::now());
        }
        let cursor = cursors.last().map(|(cursor, _)| cursor.as_str());
        let part = match until_answered(|| client.feed(&app, cursor)).await {
            Ok(part) => part,
            Err(error) if error.is_without_answer() => return Err(error),
            Err(error) => {
                run.observed().wrong.push(format!("a page of the feed: {error}"));
                refusals += 1;
                if refusals > MOST_REFUSALS {
                    return Ok(events);
                }
                // The rest is checked from the beginning.
                (events, cursors) = (Vec::new(), Vec::new());
                sleep(PAUSE).await;
                continue;
            }
        };
        events.extend(part.events);
        cursors.push((part.cursor, events.len()));
        match over_since {
            Some(_) if part.is_end => break,
            Some(since) if since.elapsed() > PATIENCE => return Err(without_end()),
            _ if part.is_end => sleep(PAUSE).await,
            _ => {}
        }
    }
    let step = cursors.len().div_ceil(CURSORS_READ_AGAIN).max(1);
    for ((cursor, place), client) in cursors.iter().step_by(step).zip(clients.iter().cycle()) {
        let wrong = match rest_of_feed(client.as_ref(), &app, cursor).await {
            Ok(again) => feed::difference(&events, *place, &again),
            Err(error) if error.is_without_answer() => return Err(error),
            Err(error) => Some(error.to_string()),
        };
        let wrong = wrong.map(|why| format!("the feed, read again from its event {place}: {why}"));
        run.observed().wrong.extend(wrong);
    }
    Ok(events)
}

/// Reads the feed from a cursor to its end.
async fn rest_of_feed(client: &dyn HistoryClient, app: &str, cursor: &str) -> Result<Vec<FeedEvent>, CallFailure> {
    let (mut events, mut cursor, begun) = (Vec::new(), cursor.to_owned(), Instant::now());
    while begun.elapsed() < PATIENCE {
        let part = until_answered(|| client.feed(app, Some(&cursor))).await?;
        events.extend(part.events);
        if part.is_end {
            return Ok(events);
        }
        cursor = part.cursor;
    }
    Err(without_end())
}

fn without_end() -> CallFailure {
    CallFailure::Unknown(format!("the feed has no end after {} s", PATIENCE.as_secs()))
}

impl WorkerContext {
    pub(crate) fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_everything(&self) -> Result<(), CallFailure> {
        // The lists of a commit with an unknown outcome are read in one read.
        let unknown = self.observed().unknown.clone();
        for client in &self.clients {
            for session in self.workload.sessions() {
                for lists in self.workload.all_of(session).chunks(AT_ONCE) {
                    self.read_at_the_end(client.as_ref(), session, lists).await?;
                }
            }
            for (session, lists) in &unknown {
                self.read_at_the_end(client.as_ref(), session, lists).await?;
            }
        }
        self.verify_everything().await
    }

    /// Checks all states that are stored. A verification reads whole logs, so only one client asks for it.
    async fn verify_everything(&self) -> Result<(), CallFailure> {
        let (client, sessions) = (&self.clients[0], self.workload.sessions());
        let mut verified = Vec::new();
        for session in sessions {
            verified.push((session.to_string(), until_answered(|| client.verify(session)).await));
        }
        let owners: BTreeSet<_> = sessions.iter().flat_map(|session| [session.user(), session.app()]).collect();
        for owner in owners {
            verified.push((format!("{owner:?}"), until_answered(|| client.verify_state(&owner)).await));
        }
        for (what, result) in verified {
            match result {
                Ok(()) => {}
                Err(error) if error.is_without_answer() => return Err(error),
                Err(error) => self.observed().defects.push(format!("verify of {what}: {error}")),
            }
        }
        Ok(())
    }

    async fn read_at_the_end(
        &self,
        client: &dyn HistoryClient,
        session: &SessionKey,
        lists: &[List],
    ) -> Result<(), CallFailure> {
        let (process, keys) = (self.recorder.process(), keys(lists));
        self.recorder.record(process, EntryKind::Invoke, reads(lists, None));
        match until_answered(|| client.read(session, &keys)).await {
            Ok(view) => drop(self.recorder.record(process, EntryKind::Ok, reads(lists, Some(&view.lists)))),
            Err(error) if error.is_without_answer() => return Err(error),
            Err(error) => {
                self.recorder.record(process, EntryKind::Fail, reads(lists, None));
                self.observed().defects.push(format!("the last read of {session}: {error}"));
            }
        }
        Ok(())
    }
}
