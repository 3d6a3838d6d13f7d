//! Workers that run transactions and record them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use scratchbook::SessionKey;
use tokio::time::sleep;

use crate::client::{Append, Client, Failure, FeedEvent, Lists, Stored, View};
use crate::history::{Entry, Kind, Recorder, Step};
use crate::workload::{List, Workload};

/// How long a call is repeated that has to succeed, when all faults are over.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a worker repeats an append with an unknown outcome, with the same event id.
const RETRY: Duration = Duration::from_secs(5);

/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// What a run did.
#[derive(Debug, Default)]
pub struct Observed {
    /// The history, ending with a read of every list.
    pub entries: Vec<Entry>,
    /// Writes that were refused because one of their keys was written since it was read.
    pub refusals: Vec<Refusal>,
    /// The app's feed, as a follower read it page by page.
    pub feed: Vec<FeedEvent>,
    /// The appends that were answered.
    pub committed: Vec<(SessionKey, String, Stored)>,
    /// Reads of the past that did not give what the event's own answer had, and failed checks of the stored state.
    pub wrong: Vec<String>,
}

/// A write that was refused because one of its keys was written since it was read.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The lists that the writer had read, and what they contained.
    pub read: Vec<(String, Vec<u64>)>,
    /// The place of the refusal in the history.
    pub at: usize,
}

/// The parts of a run that its workers share.
struct Run {
    clients: Vec<Arc<dyn Client>>,
    workload: Workload,
    recorder: Recorder,
    is_over: AtomicBool,
    observed: Mutex<Observed>,
}

/// Runs transactions by several workers for some time, and then reads everything.
///
/// Each worker has a client and keeps it. `heal` is called when the workers have ended: it stops all faults, so that the
/// last reads succeed.
///
/// # Errors
///
/// The sessions cannot be created, or the last reads do not succeed.
pub async fn drive(
    clients: Vec<Arc<dyn Client>>,
    workload: Workload,
    workers: usize,
    time: Duration,
    seed: u64,
    heal: impl AsyncFnOnce(),
) -> Result<Observed, Failure> {
    let run = Run {
        clients,
        workload,
        recorder: Recorder::default(),
        is_over: AtomicBool::new(false),
        observed: Mutex::default(),
    };
    for session in run.workload.sessions() {
        until_done(async || run.clients[0].create(session).await).await?;
    }
    let run = Arc::new(run);
    let follower = tokio::spawn(follow(Arc::clone(&run)));
    let end = Instant::now() + time;
    let tasks: Vec<_> = (0..workers)
        .map(|n| {
            let random = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(n as u64));
            let worker = Worker {
                client: Arc::clone(&run.clients[n % run.clients.len()]),
                process: run.recorder.process(),
                run: Arc::clone(&run),
                random,
                count: 0,
                name: format!("{seed}-{n}"),
                last: None,
            };
            tokio::spawn(worker.work(end))
        })
        .collect();
    for task in tasks {
        task.await.map_err(|error| Failure::Unknown(error.to_string()))?;
    }
    heal().await;
    run.read_everything().await?;
    run.is_over.store(true, Relaxed);
    let feed = follower.await.map_err(|error| Failure::Unknown(error.to_string()))??;
    let mut observed = std::mem::take(&mut *run.observed());
    observed.entries = run.recorder.entries();
    observed.feed = feed;
    Ok(observed)
}

/// Repeats a call until it succeeds.
async fn until_done<T>(call: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        match call().await {
            Err(error) if begun.elapsed() > PATIENCE => return Err(error),
            Err(_) => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Follows the feed of the app from its beginning until the run is over, by cursors that are given back each time.
async fn follow(run: Arc<Run>) -> Result<Vec<FeedEvent>, Failure> {
    let app = run.workload.sessions()[0].app_name().to_owned();
    let (mut events, mut cursor, mut turn) = (Vec::new(), None::<String>, 0_usize);
    loop {
        let is_over = run.is_over.load(Relaxed);
        // Each page comes from another server, which has nothing but the cursor.
        let client = &run.clients[turn % run.clients.len()];
        turn += 1;
        match client.feed(&app, cursor.as_deref()).await {
            Ok(part) => {
                let is_end = part.is_end;
                events.extend(part.events);
                cursor = Some(part.cursor);
                if is_end && is_over {
                    return Ok(events);
                }
                if is_end {
                    sleep(PAUSE).await;
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

impl Run {
    fn observed(&self) -> std::sync::MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all lists of all sessions, by each client, and checks the stored state.
    async fn read_everything(&self) -> Result<(), Failure> {
        for client in &self.clients {
            for session in self.workload.sessions() {
                let lists = self.workload.all_of(session);
                let keys: Vec<_> = lists.iter().map(|list| list.key.clone()).collect();
                let process = self.recorder.process();
                self.recorder.record(process, Kind::Invoke, reads(&lists, None));
                let view = until_done(async || client.read(session, &keys).await).await?;
                self.recorder.record(process, Kind::Ok, reads(&lists, Some(&view.lists)));
                if let Err(error) = until_known(async || client.verify(session).await).await {
                    self.observed().wrong.push(format!("verify of {session}: {error:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Repeats a call whose outcome is unknown.
async fn until_known<T>(call: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        match call().await {
            Err(Failure::Unknown(_)) if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Runs one transaction after the other.
struct Worker {
    run: Arc<Run>,
    client: Arc<dyn Client>,
    process: u64,
    random: fastrand::Rng,
    name: String,
    /// How many events it has made.
    count: u64,
    /// A session's event and the lists that it left.
    last: Option<(SessionKey, Stored)>,
}

impl Worker {
    async fn work(mut self, end: Instant) {
        while Instant::now() < end {
            let sessions = self.run.workload.sessions();
            let session = sessions[self.random.usize(..sessions.len())].clone();
            match self.random.u8(..100) {
                0..55 => self.write(&session).await,
                55..80 => self.read(&session).await,
                80..94 => self.write_by_key(&session).await,
                _ => self.read_past().await,
            }
        }
    }

    /// Appends to several lists in one commit.
    async fn write(&mut self, session: &SessionKey) {
        let elements = self.run.workload.to_append(session, &mut self.random);
        let steps: Vec<_> = elements.iter().map(|(list, element)| appended(list, *element)).collect();
        self.run.recorder.record(self.process, Kind::Invoke, steps.clone());
        self.commit(session, &elements, None, steps).await;
    }

    /// Reads lists and appends to them, provided that nobody has written them in between.
    async fn write_by_key(&mut self, session: &SessionKey) {
        let lists = self.run.workload.to_read(session, &mut self.random);
        let elements: Vec<_> =
            lists.iter().filter_map(|list| Some((list.clone(), self.run.workload.element_for(list)?))).collect();
        if elements.is_empty() {
            return;
        }
        let lists: Vec<_> = elements.iter().map(|(list, _)| list.clone()).collect();
        let keys: Vec<_> = lists.iter().map(|list| list.key.clone()).collect();
        let appends = elements.iter().map(|(list, element)| appended(list, *element));
        let invoked: Vec<_> = reads(&lists, None).into_iter().chain(appends.clone()).collect();
        self.run.recorder.record(self.process, Kind::Invoke, invoked.clone());
        let Ok(View { lists: read, seen }) = self.client.read(session, &keys).await else {
            self.run.recorder.record(self.process, Kind::Fail, invoked);
            return;
        };
        // Time in which others may write.
        sleep(Duration::from_millis(self.random.u64(..4))).await;
        let steps = reads(&lists, Some(&read)).into_iter().chain(appends).collect();
        self.commit(session, &elements, Some((seen, read)), steps).await;
    }

    /// Sends an append until its outcome is known or the worker gives up, and records its end.
    async fn commit(
        &mut self,
        session: &SessionKey,
        elements: &[(List, u64)],
        seen: Option<(crate::client::Seen, Lists)>,
        mut steps: Vec<Step>,
    ) {
        self.count += 1;
        let append = Append {
            event_id: format!("{}-{}", self.name, self.count),
            elements: elements.iter().map(|(list, element)| (list.key.clone(), *element)).collect(),
            seen: seen.as_ref().map(|(seen, _)| seen.clone()),
        };
        let (begun, retries) = (Instant::now(), self.random.bool());
        let mut was_unknown = false;
        let answer = loop {
            match self.client.append(session, &append).await {
                Err(Failure::Unknown(_)) if retries && begun.elapsed() < RETRY => {
                    was_unknown = true;
                    sleep(PAUSE).await;
                }
                answer => break answer,
            }
        };
        let recorder = &self.run.recorder;
        match answer {
            Ok(stored) => {
                steps.extend(elements.iter().map(|(list, _)| Step::Read {
                    list: list.name.clone(),
                    elements: Some(stored.lists.get(&list.key).cloned().unwrap_or_default()),
                }));
                recorder.record(self.process, Kind::Ok, steps);
                self.run.observed().committed.push((session.clone(), append.event_id, stored.clone()));
                self.last = Some((session.clone(), stored));
            }
            // An earlier attempt may still be carried out: nobody knows.
            Err(_) if was_unknown => self.give_up(steps),
            Err(Failure::Conflict) => {
                let at = recorder.record(self.process, Kind::Fail, steps);
                let read = seen.map(|(_, read)| read).unwrap_or_default();
                let of =
                    |(list, _): &(List, u64)| (list.name.clone(), read.get(&list.key).cloned().unwrap_or_default());
                let refusal = Refusal { read: elements.iter().map(of).collect(), at };
                self.run.observed().refusals.push(refusal);
            }
            Err(Failure::Refused(_)) => {
                recorder.record(self.process, Kind::Fail, steps);
                sleep(PAUSE).await;
            }
            Err(Failure::Unknown(_)) => self.give_up(steps),
        }
    }

    /// Ends a transaction with an unknown outcome; the process does not go on after it. What it has read says nothing if
    /// it was not committed.
    fn give_up(&mut self, mut steps: Vec<Step>) {
        for step in &mut steps {
            if let Step::Read { elements, .. } = step {
                *elements = None;
            }
        }
        self.run.recorder.record(self.process, Kind::Info, steps);
        self.process = self.run.recorder.process();
    }

    async fn read(&mut self, session: &SessionKey) {
        let lists = self.run.workload.to_read(session, &mut self.random);
        let keys: Vec<_> = lists.iter().map(|list| list.key.clone()).collect();
        let invoked = reads(&lists, None);
        self.run.recorder.record(self.process, Kind::Invoke, invoked.clone());
        match self.client.read(session, &keys).await {
            Ok(view) => drop(self.run.recorder.record(self.process, Kind::Ok, reads(&lists, Some(&view.lists)))),
            // A read changes nothing, whether or not it was carried out.
            Err(_) => {
                self.run.recorder.record(self.process, Kind::Fail, invoked);
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads the session's own lists as they were after an event of this worker.
    async fn read_past(&self) {
        let Some((session, stored)) = &self.last else { return };
        let Ok(past) = self.client.read_at(session, stored.seq).await else { return };
        for (key, elements) in stored.lists.iter().filter(|(key, _)| !key.contains(':')) {
            if past.get(key) != Some(elements) {
                let found = past.get(key);
                let message = format!("{session} after event {}: {key} is {found:?}, and was {elements:?}", stored.seq);
                self.run.observed().wrong.push(message);
            }
        }
    }
}

fn appended(list: &List, element: u64) -> Step {
    Step::Append { list: list.name.clone(), element }
}

/// Returns the steps that read lists, with what they contain if that is known.
fn reads(lists: &[List], found: Option<&Lists>) -> Vec<Step> {
    let of = |list: &List| found.map(|found| found.get(&list.key).cloned().unwrap_or_default());
    lists.iter().map(|list| Step::Read { list: list.name.clone(), elements: of(list) }).collect()
}
