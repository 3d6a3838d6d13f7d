//! Verification finds manual changes in every table, and continues.

use serde_json::{Value, json};

use crate::{Fixture, output};

/// Creates a session for each kind of damage.
fn filled() -> Fixture {
    let fixture = Fixture::empty();
    for user in ["a", "b", "c", "d", "e", "f"] {
        let address = ["-a", "shop", "-u", user, "-s", "s"];
        fixture.text(&[&["sessions", "create"], &address[..], &["step=0"]].concat());
        for n in ["1", "2", "3"] {
            let (step, user_key) = (format!("step={n}"), format!("user:n={n}"));
            fixture.text(&[&["state", "set"], &address[..], &[&step, &user_key]].concat());
        }
    }
    fixture
}

#[test]
fn what_was_changed_by_hand_is_found_and_named() {
    let fixture = filled();
    let all_right = fixture.text(&["verify"]);
    assert!(all_right.starts_with("verified 1 app, 6 users, 6 sessions, 18 events, 18 changes in logs"), "{all_right}");
    let database = rusqlite::Connection::open(fixture.path("agents.db")).unwrap();
    for damage in [
        "UPDATE session_states SET value = '7' WHERE user_id = 'a' AND key = 'step'",
        "UPDATE user_states SET value = '7' WHERE user_id = 'b'",
        "UPDATE state_log SET value = '7' WHERE user_id = 'c' AND version = 2",
        "UPDATE events SET event = replace(event, '\"step\":3', '\"step\":7') WHERE user_id = 'd' AND seq = 3",
        "DELETE FROM events WHERE user_id = 'e' AND seq = 2",
        "UPDATE session_states SET value = 'no JSON' WHERE user_id = 'f'",
    ] {
        assert_eq!(database.execute(damage, []).unwrap(), 1, "{damage}");
    }
    drop(database);

    let done = output(fixture.command(&["--json", "verify"]));
    assert_eq!(done.status.code(), Some(12), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let mut found: Vec<_> = report["differences"].as_array().unwrap().iter().collect();
    found.sort_by_key(|difference| difference["userId"].as_str());
    let users: Vec<_> = found.iter().map(|difference| difference["userId"].as_str().unwrap()).collect();
    assert_eq!(users, ["a", "b", "c", "d", "e", "f"], "{report:#}");
    for (difference, said) in found.iter().zip(["'step'", "'n'", "version 2", "event 3", "event 2", "shop/f"]) {
        assert!(difference["message"].as_str().unwrap().contains(said), "{difference}");
    }
    assert_eq!((&found[0]["sessionId"], &found[1]["sessionId"]), (&json!("s"), &json!(null)));

    let done = output(fixture.command(&["verify"]));
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!(out.lines().filter(|line| line.starts_with("differs  ")).count(), 6, "{out}");
    assert!(err.contains("6 differences"), "{err}");
    // The session of f cannot be read.
    assert_eq!(out.lines().last(), Some("checked 1 app, 6 users, 5 sessions: 6 differences"), "{out}");
    let done = output(fixture.command(&["verify", "-s", "shop/a/s"]));
    let out = String::from_utf8(done.stdout).unwrap();
    assert_eq!(out.lines().last(), Some("checked 0 apps, 0 users, 1 session: 1 difference"), "{out}");
}

#[test]
fn one_session_user_or_app_is_verified_alone() {
    let fixture = filled();
    let verified = |args: &[&str]| fixture.json(&[&["verify"], args].concat())["verified"].clone();
    let session = verified(&["-a", "shop", "-u", "a", "-s", "s"]);
    assert_eq!(session, json!({"apps": 0, "users": 0, "sessions": 1, "events": 3, "changes": 0}));
    let user = verified(&["-a", "shop", "-u", "a"]);
    assert_eq!(user, json!({"apps": 0, "users": 1, "sessions": 1, "events": 3, "changes": 3}));
    assert_eq!(verified(&["-a", "shop"])["sessions"], 6);
    for nothing in [&["-a", "none"][..], &["-a", "shop", "-u", "none"], &["-a", "shop", "-u", "a", "-s", "none"]] {
        let said = fixture.fails(3, &[&["verify"], nothing].concat());
        assert!(said.contains("none"), "{said}");
    }
    fixture.fails(2, &["verify", "-u", "a"]);
    fixture.fails(2, &["verify", "-a", ""]);
}
