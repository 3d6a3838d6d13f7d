//! The load on a server, which wrk makes.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::client::ServeClient;
use crate::server::ServedProcess;

const CONNECTIONS: &str = "-c16";
/// The number of wrk's threads. One thread keeps either server busy, and leaves the rest of a small machine to the
/// server.
const THREADS: &str = "-t1";
const SESSIONS: &str = "/apps/demo/users/u/sessions";
/// How often a session is changed at most, so that it grows from 10 events to 20.
const CHANGES: usize = 10;

#[derive(Clone, Copy)]
pub(crate) enum Load {
    Create,
    Get,
    Patch,
}

/// The result of a round.
pub(crate) struct RoundResult {
    pub(crate) per_second: f64,
    /// The median of the latencies, in milliseconds.
    pub(crate) p50: f64,
    /// The 99th percentile of the latencies, in milliseconds.
    pub(crate) p99: f64,
}

impl Load {
    pub(crate) fn measure(self, server: &ServedProcess, round: usize, seconds: u64) -> RoundResult {
        match self {
            Self::Create => wrk(server, seconds, "request = function() return create end", usize::MAX),
            Self::Get => {
                make_sessions(server, &format!("get{round}"), 100);
                let path = format!("{SESSIONS}/get{round}-");
                let request =
                    format!("n = 0; request = function() n = n + 1; return wrk.format('GET', '{path}' .. n % 100) end");
                wrk(server, seconds, &request, usize::MAX)
            }
            Self::Patch => {
                let pool = server.pool;
                make_sessions(server, &format!("patch{round}"), pool);
                let path = format!("{SESSIONS}/patch{round}-");
                let request = format!(
                    "n = 0; request = function() n = n + 1; return wrk.format('PATCH', '{path}' .. n % {pool}, nil, \
                     '{{\"stateDelta\": {{\"step\": ' .. n .. '}}}}') end"
                );
                wrk(server, seconds, &request, pool * CHANGES)
            }
        }
    }
}

/// Makes this many sessions with 10 events of about 600 bytes.
fn make_sessions(server: &ServedProcess, name: &str, count: usize) {
    let text = "All work and no play makes the agent a dull program. ".repeat(6);
    let event = |n: usize| {
        let author = if n.is_multiple_of(2) { "user" } else { "demo" };
        json!({"author": author, "invocationId": "e-1", "content": {"role": author, "parts": [{"text": text}]}})
    };
    let events: Vec<_> = (0..10).map(event).collect();
    let mut client = ServeClient::connect(server.port).unwrap();
    for n in 0..count {
        client.ask("POST", SESSIONS, &json!({"sessionId": format!("{name}-{n}"), "events": events}).to_string());
    }
}

/// Lets wrk send the requests of a script for a time. Every request has to succeed, and there may be at most `most`
/// requests.
fn wrk(server: &ServedProcess, seconds: u64, request: &str, most: usize) -> RoundResult {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("load.lua");
    let text = format!(
        "wrk.headers['Content-Type'] = 'application/json'\n\
         init = function() create = wrk.format('POST', '{SESSIONS}', nil, '{{}}') end\n\
         {request}\n\
         done = function(summary, latency)\n\
           local e = summary.errors\n\
           print('measured', summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,\n\
             latency:percentile(50), latency:percentile(99))\n\
         end\n"
    );
    fs::write(&script, text).unwrap();
    let mut command = Command::new("wrk");
    command.args([THREADS, CONNECTIONS, "--timeout", "30s", &format!("-d{seconds}s"), "-s"]).arg(&script);
    command.arg(format!("http://127.0.0.1:{}", server.port));
    let output = command.output().expect("wrk is installed; on Debian and Ubuntu it is the package wrk");
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find_map(|line| line.strip_prefix("measured")).expect(&output);
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [requests, duration, errors, p50, p99] = numbers[..] else { panic!("{output}") };
    assert_eq!(errors, 0.0, "{output}");
    assert!(requests <= most as f64, "{requests} requests, over {most}: the sessions grow too long");
    RoundResult { per_second: requests / duration * 1e6, p50: p50 / 1e3, p99: p99 / 1e3 }
}
