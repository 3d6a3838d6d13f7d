//! Runs the same random trees of agents with our Runner and with google-adk, and compares the results.
//!
//! A case is JSON that both sides read, `play.py` and `play.rs`:
//!
//! - `agent`: a tree. `kind` is `llm`, `sequential`, `loop` or `parallel`; a model gives the answers in `script`, in
//!   order, each after `pause` milliseconds: `text`, in which `<instruction>` stands for the agent's instruction, and
//!   `calls`; or it `fails`, or is `empty`. `callbacks` are lists of deeds by kind.
//! - A deed is an action of a callback or of a call of the tools `act` and `later` (which is long-running): it may
//!   `set` keys, `copy` a key to another, save an `artifact` with a `note`, `look` at a `version` of an artifact,
//!   `escalate`, `transfer`, `skip` the summary, `ask` for consent, `give` an answer, `wait`, or fail (`fails`).
//! - `agent_tools`: agents that are tools, by their name.
//! - `plugins`: each has deeds by kind of callback. Around a whole run a deed may `give` an answer to one message (`if`),
//!   and for each event it may `set` keys and `mark` the event.
//! - `turns`: what the user says, or an `answer` to the last open call of `later`.
//!
//! `cases.rs` makes the cases from a seed. `traces.rs` removes some of the listed differences from the results and
//! compares the rest. `stated.rs` shows each listed difference with a case of its own.

mod cases;
mod lines;
mod play;
mod plugin;
mod stated;
mod traces;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::google_adk::requests::differences::differences;
use traces::{NORMALISATIONS, TraceSide};

/// The variable for the number of cases; `cargo xtask full` sets more.
const CASES: &str = "SCRATCHBOOK_ADK_CASES";
/// The variable for the first seed. A failure names the seed that reproduces it.
const FIRST: &str = "SCRATCHBOOK_ADK_SEED";

#[tokio::test]
async fn random_agents_leave_the_events_and_the_state_that_google_adk_leaves() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, count) = (number(FIRST).unwrap_or(1), number(CASES).unwrap_or(12));
    let cases: Vec<Value> = (first..first + count).map(cases::case).collect();
    let theirs = play_theirs(&cases).await;
    let (mut unexplained, mut met, mut events) = (Vec::new(), [false; NORMALISATIONS.len()], 0);
    for ((seed, case), theirs) in (first..).zip(&cases).zip(&theirs) {
        let ours = play::play(case).await;
        let (own, other) =
            (traces::trace(TraceSide::Ours, case, &ours), traces::trace(TraceSide::Theirs, case, theirs));
        for (met, also) in met.iter_mut().zip(own.met.iter().zip(other.met)) {
            *met |= *also.0 || also.1;
        }
        events += own.events;
        let found = differences("", &own.value, &other.value);
        if !found.is_empty() {
            let told: Vec<_> = found.iter().take(6).map(ToString::to_string).collect();
            unexplained.push(format!("{FIRST}={seed} {CASES}=1:\n{}\n{case}\n", told.join("\n")));
        }
    }
    let shown: Vec<_> = unexplained.iter().take(8).cloned().collect();
    assert!(unexplained.is_empty(), "{} cases differ, such as\n{}", unexplained.len(), shown.join("\n"));
    assert!(events > 4 * count, "only {events} events were compared");
    if count >= 300 {
        let gone: Vec<_> = NORMALISATIONS.iter().zip(met).filter(|(_, met)| !met).map(|(one, _)| one.what).collect();
        assert!(gone.is_empty(), "these differences are met no more: {gone:?}");
    }
}

/// A comparison that cannot fail shows nothing. Each of these changes is a difference that has to be found.
#[tokio::test]
async fn what_is_changed_in_a_trace_of_google_adk_is_found() {
    let case = cases::case(1);
    let ours = play::play(&case).await;
    let own = traces::trace(TraceSide::Ours, &case, &ours);
    assert!(differences("", &own.value, &own.value).is_empty());
    type ValueChange = fn(&mut Value);
    let changes: [(&str, ValueChange); 5] = [
        ("author", |event| event["author"] = "somebody".into()),
        ("branch", |event| event["branch"] = "elsewhere".into()),
        ("content", |event| event["content"]["role"] = "nobody".into()),
        ("state delta", |event| event["actions"]["stateDelta"]["planted"] = 1.into()),
        ("artifact delta", |event| event["actions"]["artifactDelta"]["planted"] = 1.into()),
    ];
    for (what, change) in changes {
        let mut other = ours.clone();
        let events = other["turns"][0]["events"].as_array_mut().unwrap();
        change(events.last_mut().unwrap());
        if what == "state delta" {
            other["state"]["planted"] = 1.into();
        }
        let other = traces::trace(TraceSide::Theirs, &case, &other);
        assert!(!differences("", &own.value, &other.value).is_empty(), "{what}");
    }
}

/// Plays all cases with google-adk in one process.
async fn play_theirs(cases: &[Value]) -> Vec<Value> {
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let mut command = Command::new(scratchbook_test_servers::python().unwrap());
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/google_adk/beside/play.py");
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        output
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let played: Vec<_> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(played.len(), cases.len());
    played
}
