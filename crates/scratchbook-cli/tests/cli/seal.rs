//! Seals: what is compared, and what a difference says.

use serde_json::{Value, json};

use crate::{Fixture, output};

/// A database with the sessions shop/a/s and shop/b/s of three events each, sealed in two steps: `1.jsonl` after two
/// events, `2.jsonl` after all.
fn sealed() -> Fixture {
    let fixture = Fixture::empty();
    for user in ["a", "b"] {
        fixture.text(&["sessions", "create", "-a", "shop", "-u", user, "-s", "s", "step=0"]);
    }
    for n in ["1", "2"] {
        set(&fixture, n);
    }
    fixture.text(&["seal", "--to", &path(&fixture, "1.jsonl")]);
    set(&fixture, "3");
    fixture.text(&["seal", "--to", &path(&fixture, "2.jsonl"), "--since", &path(&fixture, "1.jsonl")]);
    fixture
}

fn set(fixture: &Fixture, n: &str) {
    for user in ["a", "b"] {
        let step = format!("step={n}");
        let of_user = format!("user:n={n}");
        fixture.text(&["state", "set", "-a", "shop", "-u", user, "-s", "s", &step, &of_user]);
    }
}

fn path(fixture: &Fixture, name: &str) -> String {
    fixture.path(name).display().to_string()
}

fn against(fixture: &Fixture, names: &[&str]) -> (Option<i32>, Value) {
    let files: Vec<_> = names.iter().map(|name| path(fixture, name)).collect();
    let mut args = vec!["--json", "verify", "--against"];
    args.extend(files.iter().map(String::as_str));
    let done = output(fixture.command(&args));
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap_or_default())
}

fn lines(fixture: &Fixture, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixture.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_seal_has_the_hash_of_each_event_and_value_and_no_text() {
    let fixture = sealed();
    let first = lines(&fixture, "1.jsonl");
    assert_eq!((&first[0]["seal"], &first[0]["from"], &first[0]["previous"]), (&json!(1), &json!(null), &json!(null)));
    let of = |kind: &str| first.iter().filter(|line| line.get(kind).is_some()).count();
    assert_eq!((of("event"), of("state"), of("sha256")), (4, 4, 1), "{first:#?}");
    assert!(first.iter().any(|line| {
        line["event"].as_array().is_some_and(|e| e[..4] == [json!("shop"), json!("a"), json!("s"), json!(2)])
    }));
    let second = lines(&fixture, "2.jsonl");
    assert_eq!(second[0]["previous"], first.last().unwrap()["sha256"]);
    assert_eq!(second[0]["from"], first[0]["to"]);
    let events: Vec<_> =
        second.iter().filter_map(|line| line["event"].as_array()).map(|event| event[3].clone()).collect();
    assert_eq!(events, [json!(3), json!(3)], "only what came after the first seal");
    let (code, report) = against(&fixture, &["1.jsonl", "2.jsonl"]);
    assert_eq!(
        (code, &report["difference"], &report["missingSeals"]),
        (Some(0), &json!(null), &json!([])),
        "{report:#}"
    );
    assert_eq!(report["same"], 14);
}

#[test]
fn each_kind_of_damage_is_found_and_named() {
    for (damage, said) in [
        (
            "UPDATE events SET event = replace(event, '\"author\":\"', '\"author\":\"x') WHERE user_id = 'a' AND seq = 2",
            "event 2 of shop/a/s",
        ),
        ("UPDATE events SET event = event || ' ' WHERE user_id = 'b' AND seq = 1", "event 1 of shop/b/s"),
        ("DELETE FROM events WHERE user_id = 'a' AND seq = 3", "event 3 of shop/a/s"),
        ("UPDATE events SET id = 'x' WHERE user_id = 'a' AND seq = 3", "event 3 of shop/a/s"),
        (
            "UPDATE state_log SET value = '7' WHERE user_id = 'b' AND version = 2",
            "version 2 of the key 'n' of the user shop/b",
        ),
        ("DELETE FROM state_log WHERE user_id = 'b' AND version = 3", "version 3 of the key 'n' of the user shop/b"),
    ] {
        let fixture = sealed();
        let database = rusqlite::Connection::open(fixture.path("agents.db")).unwrap();
        assert_eq!(database.execute(damage, []).unwrap(), 1, "{damage}");
        drop(database);
        let (code, report) = against(&fixture, &["1.jsonl", "2.jsonl"]);
        assert_eq!(code, Some(12), "{damage}: {report:#}");
        assert!(report["difference"].as_str().unwrap().contains(said), "{damage}: {report:#}");
    }
}

#[test]
fn what_was_pruned_is_counted_and_a_deleted_session_is_listed() {
    let fixture = sealed();
    fixture.text(&["prune", "--keep-last", "1", "--yes"]);
    let (code, report) = against(&fixture, &["1.jsonl", "2.jsonl"]);
    assert_eq!((code, &report["difference"]), (Some(0), &json!(null)), "{report:#}");
    assert!(report["gone"].as_u64().unwrap() >= 4 && report["same"].as_u64().unwrap() >= 2, "{report:#}");
    fixture.text(&["sessions", "delete", "-s", "shop/a/s", "--yes"]);
    let (code, report) = against(&fixture, &["1.jsonl", "2.jsonl"]);
    assert_eq!((code, &report["deletedSessions"]), (Some(0), &json!(["shop/a/s"])), "{report:#}");
    fixture.text(&["sessions", "create", "-a", "shop", "-u", "a", "-s", "s"]);
    fixture.text(&["state", "set", "-s", "shop/a/s", "step=1"]);
    let (code, report) = against(&fixture, &["1.jsonl", "2.jsonl"]);
    assert_eq!(code, Some(12), "{report:#}");
    assert!(report["difference"].as_str().unwrap().contains("deleted and created again"), "{report:#}");
}

#[test]
fn a_missing_seal_of_the_chain_is_named_and_a_changed_one_is_refused() {
    let fixture = sealed();
    let (code, report) = against(&fixture, &["2.jsonl"]);
    assert_eq!(code, Some(0));
    let hash = lines(&fixture, "1.jsonl").last().unwrap()["sha256"].clone();
    assert_eq!(report["missingSeals"][0]["sha256"], hash);
    let text = std::fs::read_to_string(fixture.path("1.jsonl")).unwrap();
    std::fs::write(fixture.path("changed.jsonl"), text.replacen("shop", "ship", 1)).unwrap();
    let said = fixture.fails(12, &["verify", "--against", &path(&fixture, "changed.jsonl")]);
    assert!(said.contains("changed.jsonl was changed"), "{said}");
    let said = fixture.fails(4, &["seal", "--to", &path(&fixture, "1.jsonl")]);
    assert!(said.contains("exists already"), "{said}");
}

#[test]
fn a_seal_of_another_database_is_refused() {
    let fixture = sealed();
    let other = sealed();
    let said = fixture.fails(6, &["verify", "--against", &path(&other, "1.jsonl")]);
    assert!(said.contains("of another database"), "{said}");
}

#[test]
fn a_noted_hash_in_place_of_a_file_names_seal() {
    let fixture = sealed();
    let said = fixture.fails(2, &["verify", "--against", &"0f".repeat(32)]);
    assert!(said.contains("scratchbook seal --to FILE"), "{said}");
    fixture.fails(2, &["verify", "--against", &path(&fixture, "1.jsonl"), "-a", "shop"]);
    fixture.fails(3, &["verify", "--against", &path(&fixture, "none.jsonl")]);
}
