//! Pruning deletes old events, overwritten changes and expired sessions. State and exports stay correct.

use scratchbook::{CreateSessionConfig, Event, StateDelta, connect};
use serde_json::json;

use crate::jsonl::{export, import, other};
use crate::{Fixture, S1, text, uri};

/// Creates shop/alice/old with 1,200 events, one for each day since 1970, and shop/bob/new with one event of now.
async fn filled() -> Fixture {
    let fixture = Fixture::empty();
    let sessions = connect(&uri(&fixture.path("agents.db"))).await.unwrap().sessions;
    let event = |n: u32| {
        let delta = StateDelta::new().with("step", n).unwrap().with("user:n", n).unwrap();
        Event::new("agent").with_timestamp(f64::from(n) * 86_400.0).with_state_delta(delta)
    };
    let config = CreateSessionConfig::default().with_session_id("old").with_events((1..=1_200).map(event).collect());
    sessions.create_session("shop", "alice", config).await.unwrap();
    let config = CreateSessionConfig::default().with_session_id("new").with_events(vec![Event::new("agent")]);
    sessions.create_session("shop", "bob", config).await.unwrap();
    sessions.close().await.unwrap();
    fixture
}

#[tokio::test]
async fn old_events_go_but_for_the_last_ones() {
    let fixture = filled().await;
    let old = ["-a", "shop", "-u", "alice", "-s", "old"];
    let prune = ["prune", "--older-than", "30d", "--keep-last", "100"];
    let said = fixture.fails(2, &prune);
    assert!(said.contains("--yes"), "{said}");
    let counted = json!({
        "dryRun": true, "expiredSessions": 0, "events": 1_100, "sessions": 1, "changes": 0, "logs": 0,
    });
    assert_eq!(fixture.json(&[&prune[..], &["--dry-run"]].concat()), counted);
    assert_eq!(fixture.json(&[&["sessions", "show"], &old[..], &["-e", "2000"]].concat())["onlyLastEvents"], false);
    let prune = [&prune[..], &["--yes"]].concat();
    let said = fixture.text(&prune);
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("prunes of all sessions: the events from before "), "{said}");
    assert!(first.ends_with("but for the last 100 events"), "{said}");
    assert_eq!(said.lines().last(), Some("gone: 1100 events of 1 session"));
    assert_eq!(fixture.json(&prune)["events"], 0);
    let shown = fixture.json(&[&["sessions", "show"], &old[..], &["-e", "2000"]].concat());
    assert_eq!((&shown["eventCount"], &shown["events"][0]["seq"]), (&json!(1_200), &json!(1_101)));
    assert_eq!((&shown["state"]["step"], &shown["state"]["user:n"]), (&json!(1_200), &json!(1_200)));
    assert_eq!(fixture.json(&["prune", "-a", "shop", "-u", "bob", "--keep-last", "5", "--yes"])["events"], 0);
    assert_eq!(fixture.json(&["prune", "-a", "shop", "-u", "alice", "--keep-last", "7", "--yes"])["events"], 93);

    assert_eq!(fixture.json(&["prune", "--log-older-than", "30d", "--dry-run"])["changes"], 1_199);
    assert_eq!(fixture.json(&["prune", "--log-older-than", "30d", "--yes"])["changes"], 1_199);
    assert_eq!(fixture.json(&["prune", "--log-older-than", "30d", "--yes"])["logs"], 0);
    fixture.text(&["verify"]);
}

#[test]
fn expired_sessions_are_deleted_for_good() {
    let fixture = Fixture::with_session(1);
    fixture.text(&["sessions", "create", "-a", "shop", "-u", "alice", "-s", "short", "--time-to-live", "1ms"]);
    assert_eq!(fixture.json(&["prune", "--expired", "--dry-run"])["expiredSessions"], json!(null));
    assert_eq!(fixture.json(&["prune", "--expired"])["expiredSessions"], 1);
    assert_eq!(fixture.text(&["prune", "--expired"]).lines().last(), Some("gone: 0 expired sessions"));
}

#[test]
fn a_prune_says_what_it_needs() {
    let fixture = Fixture::with_session(0);
    let said = fixture.fails(2, &["prune"]);
    assert!(said.contains("--expired") && said.contains("--older-than") && said.contains("--dry-run"), "{said}");
    for bad in [
        &["--older-than", "old"][..],
        &["--older-than", "1 month"],
        &["--keep-last", "-1"],
        &["--expired", "-a", "shop"],
        &["-u", "alice", "--keep-last", "1"],
    ] {
        fixture.fails(2, &[&["prune"], bad].concat());
    }
}

#[test]
fn pruned_and_forked_sessions_and_those_that_expire_come_back_from_an_export() {
    let fixture = Fixture::with_session(4);
    fixture.text(&[&["sessions", "fork"], &S1[..], &["--at", "2", "--id", "f"]].concat());
    fixture.text(&["sessions", "expire", "-a", "shop", "-u", "alice", "-s", "f", "--at", "2100-01-01"]);
    fixture.text(&["prune", "--keep-last", "1", "--yes"]);
    let first = export(&fixture, "first.jsonl");
    assert!(first.contains("\"expireTime\":4102444800.0"), "{first}");
    let report = import(&fixture, "first.jsonl");
    assert_eq!((&report["refused"], &report["sessions"]["created"]), (&json!([]), &json!(2)));
    let events: Vec<_> = first.lines().filter(|line| line.contains("\"type\":\"event\"")).collect();
    assert!(events.len() == 2 && events.iter().all(|event| event.contains("\"seq\":1,")), "{events:?}");
    assert_eq!(text(other(&fixture, &["export"])), first);
    text(other(&fixture, &["verify"]));
    let over = first.replace("4102444800.0", "1.0");
    std::fs::write(fixture.path("over.jsonl"), over).unwrap();
    text(other(&fixture, &["users", "erase", "--yes", "-a", "shop", "-u", "alice"]));
    let report = import(&fixture, "over.jsonl");
    assert_eq!((&report["sessions"]["created"], &report["sessions"]["expired"]), (&json!(1), &json!(1)));
}
