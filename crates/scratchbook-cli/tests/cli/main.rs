//! The command as its users run it: a process with arguments, output and an exit code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod adk_js;
mod adk_rows;
mod backup;
mod chat;
mod demo;
mod failures;
mod google_adk;
mod help;
mod input;
mod jsonl;
mod keyring;
mod migrate;
mod models;
mod operations;
mod owners;
mod pages;
mod past;
mod prune;
mod schema;
mod seal;
mod serve;
mod servers;
mod sessions;
mod setup;
mod state;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
mod terminal;
mod token;
mod verify;
mod versions;
#[cfg(all(unix, feature = "vertex-ai"))]
mod vertex;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The address of a session.
const S1: [&str; 6] = ["-a", "shop", "-u", "alice", "-s", "s1"];

/// Variables that configure models. Tests set their own.
const OF_MODELS: [&str; 8] = [
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "OLLAMA_HOST",
];

/// A folder with a database in it.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// Creates a database that `scratchbook demo` has filled.
    fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.text(&["demo", "shopping-cart", "support-chat"]);
        fixture
    }

    /// Creates a folder in which the database does not exist yet.
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates the session shop/alice/s1 with `step` and `user:theme`, and appends `events` events that change them.
    fn with_session(events: u32) -> Self {
        let fixture = Self::empty();
        fixture.text(&[&["sessions", "create"], &S1[..], &["step=0", "user:theme=t0"]].concat());
        for n in 1..=events {
            let (step, theme) = (format!("step={n}"), format!("user:theme=t{n}"));
            fixture.text(&[&["state", "set"], &S1[..], &[&step, &theme]].concat());
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = scratchbook();
        let database = uri(&self.path("agents.db"));
        if args.contains(&"demo") {
            // The demo ignores the environment.
            command.args(["--database", &database]);
        } else {
            command.env("SCRATCHBOOK_DATABASE", &database);
        }
        command.args(args);
        command
    }

    /// Runs a command, which has to succeed, and returns its output.
    fn text(&self, args: &[&str]) -> String {
        text(self.command(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&text(self.command(&[&["--json"], args].concat()))).unwrap()
    }

    /// Runs a command, which has to end with this exit code, and returns its standard error.
    fn fails(&self, code: i32, args: &[&str]) -> String {
        fails(code, self.command(args))
    }

    /// Returns the ids of an app's sessions, the oldest first.
    fn sessions(&self, app: &str) -> Vec<String> {
        let listed = self.json(&["sessions", "list", "--oldest-first", "--app", app]);
        listed["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn scratchbook() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scratchbook"));
    command.env_remove("SCRATCHBOOK_DATABASE").env_remove("SCRATCHBOOK_KEYRING").stdin(Stdio::null());
    OF_MODELS.into_iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn uri(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn text(command: Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(code: i32, command: Command) -> String {
    let output = output(command);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn output(mut command: Command) -> Output {
    command.output().unwrap()
}
