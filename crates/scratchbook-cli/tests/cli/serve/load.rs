//! A server that is killed under load and restarted has everything that it acknowledged.
//!
//! `SCRATCHBOOK_LOAD_SECONDS` is the duration. From 20 seconds on there are three kills, otherwise one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Served;
use super::http::HttpConnection;
use crate::Fixture;

/// The number of writers of events, each in its own session, and of writers of state by ADK's PATCH.
const WRITERS: usize = 8;
/// How often a session is changed by PATCH. Each response contains all events.
const CHANGES: usize = 20;

/// The acknowledged writes of a writer: session ids, each with the keys that were set in it, or ids of events.
type AcknowledgedWrites = BTreeMap<String, Vec<String>>;

/// A client that repeats a request until it gets a response.
struct Persistent<'a> {
    address: &'a str,
    connection: Option<HttpConnection>,
    retries: usize,
}

impl Persistent<'_> {
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let begun = Instant::now();
        loop {
            if self.connection.is_none() {
                self.connection = HttpConnection::open(self.address).ok();
            }
            let asked = self.connection.as_mut().map(|connection| connection.ask(method, path, "", &body));
            match asked {
                // The server is ending or has not started yet.
                Some(Ok((503, ..))) | None => {}
                Some(Ok((status, _, body))) => return (status, serde_json::from_str(&body).unwrap_or_default()),
                Some(Err(_)) => self.connection = None,
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{method} {path} is not answered");
            self.retries += 1;
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn client(address: &str) -> Persistent<'_> {
    Persistent { address, connection: None, retries: 0 }
}

/// Appends events by `/v1`, and repeats a request if its response is lost.
fn append(address: &str, writer: usize, stop: &AtomicBool) -> (AcknowledgedWrites, usize) {
    let (mut client, session) = (client(address), format!("append-{writer}"));
    let path = format!("/v1/apps/demo/users/u/sessions/{session}/events");
    make(&mut client, &session);
    let mut ids = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let n = ids.len() + 1;
        let id = format!("{session}-{n}");
        let delta = json!({"step": n, format!("user:{session}"): n});
        let event = json!({"id": id, "author": "agent", "actions": {"stateDelta": delta}});
        let (status, answer) = client.ask("POST", &path, &json!({"event": event}));
        assert_eq!(status, 200, "{answer}");
        ids.push(id);
    }
    (BTreeMap::from([(session, ids)]), client.retries)
}

/// Sets keys by ADK's PATCH, and repeats a request if its response is lost.
fn patch(address: &str, writer: usize, stop: &AtomicBool) -> (AcknowledgedWrites, usize) {
    let (mut client, mut all) = (client(address), AcknowledgedWrites::new());
    while !stop.load(Ordering::Relaxed) {
        let session = format!("patch-{writer}-{}", all.len());
        make(&mut client, &session);
        let mut keys = Vec::new();
        while keys.len() < CHANGES && !stop.load(Ordering::Relaxed) {
            let key = format!("key{}", keys.len());
            let path = format!("/apps/demo/users/u/sessions/{session}");
            let (status, answer) = client.ask("PATCH", &path, &json!({"stateDelta": {key.as_str(): keys.len()}}));
            assert_eq!(status, 200, "{answer}");
            keys.push(key);
        }
        all.insert(session, keys);
    }
    (all, client.retries)
}

fn make(client: &mut Persistent<'_>, session: &str) {
    let (status, answer) = client.ask("POST", "/apps/demo/users/u/sessions", &json!({"sessionId": session}));
    // The session exists already if the response was lost.
    assert!(matches!(status, 200 | 409), "{status}: {answer}");
}

/// Reads the events of a session. Returns their ids, each with its number of occurrences.
fn events(client: &mut Persistent<'_>, session: &str) -> HashMap<String, usize> {
    let (mut found, mut after) = (HashMap::new(), 0);
    loop {
        let path = format!("/v1/apps/demo/users/u/sessions/{session}/events?limit=1000&after={after}");
        let (status, page) = client.ask("GET", &path, &Value::Null);
        assert_eq!(status, 200, "{page}");
        for event in page["events"].as_array().unwrap() {
            *found.entry(event["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return found,
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_kills_under_load() {
    let seconds: f64 = std::env::var("SCRATCHBOOK_LOAD_SECONDS").map_or(5.0, |seconds| seconds.parse().unwrap());
    let kills = if seconds < 20.0 { 1 } else { 3 };
    let fixture = Fixture::empty();
    let mut served = Served::new(&fixture, &["--log-level", "warn"]);
    let (address, port) = (served.address(), served.greeting["port"].to_string());
    let stop = AtomicBool::new(false);
    let written: Vec<(AcknowledgedWrites, usize)> = thread::scope(|scope| {
        let (address, stop) = (address.as_str(), &stop);
        let appending = (0..WRITERS).map(|n| scope.spawn(move || append(address, n, stop)));
        let patching = (0..WRITERS).map(|n| scope.spawn(move || patch(address, n, stop)));
        let writers: Vec<_> = appending.chain(patching).collect();
        for _ in 0..kills {
            thread::sleep(Duration::from_secs_f64(seconds / f64::from(kills + 1)));
            served.process.kill().unwrap();
            served.process.wait().unwrap();
            served = Served::of(fixture.command(&["--json", "serve", "--log-level", "warn", "--port", &port]));
        }
        thread::sleep(Duration::from_secs_f64(seconds / f64::from(kills + 1)));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut client = client(&address);
    let mut count = 0;
    for (acknowledged, _) in &written {
        for (session, done) in acknowledged {
            count += done.len();
            if session.starts_with("append") {
                let found = events(&mut client, session);
                assert!(done.iter().all(|id| found.get(id) == Some(&1)), "{session} has each event once");
                assert_eq!(found.len(), done.len(), "{session} has nothing else");
            } else {
                let path = format!("/apps/demo/users/u/sessions/{session}");
                let (status, stored) = client.ask("GET", &path, &Value::Null);
                assert_eq!(status, 200, "{session}: {stored}");
                let events = stored["events"].as_array().unwrap();
                for (n, key) in done.iter().enumerate() {
                    assert_eq!(stored["state"][key], n, "{session} {key}");
                    assert!(events.iter().any(|event| event["actions"]["stateDelta"][key] == n), "{session} {key}");
                }
            }
        }
    }
    let retries: usize = written.iter().map(|(_, retries)| retries).sum();
    println!("{count} writes acknowledged in {seconds} s with {kills} kills, {retries} retries; all are there");
    assert!(count > 100 && retries > 0, "{count} writes, {retries} retries");
    assert_eq!(served.end("-TERM"), Some(0));
    fixture.text(&["verify"]);
}
