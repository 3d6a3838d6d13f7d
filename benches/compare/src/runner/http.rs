//! Measures requests to `scratchbook serve`, over persistent connections.

use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, Measurement};
use serde_json::{Value, json};

use crate::client::RunnerClient;
use crate::events::event;
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::server::MeasuredServer;
use crate::store::BenchStore;

const SESSIONS: &str = "/apps/demo/users/u/sessions";
/// How often a session is changed. The number is small, so that the session's length hardly changes.
const CHANGES: usize = 10;

/// Measures requests by a number of connections at the same time.
pub(crate) fn measure(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let server = MeasuredServer::start(bench)?;
    let mut connections = Vec::new();
    for _ in 0..request.tasks {
        connections.push(HttpWorkload { client: RunnerClient::connect(server.port)?, request });
    }
    let mut clock = LatencyClock::start(Some(server.id()));
    let started = Instant::now();
    let (mut latencies, mut pause) = (Vec::new(), Duration::ZERO);
    let results: Vec<Result<(Vec<Duration>, Duration)>> = std::thread::scope(|scope| {
        let running: Vec<_> = connections.into_iter().map(|it| scope.spawn(move || it.repeat())).collect();
        let ended =
            |result: std::thread::Result<_>| result.unwrap_or_else(|_| Err(CellFailure::new("a client panicked")));
        running.into_iter().map(|thread| ended(thread.join())).collect()
    });
    for result in results {
        let (of_one, prepared) = result?;
        latencies.extend(of_one);
        pause += prepared;
    }
    // Connections create new sessions now and then. This time is not measured, only the rest of their time.
    let pause = pause / u32::try_from(request.tasks.max(1)).unwrap_or(1);
    clock.add(latencies, started.elapsed().saturating_sub(pause));
    Ok(clock.measured())
}

struct HttpWorkload<'a> {
    client: RunnerClient,
    request: &'a CellRequest,
}

impl HttpWorkload<'_> {
    /// Repeats the request for a time. Returns how long each request took, and how long the preparation took.
    fn repeat(mut self) -> Result<(Vec<Duration>, Duration)> {
        let (mut latencies, mut prepared, started) = (Vec::new(), Duration::ZERO, Instant::now());
        let mut id = String::new();
        while latencies.is_empty() || (started.elapsed() - prepared).as_secs_f64() < self.request.seconds {
            let before = Instant::now();
            if self.request.workload != "http_create" && latencies.len().is_multiple_of(self.changes()) {
                id = self.new_session()?;
            }
            let start = Instant::now();
            prepared += start - before;
            self.ask(&id, latencies.len())?;
            latencies.push(start.elapsed());
        }
        Ok((latencies, prepared))
    }

    /// Returns how many requests use one session.
    fn changes(&self) -> usize {
        if self.request.workload == "http_get" { usize::MAX } else { CHANGES }
    }

    fn new_session(&mut self) -> Result<String> {
        let events = (0..usize::try_from(self.request.size)?).map(|n| Ok(serde_json::to_value(event(n)?)?));
        let events = events.collect::<Result<Vec<Value>>>()?;
        let answer = self.client.ask("POST", SESSIONS, &json!({"events": events}).to_string())?;
        let session: Value = serde_json::from_slice(&answer)?;
        session["id"].as_str().map(str::to_owned).ok_or_else(|| CellFailure::new("a new session has no id"))
    }

    fn ask(&mut self, id: &str, n: usize) -> Result<()> {
        let answer = match self.request.workload.as_str() {
            "http_create" => self.client.ask("POST", SESSIONS, "{}")?,
            "http_get" => self.client.ask("GET", &format!("{SESSIONS}/{id}"), "")?,
            "http_patch" => {
                let body = json!({"stateDelta": {"step": format!("step {n}")}});
                self.client.ask("PATCH", &format!("{SESSIONS}/{id}"), &body.to_string())?
            }
            // The demo's agent calls a tool that writes the name to the state, and answers. The first run of a session
            // also counts a visit.
            _ => {
                let message = json!({"role": "user", "parts": [{"text": "my name is Ann"}]});
                let body = json!({"appName": "demo", "userId": "u", "sessionId": id, "newMessage": message});
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
