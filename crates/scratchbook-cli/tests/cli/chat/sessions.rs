//! A conversation is a session.

use std::process::Command;

use serde_json::json;

use super::{assert_in_order, chat, chat_as_json};
use crate::{Fixture, uri};

#[test]
fn without_a_key_the_script_answers_and_says_so() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["Add two apples, please", "My name is Ann"]).well();
    assert_in_order(
        &out,
        &[
            "demo: Keeps a cart",
            "note: the demo's own script answers, without a network. For a real model: models of gemini need a key; set",
            "GOOGLE_API_KEY",
            "    add_to_cart({\"items\":[{\"name\":\"apples\",\"quantity\":2}]})\n",
            "    add_to_cart answers {\"cart\":{\"apples\":2}}\n",
            "    cart = {\"apples\":2}\n",
            "Done. In your cart: 2 x apples.\n",
            "    user:name = \"Ann\"\n",
            "Nice to meet you, Ann. I will know you in every session.\n",
            "Continue it with:\nscratchbook chat --session ",
        ],
    );
    assert_eq!(out.matches("Done. In your cart").count(), 2, "as an answer, and under last_reply: {out}");
    fixture.text(&["verify"]);
}

#[test]
fn a_key_that_is_removed_is_shown_as_such() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["Add an apple", "remove everything"]).well();
    assert_in_order(&out, &["    cart = {\"apple\":1}\n", "remove_from_cart", "    cart removed\n"]);
}

#[test]
fn a_session_goes_on_by_its_id() {
    let fixture = Fixture::empty();
    chat(&fixture, &["--session", "s1"], &["Add a pear", "one", "two", "three"]).well();
    let out = chat(&fixture, &["--session", "s1"], &["What is in my cart?"]).well();
    assert_in_order(
        &out,
        &[
            "session  s1, ",
            " events, in sqlite://",
            "> one\nI am only a script",
            "> two\n",
            "> three\n",
            "In your cart: 1 x pear.\n",
        ],
    );
    assert!(!out.contains("> Add a pear"), "the last exchanges are enough: {out}");
    assert_eq!(fixture.sessions("demo"), ["s1"]);
    // Another user's session with this id is a different one.
    let out = chat(&fixture, &["--session", "s1", "--user", "ann"], &["What is in my cart?"]).well();
    assert_in_order(&out, &["session  s1, new", "Your cart is empty.", "--user ann"]);
}

#[test]
fn what_is_said_at_the_end_goes_on() {
    let fixture = Fixture::empty();
    let database = uri(&fixture.path("a b.db"));
    let out = chat(&fixture, &["--database", &database, "--app", "story"], &["a fox"]).well();
    let (_, command) = out.trim_end().rsplit_once("Continue it with:\nscratchbook ").unwrap();
    // A shell parses the command.
    let program = env!("CARGO_BIN_EXE_scratchbook");
    let again = Command::new("sh").arg("-c").arg(format!("echo 'a hen' | '{program}' {command}")).output().unwrap();
    let again = String::from_utf8(again.stdout).unwrap();
    assert_in_order(&again, &["> a fox\n", "outliner\n", "Hero: a hen\n", "teller\n", "Once there was a hen."]);
}

#[test]
fn what_was_in_memory_is_gone() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &["--database", "memory:"], &["Hello"]).well();
    assert_in_order(&out, &["Hello! I keep a cart", "The session was in memory, and is gone."]);
    let out = chat(&fixture, &["--database", "memory:"], &[]).well();
    assert!(!out.contains("gone"), "nothing was said: {out}");
}

#[test]
fn where_nothing_is_said_no_session_is_made() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["", "/state", "/help"]).well();
    assert!(out.contains("There is nothing.") && !out.contains("Continue it with"), "{out}");
    assert!(fixture.sessions("demo").is_empty());
}

#[test]
fn a_rewound_exchange_is_not_shown_again() {
    let fixture = Fixture::empty();
    chat(&fixture, &["--session", "s1"], &["Add a pear", "Add a plum"]).well();
    let shown = fixture.json(&["sessions", "show", "-a", "demo", "-u", "user", "-s", "s1"]);
    let events = shown["events"].as_array().unwrap();
    let plum = events.iter().find(|event| event["content"]["parts"][0]["text"] == "Add a plum").unwrap();
    let run = plum["invocationId"].as_str().unwrap();
    fixture.text(&["sessions", "rewind", "-a", "demo", "-u", "user", "-s", "s1", run]);
    let out = chat(&fixture, &["--session", "s1"], &["What is in my cart?"]).well();
    assert!(out.contains("> Add a pear") && !out.contains("> Add a plum"), "{out}");
    assert!(out.contains("In your cart: 1 x pear."), "{out}");
}

#[test]
fn programs_get_each_event_as_a_line() {
    let fixture = Fixture::empty();
    let lines = chat_as_json(&fixture, &["--session", "s1"], &["Add a pear", "/state cart"]);
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("session", "end"));
    assert_eq!(
        (&lines[0]["appName"], &lines[0]["sessionId"], &lines[0]["events"]),
        (&json!("demo"), &json!("s1"), &json!(0))
    );
    assert!(lines[0]["note"].as_str().unwrap().contains("GOOGLE_API_KEY"));
    let text = |kind: &str| -> String {
        let of_kind = lines.iter().filter(|line| line["type"] == kind);
        of_kind.filter_map(|line| line["event"]["content"]["parts"][0]["text"].as_str()).collect()
    };
    assert_eq!((text("piece"), text("event")), ("Done. In your cart: 1 x pear.".into(), text("piece")));
    assert_eq!(lines[lines.len() - 2], json!({"type": "state", "state": {"cart": {"pear": 1}}}));
}

#[test]
fn secret_keys_are_named_and_not_shown() {
    let fixture = Fixture::empty();
    let lines = ["My name is Ann", "remember that I like tea", "/state user:"];
    let secret = ["--secret", "user:facts", "--session", "s1"];
    let out = chat(&fixture, &secret, &lines).well();
    assert_in_order(&out, &["user:name = \"Ann\"", "user:facts = [secret]\n", "facts = \"[secret]\""]);
    let printed = chat_as_json(&fixture, &secret, &["remember that I like milk"]);
    let delta = printed.iter().find_map(|line| line["event"]["actions"]["stateDelta"].get("user:facts")).unwrap();
    assert_eq!(delta, "[secret]");
    let state = fixture.json(&["state", "get", "-a", "demo", "-u", "user", "facts"]);
    assert_eq!(state["facts"], json!(["I like tea", "I like milk"]), "they are in the database as they were said");
}
