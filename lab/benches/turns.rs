//! Measures what a turn costs in addition to the model: reading the session, building the request, and committing the
//! message and the answer.
//!
//! Prints a table in Markdown. Fails if a turn takes more processor time than 200 microseconds plus 3 for each event
//! that is sent to the model. On an idle machine, the elapsed time is about the same as the processor time; on a busy
//! machine, it is longer. Callgrind counts the instructions, if it is installed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

use std::process::{Command, ExitCode};
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use scratchbook::agent::FunctionTool;
use scratchbook::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use scratchbook::session::ForkConfig;
use scratchbook::{
    Content, CreateSessionConfig, Event, InMemorySessionService, LlmAgent, Runner, SessionKey, SessionService,
};
use scratchbook_benches::{cpu, runtime};
use serde_json::{Map, Value, json};

/// How many events a session has before the turn.
const SIZES: [usize; 5] = [0, 10, 100, 1_000, 10_000];
const HISTORIES: [&str; 2] = ["text", "text, calls and responses"];

/// The allowed processor time of a turn without events, in microseconds.
const BASE: f64 = 200.0;
/// The additional processor time that is allowed for each event that is sent, in microseconds.
const EACH: f64 = 3.0;

/// How many turns are counted in one process.
const COUNTED: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", history, events, turns] => {
            run(history, events.parse().unwrap(), turns.parse().unwrap());
            ExitCode::SUCCESS
        }
        _ => report(),
    }
}

fn report() -> ExitCode {
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load());
    println!(
        "| history | events sent | processor, µs | passed, µs | nine of ten within, µs | allowed, µs | ratio | instructions |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut missed = 0;
    for history in HISTORIES {
        for events in SIZES {
            let TurnTimes { processor, passed } =
                runtime().block_on(async move { tokio::spawn(TurnTimes::of(history, events)).await.unwrap() });
            let (median, most) = (passed[passed.len() / 2], passed[passed.len() * 9 / 10]);
            // The user's message itself is sent, too.
            let sent = events + 1;
            let allowed = BASE + EACH * sent as f64;
            let ratio = processor / allowed;
            let counted = instructions(history, events).map_or(String::new(), |count| count.to_string());
            println!(
                "| {history} | {sent} | {processor:.0} | {median:.0} | {most:.0} | {allowed:.0} | {ratio:.2} | {counted} |"
            );
            missed += usize::from(ratio > 1.0);
        }
    }
    println!("\nload afterwards: {}; {missed} missed", load().trim());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The times of turns, in microseconds.
struct TurnTimes {
    /// The mean processor time.
    processor: f64,
    /// The times until the answer has arrived, sorted.
    passed: Vec<f64>,
}

impl TurnTimes {
    /// Measures many turns, each on its own session.
    async fn of(history: &'static str, events: usize) -> Self {
        let bench = TurnBench::new(history, events).await;
        // This number of turns takes about a second of processor time, which Linux counts in hundredths.
        let count = 3_000_000 / (3 * events + 300);
        let mut keys = Vec::with_capacity(count);
        for n in 0..count {
            keys.push(bench.fork(n).await);
        }
        let (warm, measured) = keys.split_at(count / 10);
        for key in warm {
            bench.turn(key).await;
        }
        let (mut passed, used) = (Vec::with_capacity(measured.len()), cpu::own());
        for key in measured {
            let started = Instant::now();
            bench.turn(key).await;
            passed.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let processor = (cpu::own() - used) * 1e6 / measured.len() as f64;
        passed.sort_by(f64::total_cmp);
        Self { processor, passed }
    }
}

/// Returns the instructions of a turn; `None` without valgrind.
fn instructions(history: &str, events: usize) -> Option<u64> {
    let many = counted(history, events, 2 * COUNTED)?;
    Some((many - counted(history, events, COUNTED)?) / COUNTED as u64)
}

/// Returns the instructions of a whole process with this many turns.
fn counted(history: &str, events: usize, turns: usize) -> Option<u64> {
    let program = std::env::current_exe().unwrap();
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let ran = valgrind.args(["run", history, &events.to_string(), &turns.to_string()]).output().ok()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

/// Runs this many turns. The number of sessions does not depend on the number of turns, so only the turns make the
/// difference.
fn run(history: &str, events: usize, turns: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = TurnBench::new(history, events).await;
        for n in 0..2 * COUNTED {
            let key = bench.fork(n).await;
            if n < turns {
                bench.turn(&key).await;
            }
        }
    });
}

/// An agent with a tool, and a session that each turn's session is copied from.
struct TurnBench {
    runner: Runner,
    origin: SessionKey,
}

impl TurnBench {
    async fn new(history: &str, events: usize) -> Self {
        let tool =
            FunctionTool::new("look_up", "Looks up an item.", |_: Map<String, Value>, _| async { Ok(json!({})) });
        let agent = LlmAgent::builder("agent").model(AtOnce).instruction("Be brief, {user:name?}.").tool(tool);
        let runner = Runner::builder("app", agent.build().unwrap(), InMemorySessionService::new()).build().unwrap();
        let event = match history {
            "text" => said,
            _ => said_or_called,
        };
        let config = CreateSessionConfig::default()
            .with_session_id("origin")
            .with_state(json!({"user:name": "Ada"}))
            .with_events((0..events).map(event).collect());
        let origin = runner.session_service().create_session("app", "user", config).await.unwrap().key().clone();
        Self { runner, origin }
    }

    /// Creates a copy of the session, with the same events.
    async fn fork(&self, n: usize) -> SessionKey {
        let config = ForkConfig::default().with_session_id(format!("fork {n}"));
        let session = self.runner.session_service().fork_session(&self.origin, config).await.unwrap();
        session.key().clone()
    }

    async fn turn(&self, key: &SessionKey) {
        let events = self.runner.run(key.user_id(), key.session_id(), "And what is there for me to read today?");
        let events: Vec<_> = events.try_collect().await.unwrap();
        assert_eq!(events.len(), 1);
    }
}

/// Returns a message or an answer of about 300 bytes.
fn said(n: usize) -> Event {
    let text = format!("{n}: {}", "All work and no play makes the agent a dull program. ".repeat(6));
    let event =
        Event::new(if n.is_multiple_of(2) { "user" } else { "agent" }).with_invocation_id(format!("e-{}", n / 2));
    event.with_content(if n.is_multiple_of(2) { Content::user(text) } else { Content::model(text) })
}

/// Returns an event of a turn with a tool: a message, a call, its response or an answer.
fn said_or_called(n: usize) -> Event {
    let id = format!("adk-{}", n / 4);
    let part = match n % 4 {
        1 => json!({"functionCall": {"id": id, "name": "look_up", "args": {"item": "book", "shelf": n}}}),
        2 => json!({"functionResponse": {"id": id, "name": "look_up", "response": {"found": true, "shelf": n}}}),
        0 => return said(n).with_invocation_id(format!("e-{}", n / 4)),
        _ => return said(n | 1).with_invocation_id(format!("e-{}", n / 4)),
    };
    let role = if n % 4 == 1 { "model" } else { "user" };
    let content: Content = serde_json::from_value(json!({"role": role, "parts": [part]})).unwrap();
    Event::new("agent").with_invocation_id(format!("e-{}", n / 4)).with_content(content)
}

/// A model that answers at once.
#[derive(Debug)]
struct AtOnce;

impl Llm for AtOnce {
    fn name(&self) -> &str {
        "at once"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        drop(std::hint::black_box(request));
        stream::iter([Ok(LlmResponse::text("There is a book."))]).boxed()
    }
}
