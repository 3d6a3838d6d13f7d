//! Measures how long a start takes, from the call of the program to the first answer, and the time to the first byte of
//! a run.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::ServeClient;
use crate::median;
use crate::server::{ServedProcess, binary, free_port, is_up};

const STARTS: usize = 20;
/// The maximum time of a start, in milliseconds.
const START: f64 = 100.0;
const RUNS: usize = 200;

/// Prints the measurements, and returns how many targets are missed.
pub(crate) fn report() -> usize {
    println!("| time, median | ms | target | met |");
    println!("|---|---|---|---|");
    let folder = tempfile::tempdir().unwrap();
    let new = |n: usize| format!("sqlite://{}/{n}.db", folder.path().display());
    let rows = [
        ("start on a new database, 20 times", median((0..STARTS).map(|n| start(&new(n))).collect()), Some(START)),
        ("start on one that is there, 20 times", median((0..STARTS).map(|_| start(&new(0))).collect()), Some(START)),
        ("first byte of /run_sse, 200 times", first_byte(), None),
    ];
    let mut missed = 0;
    for (name, time, target) in rows {
        let is_met = target.is_none_or(|target| time < target);
        let target = target.map_or("-".to_owned(), |target| format!("< {target}"));
        println!("| {name} | {time:.2} | {target} | {} |", if is_met { "yes" } else { "**no**" });
        missed += usize::from(!is_met);
    }
    println!();
    missed
}

fn start(database: &str) -> f64 {
    let port = free_port();
    let mut command = Command::new(binary());
    command.args(["serve", "--log-level", "warn", "--port", &port.to_string(), "--database", database]);
    let began = Instant::now();
    let mut process = command.stdout(Stdio::null()).spawn().unwrap();
    while !is_up(port) {
        assert!(began.elapsed() < Duration::from_secs(60), "{command:?} does not answer");
        sleep(Duration::from_micros(200));
    }
    let time = began.elapsed().as_secs_f64() * 1e3;
    process.kill().unwrap();
    process.wait().unwrap();
    time
}

/// Returns the median time from the request to the first frame of a run, in milliseconds. The model answers at once,
/// and each run has its own session.
fn first_byte() -> f64 {
    let server = ServedProcess::scratchbook();
    let run = |n: usize| {
        let mut client = ServeClient::connect(server.port).unwrap();
        client.ask("POST", &format!("/apps/demo/users/u/sessions/run-{n}"), "");
        let message = json!({"role": "user", "parts": [{"text": "help"}]});
        let body = json!({
            "appName": "demo", "userId": "u", "sessionId": format!("run-{n}"), "streaming": true, "newMessage": message,
        });
        let began = Instant::now();
        assert_eq!(client.send("POST", "/run_sse", &body.to_string()).unwrap().0, 200);
        while !client.line().unwrap().starts_with("data: ") {}
        began.elapsed().as_secs_f64() * 1e3
    };
    median((0..RUNS).map(run).collect())
}
