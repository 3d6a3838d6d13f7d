//! A session is named by its address, by its id or the beginning of its id, or with `--last`.

use serde_json::json;

use crate::chat::chat_as_json;
use crate::{Fixture, S1};

/// Ids such as stores generate.
const FIRST: &str = "019aa3b2-5d1c-7f00-8a6e-000000000001";
const SECOND: &str = "019aa3b2-5d1c-7f00-8a6e-000000000002";

/// Creates the session shop/alice/s1 first, and then two sessions with ids such as stores generate: shop/bob/FIRST and
/// store/bob/SECOND.
fn filled() -> Fixture {
    let fixture = Fixture::with_session(2);
    for (app, id) in [("shop", FIRST), ("store", SECOND)] {
        fixture.text(&["sessions", "create", "-a", app, "-u", "bob", "-s", id, &format!("is_in={app}")]);
    }
    fixture
}

#[test]
fn every_command_takes_every_form_of_an_address() {
    let fixture = filled();
    let s1: [&[&str]; 6] = [
        &S1,
        &["-s", "shop/alice/s1"],
        &["-s", "shop/alice/s"],
        &["-s", "s1"],
        &["-a", "shop", "-s", "s"],
        &["-u", "alice", "--last"],
    ];
    for form in s1 {
        for command in [
            &["sessions", "show"][..],
            &["state", "get"],
            &["state", "set", "x=1"],
            &["state", "increment", "n"],
            &["state", "append", "l=1"],
            &["state", "merge", "m={}"],
            &["state", "unset", "x"],
            &["state", "list"],
            &["state", "at", "1"],
            &["state", "diff", "0", "2"],
            &["state", "history", "step"],
            &["state", "blame"],
            &["sessions", "update", "--title", "t"],
            &["sessions", "expire", "--never"],
            &["sessions", "fork"],
            &["verify"],
            &["watch", "--from", "beginning", "--limit", "1"],
        ] {
            // A fork would be the session with the newest event, and another session of alice, so it is deleted.
            if command.contains(&"fork") {
                let forked = fixture.json(&[command, form].concat());
                fixture.text(&[
                    "sessions",
                    "delete",
                    "--yes",
                    "-a",
                    "shop",
                    "-u",
                    "alice",
                    "-s",
                    forked["id"].as_str().unwrap(),
                ]);
            } else {
                fixture.text(&[command, form].concat());
            }
        }
    }
    let id = |args: &[&str]| fixture.json(&[&["sessions", "show"], args].concat())["id"].as_str().unwrap().to_owned();
    for form in
        [&["shop/alice/s1"][..], &["shop/alice/s"], &["s1"], &["s"], &["-a", "shop", "s"], &["-u", "alice", "s1"]]
    {
        assert_eq!(id(form), "s1", "{form:?}");
    }
    assert_eq!(id(&["-a", "store", "019aa3b2"]), SECOND);
    assert_eq!(id(&["-a", "store", "--last"]), SECOND);
    for form in [&["shop/alice/s1", "none"][..], &["s1", "none"], &["-s", "s1", "none"], &["--last", "none"]] {
        let said = fixture.fails(3, &[&["sessions", "rewind"], form].concat());
        assert!(said.contains("'none'"), "{said}");
    }
    fixture.fails(2, &["sessions", "rewind", "none"]);
    fixture.fails(2, &["sessions", "rewind", "--last", "shop/alice/s1", "none"]);
}

#[test]
fn the_last_session_is_the_one_with_the_newest_event() {
    let fixture = filled();
    let last = |args: &[&str]| fixture.json(&[&["sessions", "show", "--last"], args].concat())["id"].clone();
    assert_eq!(last(&[]), SECOND);
    assert_eq!(last(&["-a", "shop"]), FIRST);
    fixture.text(&["state", "set", "-s", "s1", "x=1"]);
    assert_eq!(last(&[]), "s1");
    assert_eq!(last(&["-u", "bob"]), SECOND);
    let said = fixture.fails(3, &["sessions", "show", "--last", "-u", "nobody"]);
    assert!(said.contains("no session of user 'nobody' yet"), "{said}");
}

#[test]
fn the_beginning_of_several_ids_lists_them() {
    let fixture = filled();
    let said = fixture.fails(2, &["sessions", "show", "019aa3b2"]);
    assert!(
        said.contains(&format!("\n  shop/bob/{FIRST}\n")) && said.contains(&format!("store/bob/{SECOND}")),
        "{said}"
    );
    let said = fixture.fails(2, &["--json", "state", "get", "-s", "019aa3b2"]);
    let error: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(error["error"]["candidates"].as_array().unwrap().len(), 2, "{error}");
    // Two users of one app have a session with this id. The id is also the beginning of another id.
    fixture.text(&["sessions", "create", "-a", "shop", "-u", "carol", "-s", "s1"]);
    fixture.text(&["sessions", "create", "-a", "shop", "-u", "carol", "-s", "s12"]);
    let said = fixture.fails(2, &["sessions", "show", "s1"]);
    assert!(said.contains("shop/alice/s1\n") && said.contains("shop/carol/s1\n") && !said.contains("s12"), "{said}");
    let said = fixture.fails(3, &["sessions", "show", "nothing"]);
    assert!(said.contains("'nothing'") && said.contains("sessions list"), "{said}");
}

#[test]
fn the_beginning_of_an_id_is_enough_in_an_address() {
    let fixture = filled();
    for (user, id) in [("alice", "s12"), ("alice", "order-7"), ("bob", "order-8")] {
        fixture.text(&["sessions", "create", "-a", "shop", "-u", user, "-s", id]);
    }
    let found = |address: &str| fixture.json(&["sessions", "show", address])["id"].as_str().unwrap().to_owned();
    assert_eq!(found("shop/alice/order"), "order-7", "bob's does not count");
    assert_eq!(found("shop/bob/019aa3b2"), FIRST);
    assert_eq!(found("shop/alice/s1"), "s1", "it is the beginning of s12, too, but an id as it is");
    fixture.text(&["state", "set", "-s", "shop/alice/o", "x=1"]);
    assert_eq!(fixture.json(&["state", "get", "-s", "shop/alice/order-7", "x"]), json!({"x": 1}));

    let said = fixture.fails(2, &["sessions", "show", "shop/alice/s"]);
    assert!(said.contains("\n  shop/alice/s1\n") && said.contains("\n  shop/alice/s12\n"), "{said}");
    assert_eq!(said.matches("  shop/").count(), 2, "{said}");
    let said = fixture.fails(2, &["--json", "sessions", "show", "shop/alice/s"]);
    let error: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(error["error"]["candidates"].as_array().unwrap().len(), 2, "{error}");
    let said = fixture.fails(3, &["sessions", "show", "shop/bob/s1"]);
    assert!(said.contains("of user 'bob' of app 'shop'") && said.contains("'s1'"), "{said}");
    fixture.fails(3, &["sessions", "show", "store/alice/order"]);
}

#[test]
fn three_options_are_never_the_beginning_of_another_session() {
    let fixture = Fixture::with_session(1);
    let other = |id| ["-a", "shop", "-u", "alice", "-s", id];
    fixture.fails(3, &[&["state", "set"], &other("s")[..], &["x=1"]].concat());
    let gone = [&["sessions", "delete", "--yes"], &other("s")[..]].concat();
    assert_eq!(fixture.json(&gone), json!({"deleted": [], "missing": ["s"]}));
    for beginning in ["s", "shop/alice/s"] {
        let said = fixture.fails(2, &["sessions", "delete", "--yes", beginning]);
        assert!(said.contains("whole ids") && said.contains("shop/alice/s1"), "{said}");
    }
    let said = fixture.fails(2, &["sessions", "show", "-a", "store", "shop/alice/s1"]);
    assert!(said.contains("give --app shop"), "{said}");
    let deleted = fixture.json(&["sessions", "delete", "--yes", "shop/alice/s1", "shop/alice/s2"]);
    assert_eq!(deleted, json!({"deleted": ["s1"], "missing": ["s2"]}));
}

#[test]
fn a_schema_finds_the_app_in_an_address() {
    let fixture = Fixture::with_session(0);
    let schema = fixture.path("schema.json");
    std::fs::write(&schema, r#"{"version": 1, "keys": {"step": {"type": "integer"}}}"#).unwrap();
    let set = |session: &str| {
        ["--schema", schema.to_str().unwrap(), "state", "set", "-s", session, "step=no"].map(str::to_owned)
    };
    let args = set("shop/alice/s1");
    fixture.fails(2, &args.each_ref().map(String::as_str));
    let args = set("s1");
    let said = fixture.fails(2, &args.each_ref().map(String::as_str));
    assert!(said.contains("--app"), "{said}");
}

#[test]
fn what_is_no_event_number_is_explained() {
    let fixture = Fixture::with_session(0);
    let said = fixture.fails(2, &["state", "diff", "--last", "first", "2"]);
    assert!(said.contains("number of an event") && said.contains("sessions show"), "{said}");
    for feed in [&["-a", "shop"][..], &["--last"]] {
        let said = fixture.fails(2, &[&["watch", "--from", "garbage"], feed].concat());
        assert!(said.contains("'garbage' is not a cursor"), "{said}");
    }
}

#[test]
fn a_conversation_continues_by_the_beginning_of_an_id_and_not_of_a_name() {
    let fixture = Fixture::empty();
    for id in [FIRST, "20261123-notes"] {
        fixture.text(&["sessions", "create", "-a", "demo", "-u", "user", "-s", id]);
    }
    let begun = |args: &[&str]| chat_as_json(&fixture, args, &[])[0]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(begun(&["--session", "019aa3b2"]), FIRST);
    assert_eq!(begun(&["--session", &format!("demo/user/{FIRST}")]), FIRST);
    assert_eq!(begun(&["--session", "demo/user/019aa3b2"]), FIRST);
    assert_eq!(begun(&["--last"]), "20261123-notes");
    for name in ["20261123", "019aa3b", "s1"] {
        assert_eq!(begun(&["--session", name]), name, "a new session with this name");
    }
    fixture.fails(2, &["chat", "--session", "shop/user/s1"]);
    fixture.fails(2, &["chat", "--user", "ann", "--session", "demo/user/s1"]);
    fixture.fails(3, &["chat", "--user", "ann", "--last"]);
}
