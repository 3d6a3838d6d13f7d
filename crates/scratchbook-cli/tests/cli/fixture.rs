//! The command as a process, on a database in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The address of a session.
pub(crate) const S1: [&str; 6] = ["-a", "shop", "-u", "alice", "-s", "s1"];

/// Variables that configure models. Tests set their own.
pub(crate) const OF_MODELS: [&str; 8] = [
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
pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
}

impl Fixture {
    /// Creates a database that `scratchbook demo` has filled.
    pub(crate) fn new() -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.text(&["demo", "shopping-cart", "support-chat"]);
        fixture
    }

    /// Creates a folder in which the database does not exist yet.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates the session shop/alice/s1 with `step` and `user:theme`, and appends `events` events that change them.
    pub(crate) fn with_session(events: u32) -> Self {
        let fixture = Self::empty();
        fixture.text(&[&["sessions", "create"], &S1[..], &["step=0", "user:theme=t0"]].concat());
        for n in 1..=events {
            let (step, theme) = (format!("step={n}"), format!("user:theme=t{n}"));
            fixture.text(&[&["state", "set"], &S1[..], &[&step, &theme]].concat());
        }
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
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
    pub(crate) fn text(&self, args: &[&str]) -> String {
        text(self.command(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&text(self.command(&[&["--json"], args].concat()))).unwrap()
    }

    /// Runs a command, which has to end with this exit code, and returns its standard error.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        fails(code, self.command(args))
    }

    /// Returns the ids of an app's sessions, the oldest first.
    pub(crate) fn sessions(&self, app: &str) -> Vec<String> {
        let listed = self.json(&["sessions", "list", "--oldest-first", "--app", app]);
        listed["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn scratchbook() -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.env_remove("SCRATCHBOOK_DATABASE").env_remove("SCRATCHBOOK_KEYRING").stdin(Stdio::null());
    OF_MODELS.into_iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

pub(crate) fn uri(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

pub(crate) fn text(command: Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn fails(code: i32, command: Command) -> String {
    let output = output(command);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub(crate) fn output(mut command: Command) -> Output {
    command.output().unwrap()
}
