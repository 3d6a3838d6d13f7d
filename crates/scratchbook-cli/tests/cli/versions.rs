//! An older build of the command and this build share one database. Both write and read it, at the same time and in
//! turns.
//!
//! `SCRATCHBOOK_OLD_BINARY` names the older build, as the step `versions` of `cargo xtask full` does. Without it,
//! this build shares the database with itself.
#![cfg(unix)]

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::serve::Served;
use crate::{Fixture, output, scratchbook, text, uri};

/// How many events each of two threads appends through each server.
const APPENDS: u64 = 25;

/// Two builds on the app of a test in one database.
struct Builds {
    uri: String,
    app: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CommandBuild {
    Old,
    New,
}

impl CommandBuild {
    fn old() -> Option<OsString> {
        env::var_os("SCRATCHBOOK_OLD_BINARY").filter(|old| !old.is_empty())
    }
}

impl Builds {
    fn command(&self, build: CommandBuild, args: &[&str]) -> Command {
        let mut command = match (build, CommandBuild::old()) {
            (CommandBuild::Old, Some(old)) => Command::new(old),
            _ => scratchbook(),
        };
        command.env("SCRATCHBOOK_DATABASE", &self.uri).env_remove("SCRATCHBOOK_KEYRING");
        command.args(args);
        command
    }

    fn run(&self, build: CommandBuild, args: &[&str]) -> Value {
        let said = text(self.command(build, &[&["--json"], args].concat()));
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{build:?} {args:?}: {e}: {said}"))
    }

    /// Runs a command on one session.
    fn of(&self, build: CommandBuild, command: [&str; 2], session: &str, args: &[&str]) -> Value {
        self.run(build, &[&command[..], &["-a", &self.app, "-u", "alice", "-s", session], args].concat())
    }

    /// Returns the option with which a deletion works without a terminal. Builds that do not ask have no such option.
    fn yes(&self, build: CommandBuild) -> &'static [&'static str] {
        let help = text(self.command(build, &["sessions", "delete", "--help"]));
        if help.contains("--yes") { &["--yes"] } else { &[] }
    }

    fn serve(&self, build: CommandBuild) -> Served {
        Served::of(self.command(build, &["--json", "serve", "--port", "0", "--log-level", "warn"]))
    }

    fn session(&self, server: &Served, session: &str) -> Value {
        let (status, body) = server.get(&format!("/apps/{}/users/alice/sessions/{session}", self.app));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Appends an event that increments a counter in each scope.
    fn count(&self, server: &Served, session: &str, id: &str) {
        let path = format!("/v1/apps/{}/users/alice/sessions/{session}/events", self.app);
        let one = json!([{"increment": 1}]);
        let operations = json!({"n": one, "user:n": one, "app:n": one});
        let body = json!({"event": {"id": id, "author": "counter"}, "operations": operations}).to_string();
        let (status, said) = server.ask("POST", &path, &body);
        assert!((200..300).contains(&status), "{status}: {said}");
        // The event is sent again, as if the answer had been lost. The same id changes nothing.
        let (status, said) = server.ask("POST", &path, &body);
        assert!((200..300).contains(&status), "{status}: {said}");
    }

    /// Returns the lines of the feed without the cursors, which differ between builds.
    fn feed(&self, build: CommandBuild) -> Vec<Value> {
        let args = ["--json", "watch", "-a", &self.app, "--from", "beginning", "--until-idle"];
        let lines = text(self.command(build, &args));
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let without_cursor = lines.map(|mut line| {
            line.as_object_mut().unwrap().remove("cursor");
            line
        });
        without_cursor.collect()
    }
}

fn share(builds: &Builds) {
    // The older build creates the tables and a session, and keeps the database open from then on.
    builds.of(CommandBuild::Old, ["sessions", "create"], "s1", &["n=0", "user:n=0", "app:n=0"]);
    let old = builds.serve(CommandBuild::Old);
    builds.of(CommandBuild::New, ["sessions", "create"], "s2", &["n=0"]);
    let new = builds.serve(CommandBuild::New);

    // At the same time, both count in shared sessions, and each reads what the other one writes.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for server in [&old, &new] {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let n = builds.session(server, "s1")["state"]["n"].as_u64().unwrap();
                    assert!(n >= last, "{n} after {last}");
                    last = n;
                }
            });
        }
        let mut writers = Vec::new();
        for (name, server) in [("old", &old), ("new", &new)] {
            for session in ["s1", if name == "old" { "s2" } else { "s1" }] {
                let writer = format!("{name}-{}", writers.len());
                writers.push(scope.spawn(move || {
                    (0..APPENDS).for_each(|n| builds.count(server, session, &format!("{writer}-{n}")));
                }));
            }
        }
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    for server in [&old, &new] {
        let session = builds.session(server, "s1");
        assert_eq!(session["state"], json!({"n": 3 * APPENDS, "user:n": 4 * APPENDS, "app:n": 4 * APPENDS}));
        assert_eq!(session["events"].as_array().unwrap().len() as u64, 3 * APPENDS);
    }
    let verified = output(builds.command(CommandBuild::Old, &["verify", "-a", &builds.app]));
    if verified.status.success() {
        in_turns(builds, &old, &new);
        assert_eq!(builds.feed(CommandBuild::Old), builds.feed(CommandBuild::New));
    } else {
        // This build has migrated the tables. A process that had them open goes on, as above, but a new start is
        // refused.
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.code() == Some(6) && said.contains("newer"), "{verified:?}");
    }
    assert!(builds.run(CommandBuild::New, &["verify", "-a", &builds.app])["verified"]["sessions"].as_u64() >= Some(2));
    for server in [old, new] {
        assert_eq!(server.end("-TERM"), Some(0));
    }
}

/// Each build continues with the other's data, and both read the same.
fn in_turns(builds: &Builds, old: &Served, new: &Served) {
    for (first, second) in [(CommandBuild::Old, CommandBuild::New), (CommandBuild::New, CommandBuild::Old)] {
        let fork = format!("fork-{first:?}");
        builds.of(first, ["sessions", "fork"], "s1", &["--at", "10", "--id", &fork]);
        builds.of(second, ["state", "set"], &fork, &["step=1", "user:theme=\"dark\"", "list=[1]"]);
        builds.of(first, ["state", "append"], &fork, &["list=2"]);
        builds.of(second, ["sessions", "update"], &fork, &["--title", "A fork", "--label", "kind=test"]);
        builds.of(first, ["state", "unset"], &fork, &["step"]);
        builds.of(second, ["sessions", "create"], "gone", &["x=1"]);
        builds.of(first, ["sessions", "delete"], "gone", builds.yes(first));
        let (adk, v1) = (format!("/apps/{}/users/alice/sessions", builds.app), format!("/v1/apps/{}", builds.app));
        for path in [
            format!("{adk}/s1"),
            format!("{adk}/s2"),
            format!("{adk}/{fork}"),
            adk.clone(),
            format!("{v1}/state"),
            format!("{v1}/users/alice/state"),
            format!("{v1}/users/alice/sessions/{fork}"),
            format!("{v1}/users/alice/sessions/{fork}/blame"),
            format!("{v1}/users/alice/sessions/{fork}/history?key=list"),
            format!("{v1}/users/alice/sessions/{fork}/diff?before=11&after=13"),
        ] {
            let (of_old, of_new) = (old.get(&path), new.get(&path));
            assert_eq!(of_new.0, 200, "{path}: {}", of_new.1);
            let [of_old, of_new] = [of_old.1, of_new.1].map(|body| serde_json::from_str::<Value>(&body).unwrap());
            assert_eq!(of_old, of_new, "{path}");
        }
        assert_eq!(builds.session(old, &fork)["state"]["list"], json!([1, 2]));
    }
    for build in [CommandBuild::Old, CommandBuild::New] {
        let verified = builds.run(build, &["verify", "-a", &builds.app]);
        assert_eq!(verified["verified"]["sessions"], 4, "{build:?}: {verified}");
    }
}

#[test]
fn two_builds_share_a_sqlite_file() {
    let fixture = Fixture::empty();
    share(&Builds { uri: uri(&fixture.path("agents.db")), app: "shared".to_owned() });
}

mod postgres {
    use super::*;

    #[test]
    fn two_builds_share_a_database() {
        let uri = scratchbook_test_servers::postgres().unwrap_or_else(|error| panic!("{error}"));
        // The tables are in a schema of their own, which the older build creates.
        let joined = if uri.contains('?') { '&' } else { '?' };
        share(&Builds { uri: format!("{uri}{joined}schema=shared_{}", std::process::id()), app: "shared".to_owned() });
    }
}
