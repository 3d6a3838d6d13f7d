//! A worker, which runs one transaction after the other and records them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::SessionKey;
use tokio::time::sleep;

use crate::client::{CallFailure, CommittedEvent, EventAppend, HistoryClient, Lists, SeenVersion, StateView};
use crate::drive::{GuardedWrite, PAUSE, RefusedWrite, WorkerContext};
use crate::history::{EntryKind, TransactionStep};
use crate::workload::List;

/// How long a worker repeats an append with an unknown outcome, with the same event id.
const RETRY: Duration = Duration::from_secs(5);

/// How many transactions a worker runs in a second at most. The checks hold the whole history in memory, and a store in
/// memory would make gigabytes of it. The seconds are the same for all workers, so they still write at the same time.
const MOST_PER_SECOND: u32 = 40;

/// Runs one transaction after the other.
pub(crate) struct Worker {
    run: Arc<WorkerContext>,
    client: Arc<dyn HistoryClient>,
    process: u64,
    random: fastrand::Rng,
    name: String,
    /// How many events the worker has made.
    count: u64,
    /// A session's last event by this worker, and the lists after this event.
    last: Option<(SessionKey, CommittedEvent)>,
}

impl Worker {
    pub(crate) fn new(run: Arc<WorkerContext>, seed: u64, n: usize) -> Self {
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(n as u64));
        let (client, process) = (Arc::clone(&run.clients[n % run.clients.len()]), run.recorder.process());
        Self { run, client, process, random, count: 0, name: format!("{seed}-{n}"), last: None }
    }

    pub(crate) async fn work(mut self, end: Instant) {
        let (mut second, mut done) = (Duration::from_secs(1), 0);
        loop {
            let passed = self.run.recorder.begun().elapsed();
            if passed >= second {
                (second, done) = (Duration::from_secs(passed.as_secs() + 1), 0);
            } else if done == MOST_PER_SECOND {
                sleep(second - passed).await;
                continue;
            }
            if Instant::now() >= end {
                return;
            }
            done += 1;
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
        self.run.recorder.record(self.process, EntryKind::Invoke, steps.clone());
        self.commit(session, &elements, None, steps).await;
    }

    /// Reads lists and appends to them. The append is refused if another worker has written them in between.
    async fn write_by_key(&mut self, session: &SessionKey) {
        let lists = self.run.workload.to_read(session, &mut self.random);
        let elements: Vec<_> =
            lists.iter().filter_map(|list| Some((list.clone(), self.run.workload.element_for(list)?))).collect();
        if elements.is_empty() {
            return;
        }
        let lists: Vec<_> = elements.iter().map(|(list, _)| list.clone()).collect();
        let appends = elements.iter().map(|(list, element)| appended(list, *element));
        let invoked: Vec<_> = reads(&lists, None).into_iter().chain(appends.clone()).collect();
        self.run.recorder.record(self.process, EntryKind::Invoke, invoked.clone());
        let Some(StateView { lists: read, seen }) = self.view(session, &lists, invoked).await else { return };
        // Other workers may write during this time.
        sleep(Duration::from_millis(self.random.u64(..4))).await;
        let steps = reads(&lists, Some(&read)).into_iter().chain(appends).collect();
        self.commit(session, &elements, Some((seen, read)), steps).await;
    }

    /// Sends an append until its outcome is known or the worker gives up. Records the end of the transaction.
    async fn commit(
        &mut self,
        session: &SessionKey,
        elements: &[(List, u64)],
        seen: Option<(SeenVersion, Lists)>,
        mut steps: Vec<TransactionStep>,
    ) {
        self.count += 1;
        let append = EventAppend {
            event_id: format!("{}-{}", self.name, self.count),
            elements: elements.iter().map(|(list, element)| (list.key.clone(), *element)).collect(),
            seen: seen.as_ref().map(|(seen, _)| seen.clone()),
        };
        let (begun, retries) = (Instant::now(), self.random.bool());
        let mut was_unknown = false;
        let answer = loop {
            match self.client.append(session, &append).await {
                Err(CallFailure::Unknown(_)) if retries && begun.elapsed() < RETRY => {
                    self.run.failures.add();
                    was_unknown = true;
                    sleep(PAUSE).await;
                }
                answer => break answer,
            }
        };
        let recorder = &self.run.recorder;
        match answer {
            Ok(stored) => {
                steps.extend(elements.iter().map(|(list, _)| TransactionStep::Read {
                    list: list.name.clone(),
                    elements: Some(stored.lists.get(&list.key).cloned().unwrap_or_default()),
                }));
                recorder.record(self.process, EntryKind::Ok, steps);
                self.run.observed().committed.push((session.clone(), append.event_id, stored.clone()));
                self.last = Some((session.clone(), stored));
            }
            // This is also the outcome of earlier attempts: a stored event is answered as stored, and an attempt that is
            // still under way is refused as well.
            Err(CallFailure::Conflict) if seen.is_some() => {
                let at = recorder.record(self.process, EntryKind::Fail, steps);
                let read = seen.map(|(_, read)| read).unwrap_or_default();
                let of =
                    |(list, _): &(List, u64)| (list.name.clone(), read.get(&list.key).cloned().unwrap_or_default());
                let refusal = RefusedWrite { read: elements.iter().map(of).collect(), at };
                self.run.observed().refusals.push(refusal);
            }
            // An earlier attempt may still be carried out, so the outcome is unknown.
            Err(error) if was_unknown => self.give_up(session, elements, seen, steps, error),
            Err(error @ (CallFailure::Unknown(_) | CallFailure::Broken(_))) => {
                self.give_up(session, elements, seen, steps, error);
            }
            Err(error) => self.fail(session, steps, error).await,
        }
    }

    /// Ends a transaction with an unknown outcome. The process ends with it. The reads are not recorded, because they
    /// mean nothing if the transaction was not committed.
    fn give_up(
        &mut self,
        session: &SessionKey,
        elements: &[(List, u64)],
        seen: Option<(SeenVersion, Lists)>,
        mut steps: Vec<TransactionStep>,
        error: CallFailure,
    ) {
        self.run.failures.add();
        self.doubt(session, error);
        for step in &mut steps {
            if let TransactionStep::Read { elements, .. } = step {
                *elements = None;
            }
        }
        self.run.recorder.record(self.process, EntryKind::Info, steps);
        self.process = self.run.recorder.process();
        let lists = elements.iter().map(|(list, _)| list.clone()).collect();
        let mut observed = self.run.observed();
        observed.unknown.push((session.clone(), lists));
        if let Some((_, read)) = seen {
            let before = |list: &List| read.get(&list.key).cloned().unwrap_or_default();
            let appended = elements.iter().map(|(list, element)| (list.name.clone(), before(list), *element)).collect();
            observed.unknown_by_key.push(GuardedWrite { appended });
        }
    }

    /// Ends a transaction that was not carried out, or that only reads.
    async fn fail(&self, session: &SessionKey, steps: Vec<TransactionStep>, error: CallFailure) {
        self.run.failures.add();
        self.run.recorder.record(self.process, EntryKind::Fail, steps);
        self.doubt(session, error);
        sleep(PAUSE).await;
    }

    /// Records an error that no fault explains.
    fn doubt(&self, session: &SessionKey, error: CallFailure) {
        let message = format!("a transaction on {session} failed: {error}");
        match error {
            CallFailure::Refused(_) | CallFailure::Conflict => self.run.observed().wrong.push(message),
            CallFailure::Broken(_) => self.run.observed().defects.push(message),
            CallFailure::NotDone(_) | CallFailure::Unknown(_) => {}
        }
    }

    /// Reads lists, or ends the transaction with these steps.
    async fn view(&self, session: &SessionKey, lists: &[List], steps: Vec<TransactionStep>) -> Option<StateView> {
        match self.client.read(session, &keys(lists)).await {
            Ok(view) => Some(view),
            Err(error) => {
                self.fail(session, steps, error).await;
                None
            }
        }
    }

    async fn read(&mut self, session: &SessionKey) {
        let lists = self.run.workload.to_read(session, &mut self.random);
        let invoked = reads(&lists, None);
        self.run.recorder.record(self.process, EntryKind::Invoke, invoked.clone());
        if let Some(view) = self.view(session, &lists, invoked).await {
            self.run.recorder.record(self.process, EntryKind::Ok, reads(&lists, Some(&view.lists)));
        }
    }

    /// Reads the session's own lists as they were after an event of this worker.
    async fn read_past(&self) {
        let Some((session, stored)) = &self.last else { return };
        let past = match self.client.read_at(session, stored.seq).await {
            Ok(past) => past,
            Err(error) => return self.doubt(session, error),
        };
        for (key, elements) in stored.lists.iter().filter(|(key, _)| !key.contains(':')) {
            if past.get(key) != Some(elements) {
                let found = past.get(key);
                let message = format!("{session} after event {}: {key} is {found:?}, and was {elements:?}", stored.seq);
                self.run.observed().wrong.push(message);
            }
        }
    }
}

/// Returns the keys of lists.
pub(crate) fn keys(lists: &[List]) -> Vec<String> {
    lists.iter().map(|list| list.key.clone()).collect()
}

fn appended(list: &List, element: u64) -> TransactionStep {
    TransactionStep::Append { list: list.name.clone(), element }
}

/// Returns the steps that read lists, with the elements of the lists if they are known.
pub(crate) fn reads(lists: &[List], found: Option<&Lists>) -> Vec<TransactionStep> {
    let of = |list: &List| found.map(|found| found.get(&list.key).cloned().unwrap_or_default());
    lists.iter().map(|list| TransactionStep::Read { list: list.name.clone(), elements: of(list) }).collect()
}
