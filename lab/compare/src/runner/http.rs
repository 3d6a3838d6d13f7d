//! Measures requests to `scratchbook serve`, over persistent connections, in phases: all connections prepare a session
//! each, then all of them begin together and send the same number of requests, or as many as they can in the time of
//! the cell, then all of them read their session back.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, Measurement, WrongCounts};
use serde_json::{Value, json};

use crate::client::RunnerClient;
use crate::events::{created, created_with, event};
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::server::MeasuredServer;
use crate::shared::compare_one_writer;
use crate::store::BenchStore;

/// How often a session is changed at most. The number is small, so that the session's length hardly changes.
const CHANGES: usize = 10;
/// In which time after the start of a cell its last phase begins.
const LAST_PHASE: Duration = Duration::from_secs(25);

/// Measures requests by a number of connections at the same time. Only the requests count, and not what the connections
/// do before and after a phase.
pub(crate) fn measure(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let server = MeasuredServer::start(bench)?;
    let opened = (0..request.tasks).map(|task| HttpConnection::open(server.port, request, task));
    let mut connections = opened.collect::<Result<Vec<_>>>()?;
    let (mut clock, mut wrong, begun) =
        (LatencyClock::start(Some(server.id())), WrongCounts::default(), Instant::now());
    loop {
        at_once(&mut connections, HttpConnection::prepare)?;
        let start = Barrier::new(connections.len());
        let phase = at_once(&mut connections, |connection| {
            start.wait();
            connection.send()
        })?;
        let (first, last) = (phase.iter().map(|it| it.started).min(), phase.iter().map(|it| it.ended).max());
        let elapsed = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        clock.add(phase.into_iter().flat_map(|it| it.latencies).collect(), elapsed);
        for found in at_once(&mut connections, HttpConnection::read_back)? {
            wrong.add(&found);
        }
        if clock.elapsed().as_secs_f64() >= request.seconds || begun.elapsed() > LAST_PHASE {
            return Ok(Measurement { wrong, ..clock.measured() });
        }
    }
}

/// Lets all connections do something at the same time. Returns when all of them have ended: with their results, or with
/// the first failure.
fn at_once<C: Send, T: Send>(connections: &mut [C], what: impl Fn(&mut C) -> Result<T> + Sync) -> Result<Vec<T>> {
    let what = &what;
    std::thread::scope(|scope| {
        let running: Vec<_> = connections.iter_mut().map(|it| scope.spawn(move || what(it))).collect();
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        ended.into_iter().map(|it| it.unwrap_or_else(|_| Err(CellFailure::new("a client panicked")))).collect()
    })
}

/// The requests of a connection in one phase.
struct SentRequests {
    started: Instant,
    ended: Instant,
    latencies: Vec<Duration>,
}

struct HttpConnection<'a> {
    client: RunnerClient,
    request: &'a CellRequest,
    /// Each connection has a user of its own.
    user: String,
    /// The path of the user's sessions.
    sessions: String,
    /// The session of the phase.
    id: String,
    /// How many requests were sent in the phase.
    sent: usize,
}

impl<'a> HttpConnection<'a> {
    fn open(port: u16, request: &'a CellRequest, task: usize) -> Result<Self> {
        let (client, user) = (RunnerClient::connect(port)?, format!("http-{task}"));
        let sessions = format!("/apps/demo/users/{user}/sessions");
        Ok(Self { client, request, user, sessions, id: String::new(), sent: 0 })
    }

    /// Creates the session of the next phase.
    fn prepare(&mut self) -> Result<()> {
        if self.request.workload == "http_create" {
            return Ok(());
        }
        let events = (0..usize::try_from(self.request.size)?).map(|n| Ok(serde_json::to_value(event(n)?)?));
        let events = events.collect::<Result<Vec<Value>>>()?;
        let body = json!({"state": created(), "events": events}).to_string();
        let session: Value = serde_json::from_slice(&self.client.ask("POST", &self.sessions, &body)?)?;
        let id = session["id"].as_str().ok_or_else(|| CellFailure::new("a new session has no id"))?;
        id.clone_into(&mut self.id);
        Ok(())
    }

    /// Sends the requests of a phase, but one at least.
    fn send(&mut self) -> Result<SentRequests> {
        // What changes no session has one phase, which takes the whole time.
        let most = match self.request.workload.as_str() {
            "http_create" | "http_get" => usize::MAX,
            _ => CHANGES,
        };
        let (started, mut latencies) = (Instant::now(), Vec::new());
        loop {
            let before = Instant::now();
            self.ask(latencies.len())?;
            let ended = Instant::now();
            latencies.push(ended - before);
            self.sent = latencies.len();
            if self.sent == most || (ended - started).as_secs_f64() >= self.request.seconds {
                return Ok(SentRequests { started, ended, latencies });
            }
        }
    }

    fn ask(&mut self, n: usize) -> Result<()> {
        let path = format!("{}/{}", self.sessions, self.id);
        let answer = match self.request.workload.as_str() {
            "http_create" => {
                let body = json!({"state": created_with(self.request.size)}).to_string();
                self.client.ask("POST", &self.sessions, &body)?
            }
            "http_get" => self.client.ask("GET", &path, "")?,
            "http_patch" => {
                let body = json!({"stateDelta": {"step": format!("step {n}"), "user:step": format!("step {n}")}});
                self.client.ask("PATCH", &path, &body.to_string())?
            }
            // The demo's agent calls a tool that writes the name to the state, and answers. The first run of a session
            // also counts a visit.
            _ => {
                let message = json!({"role": "user", "parts": [{"text": "my name is Ann"}]});
                let body = json!({"appName": "demo", "userId": self.user, "sessionId": self.id, "newMessage": message});
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

    /// Reads the session back if the requests of the phase changed its state, and counts what is wrong.
    fn read_back(&mut self) -> Result<WrongCounts> {
        if self.request.workload != "http_patch" {
            return Ok(WrongCounts::default());
        }
        let answer = self.client.ask("GET", &format!("{}/{}", self.sessions, self.id), "")?;
        let session: Value = serde_json::from_slice(&answer)?;
        let number = |step: &Value| step.as_str()?.strip_prefix("step ")?.parse().ok();
        let events = session["events"].as_array().into_iter().flatten().skip(usize::try_from(self.request.size)?);
        let stored = events.filter_map(|event| number(&event["actions"]["stateDelta"]["step"]));
        Ok(compare_one_writer(self.sent, stored, number(&session["state"]["step"])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_do_something_at_once_and_one_failure_ends_it() {
        let (mut connections, all) = ([1, 2, 3], Barrier::new(3));
        let doubled = at_once(&mut connections, |it| {
            // Nobody waits longer than until the last one is here.
            all.wait();
            *it *= 2;
            Ok(*it)
        });
        assert_eq!(doubled.ok(), Some(vec![2, 4, 6]));
        let failed = at_once(&mut connections, |it| {
            all.wait();
            if *it == 4 { Err(CellFailure::new("no")) } else { Ok(()) }
        });
        assert_eq!(failed.err().map(|failure| failure.to_string()), Some("no".to_owned()));
    }
}
