//! The state of sessions, users and apps is set, read and removed.

use serde_json::{Value, json};

use crate::Fixture;

const APP: &str = "ecommerce_app";

fn address(fixture: &Fixture) -> Vec<String> {
    let session = fixture.sessions(APP).remove(0);
    ["--app", APP, "--user", "user123", "--session", &session].map(str::to_owned).to_vec()
}

fn args<'a>(command: &[&'a str], address: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    command.iter().copied().chain(address.iter().map(String::as_str)).chain(rest.iter().copied()).collect()
}

#[test]
fn values_come_back_as_they_were_set() {
    let fixture = Fixture::new();
    let session = address(&fixture);
    for (assignment, key, value) in [
        ("n=3", "n", json!(3)),
        ("big=18446744073709551615", "big", json!(u64::MAX)),
        ("float=1.0", "float", json!(1.0)),
        ("tiny=5e-324", "tiny", json!(5e-324)),
        ("null=null", "null", Value::Null),
        ("yes=true", "yes", json!(true)),
        ("word=hello there", "word", json!("hello there")),
        ("nan=NaN", "nan", json!("NaN")),
        ("empty=", "empty", json!("")),
        ("=no name", "", json!("no name")),
        ("equation=a=b", "equation", json!("a=b")),
        ("quoted=\"3\"", "quoted", json!("3")),
        ("nul=\"a\\u0000b\"", "nul", json!("a\u{0}b")),
        ("c1=\u{9b}31m\u{7f}", "c1", json!("\u{9b}31m\u{7f}")),
        ("list=[1, {\"a\": null}]", "list", json!([1, {"a": null}])),
        ("weird:q=1", "weird:q", json!(1)),
        ("user:theme=dark", "user:theme", json!("dark")),
        ("app:motd=hi \u{1f600}", "app:motd", json!("hi \u{1f600}")),
        ("a key\nwith lines=1", "a key\nwith lines", json!(1)),
    ] {
        fixture.json(&args(&["state", "set"], &session, &["--", assignment]));
        let got = fixture.json(&args(&["state", "get"], &session, &["--", key]));
        assert_eq!(got, json!({key: value}), "{assignment:?}");
    }
    fixture.text(&args(&["state", "set", "--string"], &session, &["n=3", "open=[1"]));
    fixture.text(&args(&["state", "set", "--delta", r#"{"x=y": {"z": 1}}"#], &session, &[]));
    let got = fixture.json(&args(&["state", "get"], &session, &["n", "open", "x=y"]));
    assert_eq!(got, json!({"n": "3", "open": "[1", "x=y": {"z": 1}}));
}

#[test]
fn a_session_changes_by_an_event() {
    let fixture = Fixture::new();
    let session = address(&fixture);
    let answer = fixture.json(&args(&["state", "set", "--author", "operator"], &session, &["a=1", "user:b=2"]));
    assert_eq!(answer["stateDelta"], json!({"a": 1, "user:b": 2}));
    assert_eq!(answer["event"]["author"], "operator");
    fixture.text(&args(&["state", "unset"], &session, &["a", "user:b"]));
    let shown = fixture.json(&args(&["sessions", "show", "--events", "2"], &session, &[]));
    assert_eq!(shown["events"][0]["actions"]["stateDelta"], json!({"a": 1, "user:b": 2}));
    assert_eq!(shown["events"][1]["author"], "user");
    assert_eq!(shown["state"].get("a"), None);
    assert_eq!(shown["state"].get("user:b"), None);
}

#[test]
fn users_and_apps_have_names_without_prefix() {
    let fixture = Fixture::new();
    fixture.text(&["state", "set", "-a", APP, "-u", "user123", "theme=dark"]);
    fixture.text(&["state", "set", "-a", APP, "motd=hi"]);
    let session = fixture.json(&args(&["state", "get"], &address(&fixture), &["user:theme", "app:motd"]));
    assert_eq!(session, json!({"user:theme": "dark", "app:motd": "hi"}));
    assert_eq!(fixture.json(&["state", "get", "-a", APP, "-u", "user123", "theme"]), json!({"theme": "dark"}));
    fixture.text(&["state", "unset", "-a", APP, "motd"]);
    assert_eq!(fixture.json(&["state", "get", "-a", APP]), json!({"tax_rate": 0.08}));
    let text = fixture.text(&["state", "get", "-a", APP]);
    assert!(text.contains("KEY") && text.contains("tax_rate") && text.contains("0.08"), "{text}");
}

#[test]
fn what_would_end_up_elsewhere_is_refused() {
    let fixture = Fixture::new();
    let session = address(&fixture);
    let before = fixture.json(&args(&["state", "get"], &session, &[]));
    for (assignment, hint) in [
        ("temp:x=1", "never stored"),
        ("x=99999999999999999999", "64 bits"),
        ("x=1e999", "out of range"),
        ("x=[1, 2", "--string"),
        ("x={'a': 1}", "--string"),
        ("no assignment", "KEY=VALUE"),
        ("x=\"__ADK_SENTINEL_REMOVED__\"", "remove"),
    ] {
        let said = fixture.fails(2, &args(&["state", "set"], &session, &["good=1", assignment]));
        assert!(said.contains(hint), "{assignment}: {said}");
    }
    let long = format!("{}=1", "k".repeat(1025));
    fixture.fails(2, &args(&["state", "set"], &session, &[&long]));
    let said = fixture.fails(2, &["state", "set", "-a", APP, "-u", "user123", "user:theme=dark"]);
    assert!(said.contains("'theme'"), "{said}");
    assert_eq!(fixture.json(&args(&["state", "get"], &session, &[])), before, "nothing was set in half");
}

#[test]
fn text_has_no_power_over_the_terminal() {
    let fixture = Fixture::new();
    let session = address(&fixture);
    fixture.text(&args(&["state", "set"], &session, &["k\u{1b}[31m=\u{1b}[2J\u{9b}2J"]));
    for command in [vec!["state", "get"], vec!["sessions", "show"]] {
        let mut command = fixture.command(&args(&command, &session, &[]));
        command.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
        let shown = crate::text(command);
        assert!(shown.contains("\u{1b}["), "colours were asked for");
        assert!(
            !shown.contains("\u{1b}[2J") && !shown.contains("k\u{1b}[31m") && !shown.contains('\u{9b}'),
            "{shown:?}"
        );
    }
}

#[test]
fn a_missing_key_is_not_removed_and_is_reported() {
    let fixture = Fixture::new();
    let session = address(&fixture);
    let shown = fixture.text(&args(&["state", "unset"], &session, &["none"]));
    assert_eq!(shown, "'none' was not there\n");
    let answer = fixture.json(&args(&["state", "unset"], &session, &["none"]));
    assert_eq!([&answer["event"], &answer["missing"]], [&Value::Null, &json!(["none"])]);
    let events = fixture.json(&args(&["sessions", "show"], &session, &[]));
    assert_eq!(events["eventCount"], 4, "no event tells of nothing");
    let answer = fixture.json(&args(&["state", "unset"], &session, &["none", "cart_total"]));
    assert_eq!(answer["missing"], json!(["none"]));
    assert_eq!(answer["event"]["actions"]["stateDelta"], json!({"cart_total": "__ADK_SENTINEL_REMOVED__"}));
    fixture.text(&["state", "unset", "-a", APP, "none"]);
}

#[test]
fn the_scope_is_in_the_json() {
    let fixture = Fixture::new();
    for (owner, scope) in [(&["-u", "user123"][..], "user"), (&[], "app")] {
        let set = fixture.text(&[&["state", "set", "-a", APP], owner, &["k=1"]].concat());
        assert!(set.contains(&format!("delta  {scope}")) && !set.contains("session"), "{set}");
        let answer = fixture.json(&[&["state", "set", "-a", APP], owner, &["k=2"]].concat());
        assert_eq!(answer["scope"], scope);
        let unset = fixture.text(&[&["state", "unset", "-a", APP], owner, &["k"]].concat());
        assert!(unset.contains(&format!("delta  {scope}")) && !unset.contains("session"), "{unset}");
    }
}

#[test]
fn characters_that_reorder_or_hide_text_are_escaped() {
    let fixture = Fixture::new();
    let hidden = "a\u{202e}b\u{2066}c\u{2028}d\u{2029}e\u{200f}f\u{feff}g\u{e0041}h";
    fixture.text(&["state", "set", "-a", APP, &format!("{hidden}={hidden}")]);
    let shown = fixture.text(&["state", "get", "-a", APP]);
    assert!(shown.contains("a\\u{202e}b\\u{2066}c\\u{2028}d") && shown.contains("\\udb40\\udc41"), "{shown}");
    assert!(hidden.chars().filter(|c| !c.is_ascii()).all(|c| !shown.contains(c)), "{shown:?}");
    assert_eq!(fixture.json(&["state", "get", "-a", APP])[hidden], hidden);
}
