//! Calls that wait for the user: for a confirmation, or for an answer that comes later.

use serde_json::json;

use super::{assert_in_order, chat, chat_as_json};
use crate::Fixture;

fn facts(fixture: &Fixture) -> serde_json::Value {
    fixture.json(&["state", "list", "-a", "demo", "-u", "user", "--prefix", "name"])
}

#[test]
fn a_call_that_needs_consent_is_made_when_the_user_says_yes() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["My name is Ann", "forget me", "add a pear", "y", "Who am I?"]).well();
    assert_in_order(
        &out,
        &[
            "    forget_customer({})\n",
            "May it call forget_customer({})?\n",
            // A piped line that is neither yes nor no is sent as a message, and the question is asked again.
            "That is no y or n; the question stays open.\n",
            "    add_to_cart(",
            "May it call forget_customer({})?\n",
            "    forget_customer answers {\"forgotten\":true}\n",
            "    user:name removed\n",
            "I have forgotten who you are",
            "You have not told me your name.",
        ],
    );
    assert!(!out.contains("requires confirmation"), "that is between the tool and its model: {out}");
    fixture.text(&["verify"]);
}

#[test]
fn and_not_when_the_user_says_no() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &[], &["My name is Ann", "forget me", "n", "Who am I?"]).well();
    assert_in_order(&out, &["May it call forget_customer({})?\n", "Then I keep what I know of you.", "You are Ann."]);
    assert!(!out.contains("removed"), "{out}");
}

#[test]
fn a_question_that_nobody_answered_is_asked_again_later() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &["--session", "s1"], &["My name is Ann", "forget me"]).well();
    assert_in_order(&out, &["May it call forget_customer({})?\n", "Continue it with"]);
    assert!(facts(&fixture).to_string().contains("Ann"));
    let out = chat(&fixture, &["--session", "s1"], &["yes"]).well();
    assert_in_order(&out, &["> forget me\n", "May it call forget_customer({})?\n", "I have forgotten who you are"]);
    assert!(!facts(&fixture).to_string().contains("Ann"));
    let out = chat(&fixture, &["--session", "s1"], &["Hello"]).well();
    assert!(!out.contains("May it call"), "it was answered: {out}");
}

#[test]
fn programs_are_asked_in_json() {
    let fixture = Fixture::empty();
    let lines = chat_as_json(&fixture, &[], &["forget me", "y"]);
    let question = lines.iter().find(|line| line["type"] == "confirmation").unwrap();
    assert_eq!((&question["call"]["name"], &question["hint"]), (&json!("forget_customer"), &json!(null)));
}

#[test]
fn a_call_that_waits_is_answered_when_there_is_an_answer() {
    let fixture = Fixture::empty();
    let out = chat(&fixture, &["--session", "s1"], &["ask for a discount", "Add a pear"]).well();
    assert_in_order(
        &out,
        &[
            "    ask_for_discount({})\n",
            "    ask_for_discount answers {\"status\":\"pending\"}\n",
            "I have asked for a discount. The answer will come.\n",
            "/answer VALUE, with JSON or text, answers: ask_for_discount({})\n",
            "In your cart: 1 x pear.\n",
        ],
    );
    let out =
        chat(&fixture, &["--session", "s1"], &["/answer", "/answer {\"percent\": 10}", "/answer again", "Thanks"])
            .well();
    assert_in_order(
        &out,
        &[
            "answers: ask_for_discount({})\n",
            "You get 10 % off.\n",
            "Nothing waits for an answer.\n",
            "You are welcome",
        ],
    );
    assert_eq!(out.matches("answers: ask_for_discount").count(), 1, "it is answered: {out}");
    fixture.text(&["verify"]);
}
