//! Measures requests to `scratchbook serve`, over persistent connections.

use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, Measurement, WrongCounts};
use serde_json::{Value, json};

use crate::client::RunnerClient;
use crate::events::{created, event};
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::server::MeasuredServer;
use crate::shared::compare_one_writer;
use crate::store::BenchStore;

/// How often a session is changed. The number is small, so that the session's length hardly changes.
const CHANGES: usize = 10;

/// Measures requests by a number of connections at the same time.
pub(crate) fn measure(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let server = MeasuredServer::start(bench)?;
    let mut connections = Vec::new();
    for task in 0..request.tasks {
        let (client, user) = (RunnerClient::connect(server.port)?, format!("http-{task}"));
        let sessions = format!("/apps/demo/users/{user}/sessions");
        connections.push(HttpWorkload { client, request, user, sessions, wrong: WrongCounts::default() });
    }
    let mut clock = LatencyClock::start(Some(server.id()));
    let started = Instant::now();
    let (mut latencies, mut pause) = (Vec::new(), Duration::ZERO);
    let results: Vec<Result<FinishedConnection>> = std::thread::scope(|scope| {
        let running: Vec<_> = connections.into_iter().map(|it| scope.spawn(move || it.repeat())).collect();
        let ended =
            |result: std::thread::Result<_>| result.unwrap_or_else(|_| Err(CellFailure::new("a client panicked")));
        running.into_iter().map(|thread| ended(thread.join())).collect()
    });
    let mut wrong = WrongCounts::default();
    for result in results {
        let finished = result?;
        latencies.extend(finished.latencies);
        pause += finished.prepared;
        wrong.add(&finished.wrong);
    }
    // Connections create new sessions now and then. This time is not measured, only the rest of their time.
    let pause = pause / u32::try_from(request.tasks.max(1)).unwrap_or(1);
    clock.add(latencies, started.elapsed().saturating_sub(pause));
    Ok(Measurement { wrong, ..clock.measured() })
}

/// A connection that has sent its requests.
struct FinishedConnection {
    latencies: Vec<Duration>,
    /// How long everything took that is not measured: creating sessions, and reading them back.
    prepared: Duration,
    wrong: WrongCounts,
}

struct HttpWorkload<'a> {
    client: RunnerClient,
    request: &'a CellRequest,
    /// Each connection has a user of its own.
    user: String,
    /// The path of the user's sessions.
    sessions: String,
    wrong: WrongCounts,
}

impl HttpWorkload<'_> {
    /// Repeats the request for a time.
    fn repeat(mut self) -> Result<FinishedConnection> {
        let (mut latencies, mut prepared, started) = (Vec::new(), Duration::ZERO, Instant::now());
        let (mut id, mut first) = (String::new(), 0);
        while latencies.is_empty() || (started.elapsed() - prepared).as_secs_f64() < self.request.seconds {
            let before = Instant::now();
            if self.request.workload != "http_create" && latencies.len().is_multiple_of(self.changes()) {
                self.read_back(&id, first, latencies.len())?;
                (id, first) = (self.new_session()?, latencies.len());
            }
            let start = Instant::now();
            prepared += start - before;
            self.ask(&id, latencies.len())?;
            latencies.push(start.elapsed());
        }
        let end = Instant::now();
        self.read_back(&id, first, latencies.len())?;
        prepared += end.elapsed();
        Ok(FinishedConnection { latencies, prepared, wrong: self.wrong })
    }

    /// Reads a session whose state was changed by the requests with these numbers, and counts what is wrong.
    fn read_back(&mut self, id: &str, first: usize, end: usize) -> Result<()> {
        if self.request.workload != "http_patch" || first == end {
            return Ok(());
        }
        let answer = self.client.ask("GET", &format!("{}/{id}", self.sessions), "")?;
        let session: Value = serde_json::from_slice(&answer)?;
        let number = |step: &Value| step.as_str()?.strip_prefix("step ")?.parse::<usize>().ok()?.checked_sub(first);
        let events = session["events"].as_array().into_iter().flatten().skip(usize::try_from(self.request.size)?);
        let stored = events.filter_map(|event| number(&event["actions"]["stateDelta"]["step"]));
        let last = number(&session["state"]["step"]);
        self.wrong.add(&compare_one_writer(end - first, stored, last));
        Ok(())
    }

    /// Returns how many requests use one session.
    fn changes(&self) -> usize {
        if self.request.workload == "http_get" { usize::MAX } else { CHANGES }
    }

    fn new_session(&mut self) -> Result<String> {
        let events = (0..usize::try_from(self.request.size)?).map(|n| Ok(serde_json::to_value(event(n)?)?));
        let events = events.collect::<Result<Vec<Value>>>()?;
        let answer =
            self.client.ask("POST", &self.sessions, &json!({"state": created(), "events": events}).to_string())?;
        let session: Value = serde_json::from_slice(&answer)?;
        session["id"].as_str().map(str::to_owned).ok_or_else(|| CellFailure::new("a new session has no id"))
    }

    fn ask(&mut self, id: &str, n: usize) -> Result<()> {
        let answer = match self.request.workload.as_str() {
            "http_create" => self.client.ask("POST", &self.sessions, &json!({"state": created()}).to_string())?,
            "http_get" => self.client.ask("GET", &format!("{}/{id}", self.sessions), "")?,
            "http_patch" => {
                let body = json!({"stateDelta": {"step": format!("step {n}"), "user:step": format!("step {n}")}});
                self.client.ask("PATCH", &format!("{}/{id}", self.sessions), &body.to_string())?
            }
            // The demo's agent calls a tool that writes the name to the state, and answers. The first run of a session
            // also counts a visit.
            _ => {
                let message = json!({"role": "user", "parts": [{"text": "my name is Ann"}]});
                let body = json!({"appName": "demo", "userId": self.user, "sessionId": id, "newMessage": message});
                let answer = self.client.ask("POST", "/run", &body.to_string())?;
                let events: Vec<Value> = serde_json::from_slice(&answer)?;
                if events.len() < 3 {
                    return Err(CellFailure::new(format!("a run had {} events, not 3 at least", events.len())));
                }
                answer
            }
        };
        if answer.is_empty() { Err(CellFailure::new("an answer is empty")) } else { Ok(()) }
    }
}
