//! Increments, appends, merges and guards.

use serde_json::{Value, json};

use crate::Fixture;

const APP: &str = "ecommerce_app";

/// Returns the address of a session, of its user, and of the app.
fn addresses(fixture: &Fixture) -> [Vec<String>; 3] {
    let session = fixture.sessions(APP).remove(0);
    let of = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
    [of(&["-a", APP, "-u", "user123", "-s", &session]), of(&["-a", APP, "-u", "user123"]), of(&["-a", APP])]
}

fn args<'a>(command: &'a str, address: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    ["state", command].into_iter().chain(address.iter().map(String::as_str)).chain(rest.iter().copied()).collect()
}

#[test]
fn operations_change_sessions_users_and_apps() {
    let fixture = Fixture::new();
    for address in &addresses(&fixture) {
        fixture.text(&args("increment", address, &["n"]));
        let answer = fixture.json(&args("increment", address, &["n=41", "f=0.5", "n2=-3", "n=0"]));
        assert_eq!(answer["stateDelta"], json!({"n": 42, "f": 0.5, "n2": -3}), "the result is shown");
        fixture.text(&args("append", address, &["list=a", "list=1", "list=[2]"]));
        fixture.text(&args("append", address, &["--string", "list=1"]));
        fixture.text(&args("merge", address, &[r#"map={"a": 1, "b": {"c": 2}}"#]));
        let shown = fixture.text(&args("merge", address, &[r#"map={"a": null, "b": {"d": 3}}"#]));
        assert!(shown.contains(r#"map = {"b":{"c":2,"d":3}}"#), "{shown}");
        let state = fixture.json(&args("get", address, &["n", "f", "n2", "list", "map"]));
        let expected = json!({"n": 42, "f": 0.5, "n2": -3, "list": ["a", 1, [2], "1"], "map": {"b": {"c": 2, "d": 3}}});
        assert_eq!(state, expected);
    }
    let [session, ..] = addresses(&fixture);
    fixture.text(&args("increment", &session, &["user:n=8", "app:n=-2"]));
    assert_eq!(fixture.json(&args("get", &session, &["user:n", "app:n"])), json!({"user:n": 50, "app:n": 40}));
}

#[test]
fn guards_let_a_write_through_or_refuse_it_whole() {
    let fixture = Fixture::new();
    for address in &addresses(&fixture) {
        let set = ["--expect-absent", "lock", "lock=mine", "x=1"];
        fixture.text(&args("set", address, &set));
        let said = fixture.fails(5, &args("set", address, &set));
        assert!(said.contains("lock' is not as this write requires") && said.contains("written by 'user'"), "{said}");
        fixture.text(&args("increment", address, &["--expect", "lock=mine", "--expect", "x=1", "x"]));
        for refused in [
            args("increment", address, &["--expect", "x=1", "x"]),
            args("append", address, &["--expect", "x=1", "list=1"]),
            args("merge", address, &["--expect", "x=1", "map={}"]),
            args("set", address, &["--expect", "x=1", "x=5"]),
        ] {
            fixture.fails(5, &refused);
        }
        assert_eq!(fixture.json(&args("get", address, &["x"])), json!({"x": 2}));
        fixture.text(&args("set", address, &["--expect", "x=2", "x=3"]));
        let checked = fixture.json(&args("set", address, &["--expect", "x=3", "--delta", "{}"]));
        assert_eq!(checked["stateDelta"], json!({}));
    }
}

#[test]
fn a_conflict_is_json() {
    let fixture = Fixture::new();
    let [_, user, app] = addresses(&fixture);
    fixture.text(&args("set", &user, &["--author", "admin", "k=1"]));
    let said = fixture.fails(5, &[&["--json"], &args("set", &user, &["--expect", "k=2", "k=3"])[..]].concat());
    let error: Value = serde_json::from_str(&said).unwrap();
    let expected = json!([{"key": "user:k", "cause": "guard", "read": 2, "found": 1, "writer": {"author": "admin"}}]);
    assert_eq!(error["error"]["conflicts"], expected);
    let said = fixture.fails(5, &[&["--json"], &args("set", &app, &["--expect", "none=2", "k=3"])[..]].concat());
    let error: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(error["error"]["conflicts"], json!([{"key": "app:none", "cause": "guard", "read": 2}]));
}

#[test]
fn what_cannot_be_done_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    let [session, user, _] = addresses(&fixture);
    fixture.text(&args("set", &user, &["text=hello", "most=18446744073709551615"]));
    for (code, command, operand, hint) in [
        (6, "increment", "text", "is a string"),
        (6, "increment", "most", "64 bits"),
        (6, "append", "text=1", "only a list"),
        (2, "increment", "n=much", "give a number"),
        (2, "append", "list", "KEY=VALUE"),
        (2, "merge", "map={a: 1}", "malformed JSON"),
        (2, "increment", "user:n", "'n'"),
    ] {
        let said = fixture.fails(code, &args(command, &user, &[operand]));
        assert!(said.contains(hint), "{command} {operand}: {said}");
    }
    let said = fixture.fails(2, &args("increment", &session, &["temp:n"]));
    assert!(said.contains("never stored"), "{said}");
    assert_eq!(fixture.json(&args("get", &user, &["text"])), json!({"text": "hello"}));
}
