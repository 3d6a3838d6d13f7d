//! How many instructions an append executes, as callgrind counts them: the same figure on a busy machine and an idle one.
//!
//! To compare with another commit, run this file there as well: it needs nothing that older commits lack.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

use std::process::Command;
use std::sync::Arc;

use scratchbook::{
    AppendOptions, Content, CreateSessionConfig, Event, InMemorySessionService, SessionService, SqliteSessionService,
    StateDelta,
};
use serde_json::json;

/// Appends before the count begins, and those that are counted.
const WARM: usize = 300;
const COUNTED: usize = 1_000;

const CASES: [(&str, &str); 4] = [("memory", "session"), ("memory", "user"), ("sqlite", "session"), ("sqlite", "user")];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", store, keys, count] => run(store, keys, count.parse().unwrap()),
        _ => report(),
    }
}

fn report() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: no instructions were counted");
        return;
    }
    println!("| store | the event writes | instructions an append |");
    println!("|---|---|---|");
    for (store, keys) in CASES {
        let each = (counted(store, keys, WARM + COUNTED) - counted(store, keys, WARM)) / COUNTED as u64;
        let keys = if keys == "user" { "two session keys and a user key" } else { "two session keys" };
        println!("| {store} | {keys} | {each} |");
    }
}

/// The instructions of a whole process that appends this many events.
fn counted(store: &str, keys: &str, count: usize) -> u64 {
    let program = std::env::current_exe().unwrap();
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let ran = valgrind.args(["run", store, keys, &count.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok()).expect("a count")
}

fn run(store: &str, keys: &str, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let service: Arc<dyn SessionService> = match store {
            "memory" => Arc::new(InMemorySessionService::new()),
            _ => {
                Arc::new(SqliteSessionService::open(folder.path().join("bench.db"), Default::default()).await.unwrap())
            }
        };
        let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"a": 1, "b": "text"}));
        let session = service.create_session("app", "user", config).await.unwrap();
        for n in 0..count {
            let text = format!("{n}: {}", "All work and no play makes the agent a dull program. ".repeat(6));
            let mut delta = StateDelta::new().with("step", n).unwrap().with("note", "short").unwrap();
            if keys == "user" {
                delta.set("user:last_step", n).unwrap();
            }
            let event = Event::new("agent").with_invocation_id("e-0").with_content(Content::model(text));
            let event = event.with_id(format!("event-{n:08}")).with_timestamp(1_700_000_000.0 + n as f64);
            let event = event.with_state_delta(delta);
            service.append(session.key(), event, AppendOptions::default()).await.unwrap();
        }
        service.close().await.unwrap();
    });
}
