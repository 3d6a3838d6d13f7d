//! The workloads.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use adk_core::Event;
use adk_core::identity::AdkIdentity;
use adk_runner::Runner;
use adk_session::{AppendEventRequest, CreateRequest, GetRequest, ListRequest, Session};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::agent;
use crate::check::CellErrors;
use crate::data::{APP, EventOrigin, SessionValues, created, created_with, delta, event, keys, origin, user};
use crate::measure::{CellTimes, Preparation, repeat, resident};
use crate::protocol::{PeerFailure, PeerRequest, Result};
use crate::store::{PeerDatabase, PooledService};

/// How many sessions a listing has to find.
const SESSIONS_OF_A_USER: usize = 10;
/// About how many events are created to measure the memory of one event.
const EVENTS_IN_MEMORY: usize = 10_000;
/// How many events are prepared at most for turns.
const TURN_EVENTS: usize = 2_000;
/// Over how many sessions the turns of a task are spread at most, so that the sessions' length hardly changes.
const TURN_SESSIONS: usize = 32;
/// How many events each task writes to a shared session.
const SHARED_EVENTS: usize = 25;

const NO_SESSION: &str = "an append takes no session object";

/// Every workload on one store, and what was prepared for later rounds.
pub(crate) struct Cells {
    store: PooledService,
    runner: Arc<Runner>,
    /// The arguments of this program for a cold start.
    start: [String; 2],
    users: AtomicUsize,
    long: Mutex<HashMap<usize, AdkIdentity>>,
    listed: Mutex<Vec<usize>>,
}

impl Cells {
    pub(crate) fn new(store: PooledService, kind: &str, location: &str) -> Result<Self> {
        Ok(Self {
            runner: Arc::new(agent::runner(&store)?),
            store,
            start: [kind.to_owned(), location.to_owned()],
            users: AtomicUsize::new(0),
            long: Mutex::default(),
            listed: Mutex::default(),
        })
    }

    pub(crate) async fn answer(&self, request: &PeerRequest) -> Result<Value> {
        match request.workload.as_str() {
            "create" => self.create(request).await,
            "append" => self.append(request, false).await,
            "append_hot" => self.append(request, true).await,
            "append_shared" => self.append_shared(request).await,
            "get" => self.get(request, None, false).await,
            "get_json" => self.get(request, None, true).await,
            "get_recent" => self.get(request, Some(10), false).await,
            "list" => self.list(request).await,
            "state" => self.state(request).await,
            "turn" => self.turn(request).await,
            "size_on_disk" => self.size_on_disk(request).await,
            "memory" => self.memory(request).await,
            "cold_start" => self.cold_start(request).await,
            other => Err(PeerFailure::Unsupported(format!("the runner has no workload '{other}'."))),
        }
    }

    /// Creates a session of a new user, with this many events.
    async fn session(&self, events: usize, state: SessionValues, preparation: &mut Preparation) -> Result<AdkIdentity> {
        let user = user(self.users.fetch_add(1, Ordering::Relaxed));
        let session = create_in(&self.store, user, state).await?;
        self.store.fill(&session, events, preparation).await?;
        Ok(session)
    }

    async fn sessions(&self, number: usize, events: usize) -> Result<Arc<[AdkIdentity]>> {
        let (mut preparation, mut sessions) = (Preparation::new(number * events.max(1)), Vec::new());
        for _ in 0..number {
            sessions.push(self.session(events, created(), &mut preparation).await?);
        }
        Ok(sessions.into())
    }

    async fn create(&self, request: &PeerRequest) -> Result<Value> {
        let (store, state) = (self.store.clone(), Arc::new(created_with(request.size)));
        let step = move |task, _| {
            let (store, state) = (store.clone(), state.clone());
            async move { create_in(&store, user(task), SessionValues::clone(&state)).await.map(drop) }
        };
        Ok(repeat(request.tasks, request.seconds, step).await?.0)
    }

    async fn append(&self, request: &PeerRequest, hot: bool) -> Result<Value> {
        let sessions = self.sessions(request.tasks, request.size).await?;
        self.append_to(request, sessions, hot).await
    }

    async fn state(&self, request: &PeerRequest) -> Result<Value> {
        let mut sessions = Vec::new();
        for _ in 0..request.tasks {
            sessions.push(self.session(0, keys(request.size), &mut Preparation::new(1)).await?);
        }
        self.append_to(request, sessions.into(), false).await
    }

    /// Lets each task append to its own session. Afterwards every session is read.
    async fn append_to(&self, request: &PeerRequest, sessions: Arc<[AdkIdentity]>, hot: bool) -> Result<Value> {
        let change = move |task: usize, number: usize| {
            let mut change = delta((task as i64, number));
            if hot {
                change.insert("app:hot".to_owned(), json!(format!("hot {task} {number}")));
            }
            change
        };
        let refused = Arc::new(AtomicUsize::new(0));
        let (store, own, counted) = (self.store.clone(), sessions.clone(), refused.clone());
        let step = move |task: usize, number: usize| {
            let (store, own, refused) = (store.clone(), own.clone(), counted.clone());
            let make = move || event((task as i64, number), change(task, number));
            async move { insist(&store, &own[task], &refused, make).await }
        };
        let (answer, done) = repeat(request.tasks, request.seconds, step).await?;
        let mut wrong = CellErrors { refused: refused.load(Ordering::Relaxed), ..CellErrors::default() };
        let last = |task: usize| change(task, done[task] - 1);
        for (task, session) in sessions.iter().enumerate() {
            let acknowledged: Vec<EventOrigin> = (0..done[task]).map(|number| (task as i64, number)).collect();
            let (stored, state) = self.stored(session, acknowledged.len() + 100).await?;
            let mut expected = last(task).into_iter().filter(|(key, _)| !key.starts_with("app:"));
            let is_there = expected.all(|(key, value)| state.get(&key) == Some(&value));
            let lacking = acknowledged.last().filter(|_| !is_there);
            wrong.compare(&acknowledged, &stored, lacking.map(std::slice::from_ref).unwrap_or_default());
            if hot && task == 0 {
                let found = state.get("app:hot");
                wrong.lost += usize::from(!(0..request.tasks).any(|task| last(task).get("app:hot") == found));
            }
        }
        Ok(with(answer, &[("wrong", wrong.counts()), ("note", json!(NO_SESSION))]))
    }

    /// Lets each task append 25 events to one session, with its own keys. This is repeated with new sessions until the
    /// time is over.
    async fn append_shared(&self, request: &PeerRequest) -> Result<Value> {
        let (mut wrong, mut measured, begun) = (CellErrors::default(), CellTimes::default(), Instant::now());
        while measured.count() == 0 || begun.elapsed().as_secs_f64() < request.seconds {
            self.share(request, &mut wrong, &mut measured).await?;
        }
        let attempted = measured.count() + wrong.refused;
        let more = [("wrong", wrong.counts()), ("attempted", json!(attempted)), ("note", json!(NO_SESSION))];
        Ok(with(measured.answer(), &more))
    }

    async fn share(&self, request: &PeerRequest, wrong: &mut CellErrors, measured: &mut CellTimes) -> Result<()> {
        let session = self.sessions(1, request.size).await?[0].clone();
        let key = |(writer, number): EventOrigin| format!("key-{writer}-{number}");
        let refused = Arc::new(AtomicUsize::new(0));
        let (store, shared, counted) = (self.store.clone(), session.clone(), refused.clone());
        let step = move |task: usize, number: usize| {
            let (store, session, refused) = (store.clone(), shared.clone(), counted.clone());
            let origin = (task as i64, number);
            let make = move || event(origin, SessionValues::from([(key(origin), json!("written"))]));
            async move { insist(&store, &session, &refused, make).await }
        };
        measured.part(request.tasks, step, |_, done| done == SHARED_EVENTS).await?;
        let of_task = |task: usize| (0..SHARED_EVENTS).map(move |number| (task as i64, number));
        let acknowledged: Vec<EventOrigin> = (0..request.tasks).flat_map(of_task).collect();
        let (stored, state) = self.stored(&session, acknowledged.len() * 2 + 100).await?;
        let lacking = acknowledged.iter().copied().filter(|origin| !state.contains_key(&key(*origin)));
        wrong.compare(&acknowledged, &stored, &lacking.collect::<Vec<_>>());
        wrong.refused += refused.load(Ordering::Relaxed);
        Ok(())
    }

    /// Returns the origins of the last events of a session, in their order, and the session's state.
    async fn stored(&self, session: &AdkIdentity, most: usize) -> Result<(Vec<EventOrigin>, SessionValues)> {
        let found = self.store.service.get(reading(session, Some(most))).await?;
        let origins = found.events().all().iter().filter_map(origin).filter(|origin| origin.0 >= 0).collect();
        Ok((origins, found.state().all()))
    }

    async fn get(&self, request: &PeerRequest, recent: Option<usize>, is_json: bool) -> Result<Value> {
        let mut long = self.long.lock().await;
        let session = match long.get(&request.size) {
            Some(session) => session.clone(),
            None => self.sessions(1, request.size).await?[0].clone(),
        };
        long.insert(request.size, session.clone());
        let (store, expected) = (self.store.clone(), recent.unwrap_or(request.size).min(request.size));
        let step = move |_, _| {
            let (store, reading) = (store.clone(), reading(&session, recent));
            async move {
                let found = store.service.get(reading).await?;
                let events = found.events().len();
                if events != expected {
                    return Err(PeerFailure::Error(format!("{events} events in place of {expected}")));
                }
                if is_json && text(&*found)?.len() < events * 300 {
                    return Err(PeerFailure::Error("the text of the session is too short".to_owned()));
                }
                Ok(())
            }
        };
        let answer = repeat(request.tasks, request.seconds, step).await?.0;
        let note = is_json.then_some("a session has no JSON of its own: its events and its state by serde_json");
        Ok(with(answer, &[("note", json!(note))]))
    }

    async fn list(&self, request: &PeerRequest) -> Result<Value> {
        let app = format!("{APP}-{}", request.size);
        let mut listed = self.listed.lock().await;
        if !listed.contains(&request.size) {
            let users: Vec<String> = (0..request.size).map(|n| user(n / SESSIONS_OF_A_USER)).collect();
            self.store.fill_sessions(&app, &users, &mut Preparation::new(request.size)).await?;
            listed.push(request.size);
        }
        let store = self.store.clone();
        let step = move |_, _| {
            let store = store.clone();
            let request = ListRequest { app_name: app.clone(), user_id: user(1), limit: None, offset: None };
            async move {
                let found = store.service.list(request).await?.len();
                let is_right = found == SESSIONS_OF_A_USER;
                if is_right { Ok(()) } else { Err(PeerFailure::Error(format!("{found} sessions in the listing"))) }
            }
        };
        Ok(repeat(request.tasks, request.seconds, step).await?.0)
    }

    async fn turn(&self, request: &PeerRequest) -> Result<Value> {
        let each = (TURN_EVENTS / request.size.max(1)).clamp(1, TURN_SESSIONS);
        let sessions = self.sessions(request.tasks * each, request.size).await?;
        let runner = self.runner.clone();
        let step = move |task: usize, number: usize| {
            let (runner, session) = (runner.clone(), sessions[task * each + number % each].clone());
            async move {
                let text = agent::turn(&runner, session.user_id.as_ref(), session.session_id.as_ref()).await?;
                if text == "It is done." { Ok(()) } else { Err(PeerFailure::Error(format!("the agent says '{text}'"))) }
            }
        };
        Ok(repeat(request.tasks, request.seconds, step).await?.0)
    }

    /// Measures how much the database grows for each event of a session.
    async fn size_on_disk(&self, request: &PeerRequest) -> Result<Value> {
        let (before, begun) = (self.store.disk().await?, Instant::now());
        self.sessions(1, request.size).await?;
        Ok(per_event(request.size, begun, self.store.disk().await? - before))
    }

    /// Measures how much the resident memory grows for each event. About ten thousand events are created, or one
    /// session if it is longer.
    async fn memory(&self, request: &PeerRequest) -> Result<Value> {
        if !matches!(self.store.database, PeerDatabase::Memory) {
            return Err(PeerFailure::Unsupported("this store keeps sessions in a database.".to_owned()));
        }
        let number = (EVENTS_IN_MEMORY / request.size.max(1)).max(1);
        let (before, begun) = (resident()?, Instant::now());
        self.sessions(number, request.size).await?;
        Ok(per_event(number * request.size, begun, resident()? - before))
    }

    /// Measures starts of this program on a new store, until it has created a session.
    async fn cold_start(&self, request: &PeerRequest) -> Result<Value> {
        let [kind, location] = self.start.clone();
        let is_folder = !location.contains("://");
        let step = move |_, number: usize| {
            let (kind, location) = (kind.clone(), location.clone());
            async move {
                let mut place = location.clone();
                if is_folder {
                    let folder = Path::new(&location).join(format!("start-{}-{number}", std::process::id()));
                    std::fs::create_dir_all(&folder)?;
                    place = folder.display().to_string();
                }
                let program = std::env::current_exe()?;
                let mut child =
                    Command::new(program).args([kind, place]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                if let Some(mut input) = child.stdin.take() {
                    input.write_all(b"{\"workload\": \"create\", \"seconds\": 0}\n")?;
                }
                let output = child.wait_with_output()?;
                let answer = String::from_utf8_lossy(&output.stdout).into_owned();
                let is_right = answer.contains("\"operations\":1,");
                if is_right { Ok(()) } else { Err(PeerFailure::Error(format!("a cold start answers {answer}"))) }
            }
        };
        Ok(repeat(1, request.seconds, step).await?.0)
    }
}

async fn create_in(store: &PooledService, user_id: String, state: SessionValues) -> Result<AdkIdentity> {
    let request = CreateRequest { app_name: APP.to_owned(), user_id, session_id: None, state };
    Ok(store.service.create(request).await?.try_identity()?)
}

/// Appends an event. Tries again if the service refuses because others write, as a correct program does.
async fn insist(
    store: &PooledService,
    identity: &AdkIdentity,
    refused: &AtomicUsize,
    make: impl Fn() -> Event + Send + Sync,
) -> Result<()> {
    loop {
        let request = AppendEventRequest { identity: identity.clone(), event: make() };
        let Err(error) = store.service.append_event_for_identity(request).await else { return Ok(()) };
        let words = error.to_string();
        if !["locked", "deadlock", "could not serialize"].iter().any(|word| words.contains(word)) {
            return Err(error.into());
        }
        refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn reading(session: &AdkIdentity, num_recent_events: Option<usize>) -> GetRequest {
    GetRequest {
        app_name: session.app_name.as_ref().to_owned(),
        user_id: session.user_id.as_ref().to_owned(),
        session_id: session.session_id.as_ref().to_owned(),
        num_recent_events,
        after: None,
    }
}

fn text(session: &dyn Session) -> Result<String> {
    let events: Vec<&Event> = (0..session.events().len()).filter_map(|n| session.events().at(n)).collect();
    let names = [session.app_name(), session.user_id(), session.id()];
    Ok(serde_json::to_string(&(names, session.state().all(), events))?)
}

/// Returns the answer for a cell that counts bytes.
fn per_event(events: usize, begun: Instant, grown: f64) -> Value {
    json!({
        "operations": events,
        "seconds": begun.elapsed().as_secs_f64(),
        "processor_seconds": null,
        "latencies_us": null,
        "wrong": null,
        "bytes": (grown / events as f64).round(),
        "note": null,
    })
}

fn with(mut answer: Value, entries: &[(&str, Value)]) -> Value {
    for (name, value) in entries {
        answer[*name] = value.clone();
    }
    answer
}
