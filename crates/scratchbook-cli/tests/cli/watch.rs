//! A watch shows all commits and ends as requested.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{Fixture, S1};

fn lines(fixture: &Fixture, args: &[&str]) -> Vec<Value> {
    let output = fixture.text(&[&["--json", "watch", "--until-idle=200ms"], args].concat());
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[test]
fn commits_are_shown_and_a_cursor_continues() {
    let fixture = Fixture::with_session(2);
    let all = lines(&fixture, &["-a", "shop", "--from", "beginning"]);
    assert_eq!(kinds(&all), ["state", "created", "event", "event", "end"]);
    assert_eq!(all[0]["changes"][0]["key"], "theme");
    assert_eq!((&all[3]["seq"], &all[3]["event"]["actions"]["stateDelta"]["step"]), (&json!(2), &json!(2)));
    let first = lines(&fixture, &["-a", "shop", "--from", "beginning", "--limit", "3"]);
    assert_eq!(first[..3], all[..3]);
    let rest = lines(&fixture, &["-a", "shop", "--from", first[3]["cursor"].as_str().unwrap()]);
    // The cursor at the end is after the last event, or after later events that were filtered out. A watch continues in
    // the same way from both cursors.
    assert_eq!((&rest[0], kinds(&rest)), (&all[3], vec!["event", "end"]));
    let session = lines(&fixture, &[&S1[..], &["--from", "beginning"]].concat());
    assert_eq!(kinds(&session), ["event", "event", "end"]);
    let none = lines(&fixture, &["-a", "shop", "--prefix", "app:", "--from", "beginning"]);
    assert_eq!(kinds(&none), ["end"]);
    fixture.text(&["state", "unset", "-a", "shop", "-u", "alice", "theme"]);
    let rest = lines(&fixture, &["-a", "shop", "-u", "alice", "--from", "beginning", "--prefix", "user:"]);
    assert_eq!(rest[3]["changes"][0]["removed"], true);
    let text = fixture.text(&["watch", "-a", "shop", "--from", "beginning", "--until-idle=200ms"]);
    assert!(text.contains("step = 2") && text.contains("removed") && text.contains("continue with:\n--from"), "{text}");
    for (code, bad) in [
        (2, &["-a", "shop", "--from", "a cursor"][..]),
        (2, &["-a", "shop", "--from", ""]),
        (2, &["-a", "shop", "--limit", "0"]),
        (2, &["-a", "shop", "--until-idle=soon"]),
        (2, &["--from", "now"]),
        (3, &["-a", "shop", "-u", "alice", "-s", "none"]),
    ] {
        fixture.fails(code, &[&["watch"], bad].concat());
    }
}

#[test]
fn what_was_removed_is_shown() {
    let fixture = Fixture::with_session(3);
    let now = lines(&fixture, &["-a", "shop", "--from", "now"]);
    let after = now[0]["cursor"].as_str().unwrap();
    fixture.text(&["prune", "-a", "shop", "--keep-last", "1", "--yes"]);
    fixture.text(&[&["sessions", "delete", "--yes"], &S1[..]].concat());
    let removed = lines(&fixture, &["-a", "shop", "--from", after]);
    assert_eq!(kinds(&removed), ["removed", "end"], "the session's removal takes the place of that of its events");
    assert_eq!((&removed[0]["kind"], &removed[0]["count"]), (&json!("deleted"), &json!(3)));
    assert_eq!((&removed[0]["userId"], &removed[0]["sessionId"]), (&json!("alice"), &json!("s1")));
    let text = fixture.text(&["watch", "-a", "shop", "--from", after, "--until-idle=200ms"]);
    assert!(text.contains("alice/s1") && text.contains("deleted"), "{text}");
    assert_eq!(kinds(&lines(&fixture, &["-a", "shop", "--from", after, "--prefix", "step"])), ["end"]);
}

#[cfg(unix)]
#[test]
fn a_watch_follows_other_processes_until_it_is_interrupted() {
    let fixture = Fixture::with_session(0);
    let mut watch = fixture.command(&["--json", "watch", "-a", "shop", "--from", "beginning"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line
    });
    assert_eq!(output.next().unwrap()["type"], "state");
    assert_eq!(output.next().unwrap()["type"], "created");
    fixture.text(&[&["state", "set"], &S1[..], &["step=1"]].concat());
    assert_eq!(output.next().unwrap()["event"]["actions"]["stateDelta"], json!({"step": 1}));
    Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    let last = output.next().unwrap();
    assert!(last["type"] == "end" && last["cursor"].is_string(), "{last}");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}
