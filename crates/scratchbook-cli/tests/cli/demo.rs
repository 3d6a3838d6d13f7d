//! The demo finds the expected values, in memory and repeatedly on a file.

use serde_json::{Value, json};

use crate::{Fixture, fails, scratchbook, text, uri};

fn demo(args: &[&str]) -> Value {
    let mut command = scratchbook();
    command.args(["demo", "--json"]).args(args);
    let answer: Value = serde_json::from_str(&text(command)).unwrap();
    assert_eq!(answer["ok"], true);
    answer
}

fn actual<'a>(answer: &'a Value, scenario: &str, what: &str) -> &'a Value {
    let scenario = answer["scenarios"].as_array().unwrap().iter().find(|s| s["name"] == scenario).unwrap();
    let check = scenario["checks"].as_array().unwrap().iter().find(|check| check["what"] == what);
    &check.unwrap_or_else(|| panic!("no check '{what}'"))["actual"]
}

#[test]
fn every_scenario_leaves_the_values_of_the_documentation() {
    let answer = demo(&[]);
    for (scenario, what, value) in [
        ("shopping-cart", "their price", json!(1299.98)),
        ("shopping-cart", "the loyalty points stay", json!(1000)),
        ("shopping-cart", "tax rate", json!(0.08)),
        ("support-chat", "messages", json!(3)),
        ("support-chat", "tickets so far", json!(3)),
        ("support-chat", "tickets", json!(4)),
        ("support-chat", "satisfaction", json!(4.7)),
        ("support-chat", "order", json!("12345")),
        ("support-chat", "messages in a new chat", json!(0)),
        ("support-chat", "no topic in a new chat", json!(null)),
        ("game", "wins so far", json!(10)),
        ("game", "final level", json!(4)),
        ("game", "final score", json!(5000)),
        ("game", "lives", json!(2)),
        ("game", "the wins stay", json!(11)),
        ("game", "high score", json!(5000)),
        ("game", "level in a new game", json!(1)),
        ("game", "score in a new game", json!(0)),
        ("game", "max level", json!(100)),
        ("game", "no wins in the tournament", json!(null)),
        ("delta-flow", "committed again", json!(20)),
        ("greeting", "last_greeting", json!("Hello there! How can I help you today?")),
        ("manual-delta", "logins, one more", json!(1)),
        ("manual-delta", "the temporary key is not stored", json!(null)),
    ] {
        assert_eq!(actual(&answer, scenario, what), &value, "{scenario}: {what}");
    }
}

#[test]
fn on_a_file_users_and_apps_keep_their_state_and_sessions_are_new() {
    let folder = tempfile::tempdir().unwrap();
    let database = uri(&folder.path().join("demo.db"));
    let first = demo(&["--database", &database]);
    let second = demo(&["--database", &database]);
    assert_eq!(actual(&first, "game", "wins so far"), 10);
    assert_eq!(actual(&second, "game", "wins so far"), 11);
    assert_eq!(actual(&second, "support-chat", "tickets so far"), 4);
    assert_eq!(actual(&second, "manual-delta", "logins, one more"), 2);
    assert_eq!(actual(&second, "shopping-cart", "an empty cart"), &json!([]));
    assert_eq!(actual(&second, "game", "no wins in the tournament"), &json!(null));
    let sessions = |answer: &Value| answer["scenarios"][0]["events"][0]["session"].clone();
    assert_ne!(sessions(&first), sessions(&second), "each run makes sessions of its own");
}

#[test]
fn what_was_changed_in_between_carries_on() {
    let fixture = Fixture::new();
    fixture.text(&["state", "set", "--app", "ecommerce_app", "--user", "user123", "loyalty_points=1200"]);
    fixture.text(&["state", "set", "--app", "ecommerce_app", "tax_rate=0.1"]);
    let answer = fixture.json(&["demo", "shopping-cart"]);
    assert_eq!(actual(&answer, "shopping-cart", "the loyalty points stay"), 1200);
    assert_eq!(actual(&answer, "shopping-cart", "the tax rate stays"), &json!(0.1));
}

#[test]
fn a_different_value_is_shown_and_exits_with_1() {
    let fixture = Fixture::new();
    fixture.text(&["state", "set", "-a", "tournament_app", "-u", "player_alice", "total_wins=1"]);
    let output = fixture.command(&["demo", "game"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("DIFFERENT  no wins in the tournament: 1, must be absent"), "{shown}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: 1 value is different from what it must be\n");
}

#[test]
fn events_are_shown_with_their_delta_and_the_state_after() {
    let mut command = scratchbook();
    command.args(["demo", "support-chat", "manual-delta"]);
    let shown = text(command);
    for line in [
        "   1  user  I need help with my order",
        "             session  message_count = 1",
        "             temp     processing_time = 0.5  (this run only, never stored)",
        "   2  support_agent  Which order is it?",
        "             user     total_tickets = 4",
        "login_form removed",
        "  ok         tickets: 4",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "a pipe gets no colours");
}

#[test]
fn scenarios_are_listed_and_a_wrong_one_is_an_error() {
    let mut command = scratchbook();
    command.args(["demo", "--list"]);
    assert_eq!(text(command).lines().count(), 8);
    let mut command = scratchbook();
    command.args(["demo", "shoping-cart"]);
    let said = fails(2, command);
    assert!(said.contains("'shopping-cart'") && said.contains("delta-flow"), "{said}");
}

#[test]
fn only_an_explicit_database_is_written_and_it_is_named_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("real.db");
    let mut command = scratchbook();
    command.env("SCRATCHBOOK_DATABASE", uri(&file)).args(["demo", "greeting"]);
    let shown = text(command);
    assert!(shown.starts_with("greeting  "), "{shown}");
    assert!(!file.exists(), "the environment's database is left alone");
    let mut command = scratchbook();
    command.args(["demo", "greeting", "--database", &uri(&file)]);
    let shown = text(command);
    assert_eq!(shown.lines().next().unwrap(), format!("writing to {}", uri(&file)));
    assert!(file.exists());
}

#[test]
fn what_carries_on_is_said_at_the_start_of_a_scenario() {
    let fixture = Fixture::new();
    let shown = fixture.text(&["demo", "shopping-cart"]);
    let start = shown.find("carried on from before: ecommerce_app/user123").expect("it is said");
    assert!(start < shown.find("user  Add iPhone 15").unwrap() && shown.contains("loyalty_points = 1000"), "{shown}");
    let answer = fixture.json(&["demo", "shopping-cart"]);
    let carried = &answer["scenarios"][0]["carriedOn"][0];
    assert_eq!(carried["appName"], "ecommerce_app");
    assert_eq!(carried["state"]["app:tax_rate"], 0.08);
    let event = &answer["scenarios"][0]["events"][0];
    assert_eq!([&event["appName"], &event["userId"]], ["ecommerce_app", "user123"]);
}

#[test]
fn state_is_shown_where_it_has_changed_and_every_event_says_something() {
    let mut command = scratchbook();
    command.args(["demo", "greeting", "callback-and-tool"]);
    let shown = text(command);
    let states: Vec<_> = shown.lines().filter(|line| line.trim_start().starts_with("state ")).collect();
    assert!(states.windows(2).all(|pair| pair[0] != pair[1]), "{states:#?}");
    assert!(shown.contains("assistant  changes the state, without a message"), "{shown}");
    assert!(!shown.contains("None") && shown.contains("no greeting yet: absent"), "{shown}");
}
