//! Point-in-time state, diffs, history and blame, rewinds and forks.

use serde_json::json;

use crate::{Fixture, S1};

#[test]
fn state_is_shown_at_any_event_and_what_changed_between_two() {
    let fixture = Fixture::with_session(3);
    let at = |seq: &str| fixture.json(&[&["state", "at"], &S1[..], &[seq]].concat());
    assert_eq!(at("0"), json!({"step": 0, "user:theme": "t0"}));
    assert_eq!(at("2"), json!({"step": 2, "user:theme": "t2"}));
    let diff = [&["state", "diff"], &S1[..], &["1", "3"]].concat();
    let expected = json!({"step": {"before": 1, "after": 3}, "user:theme": {"before": "t1", "after": "t3"}});
    assert_eq!(fixture.json(&diff), expected);
    let text = fixture.text(&diff);
    assert!(text.contains("BEFORE") && text.contains("\"t3\""), "{text}");
    assert!(fixture.text(&[&["state", "diff"], &S1[..], &["2", "2"]].concat()).contains("nothing differs"));
    let said = fixture.fails(3, &[&["state", "at"], &S1[..], &["4"]].concat());
    assert!(said.contains("has the number 3"), "{said}");
    fixture.fails(2, &[&["state", "at"], &S1[..], &["-1"]].concat());
    fixture.fails(3, &["state", "diff", "-a", "shop", "-u", "alice", "-s", "none", "0", "1"]);
}

#[test]
fn each_key_has_a_history_and_a_writer() {
    let fixture = Fixture::with_session(2);
    fixture.text(&["state", "set", "-a", "shop", "--author", "boss", "open=true"]);
    let history = |args: &[&str]| fixture.json(&[&["state", "history"], args].concat())["writes"].clone();
    let own = history(&[&S1[..], &["step"]].concat());
    let values: Vec<_> = own.as_array().unwrap().iter().map(|write| [&write["seq"], &write["value"]]).collect();
    assert_eq!(json!(values), json!([[2, 2], [1, 1], [0, 0]]));
    let shared = history(&["-a", "shop", "-u", "alice", "theme", "--limit", "1"]);
    assert_eq!((shared.as_array().unwrap().len(), &shared[0]["value"]), (1, &json!("t2")));
    assert_eq!(history(&[&S1[..], &["user:theme", "-l", "1"]].concat()), shared);
    assert_eq!(history(&["-a", "shop", "none"]), json!([]));
    for key in ["step", "user:theme"] {
        let whole = history(&[&S1[..], &[key]].concat());
        let then = history(&[&S1[..], &[key, "--at", "1"]].concat());
        assert_eq!(json!(whole.as_array().unwrap()[1..]), then, "{key}");
        fixture.fails(3, &[&["state", "history"], &S1[..], &[key, "--at", "3"]].concat());
    }
    fixture.fails(2, &["state", "history", "-a", "shop", "-u", "alice", "theme", "--at", "1"]);
    fixture.fails(2, &["state", "history", "-a", "shop", "app:open"]);
    fixture.fails(2, &[&["state", "history"], &S1[..], &["temp:x"]].concat());

    let blame = fixture.json(&[&["state", "blame"], &S1[..]].concat());
    assert_eq!((&blame["step"]["seq"], &blame["step"]["value"]), (&json!(2), &json!(2)));
    assert_eq!((&blame["app:open"]["author"], blame["app:open"].get("seq")), (&json!("boss"), None));
    let text = fixture.text(&[&["state", "blame"], &S1[..]].concat());
    assert!(text.contains("WRITTEN") && text.contains("boss"), "{text}");
}

#[test]
fn keys_are_listed_by_prefix_and_page() {
    let fixture = Fixture::with_session(0);
    fixture.text(&["state", "set", "-a", "shop", "-u", "alice", "cart_a=1", "cart_b=2", "cart_c=3"]);
    let alice = ["state", "list", "-a", "shop", "-u", "alice", "--prefix", "cart", "--limit", "2"];
    let first = fixture.json(&alice);
    assert_eq!(first, json!({"state": {"cart_a": 1, "cart_b": 2}, "nextPageToken": "cart_b"}));
    let rest = fixture.json(&[&alice[..], &["--page-token", "cart_b"]].concat());
    assert_eq!(rest, json!({"state": {"cart_c": 3}, "nextPageToken": null}));
    assert!(fixture.text(&alice).contains("more with:\n--page-token=cart_b\n"));
    let session = [&["state", "list"], &S1[..], &["--prefix", "user:cart", "-l", "2"]].concat();
    let first = fixture.json(&session);
    assert_eq!(first, json!({"state": {"user:cart_a": 1, "user:cart_b": 2}, "nextPageToken": "user:cart_b"}));
    assert_eq!(fixture.text(&["state", "list", "-a", "shop"]), "no such keys of the app shop\n");
    fixture.fails(2, &["state", "list", "-a", "shop", "--limit", "0"]);
    fixture.fails(2, &["state", "list", "-a", "shop", "--prefix", "app:"]);
    fixture.fails(3, &["state", "list", "-a", "shop", "-u", "alice", "-s", "none"]);
}

#[test]
fn a_fork_goes_its_own_way() {
    let fixture = Fixture::with_session(3);
    let forked = fixture.json(&[&["sessions", "fork"], &S1[..], &["--at", "1", "--id", "f"]].concat());
    assert_eq!((&forked["id"], &forked["state"]["step"], &forked["eventCount"]), (&json!("f"), &json!(1), &json!(1)));
    let fork = ["-a", "shop", "-u", "alice", "-s", "f"];
    fixture.text(&[&["state", "set"], &fork[..], &["step=9"]].concat());
    assert_eq!(fixture.json(&[&["state", "get"], &S1[..], &["step"]].concat()), json!({"step": 3}));
    assert!(fixture.text(&[&["sessions", "fork"], &S1[..]].concat()).contains("at event 3"));
    fixture.fails(4, &[&["sessions", "fork"], &S1[..], &["--id", "f"]].concat());
    fixture.fails(3, &[&["sessions", "fork"], &S1[..], &["--at", "4"]].concat());
    fixture.fails(2, &[&["sessions", "fork"], &S1[..], &["--id", ""]].concat());
}

#[test]
fn a_rewind_gives_a_session_its_keys_back() {
    let fixture = Fixture::new();
    let id = fixture.sessions("ecommerce_app").remove(0);
    let address = ["-a", "ecommerce_app", "-u", "user123", "-s", &id];
    let shown = fixture.json(&[&["sessions", "show"], &address[..]].concat());
    let invocation = shown["events"][0]["invocationId"].as_str().unwrap();
    let rewound = fixture.json(&[&["sessions", "rewind"], &address[..], &[invocation]].concat());
    assert_eq!(rewound["event"]["actions"]["rewindBeforeInvocationId"], json!(invocation));
    let state = fixture.json(&[&["state", "get"], &address[..]].concat());
    assert_eq!((&state["cart_total"], &state["user:loyalty_points"]), (&json!(0.0), &json!(1000)), "{state}");
    let said = fixture.fails(3, &[&["sessions", "rewind"], &address[..], &["none"]].concat());
    assert!(said.contains("'none'"), "{said}");
}

#[test]
fn sessions_expire_at_their_time() {
    let fixture = Fixture::with_session(0);
    let expire = |args: &[&'static str]| [&["sessions", "expire"], &S1[..], args].concat();
    let expires = |args: &[&'static str]| fixture.json(&expire(args))["expireTime"].as_f64();
    assert_eq!(expires(&["--at", "2100-01-01"]), Some(4_102_444_800.0));
    assert!(fixture.text(&[&["sessions", "show"], &S1[..]].concat()).contains("expires 2100-01-01T00:00:00Z"));
    assert_eq!(expires(&["--never"]), None);
    assert!(expires(&["--in", "2 weeks"]).unwrap() > 1.7e9);
    for bad in [&["--in", "soon"][..], &["--in", "1 month"], &["--at", "2020-01-01"], &[], &["--never", "--in", "1d"]] {
        let said = fixture.fails(2, &expire(bad));
        assert!(said.starts_with("error: "), "{said}");
    }
    expires(&["--in", "1ms"]);
    let said = fixture.fails(3, &[&["sessions", "show"], &S1[..]].concat());
    assert!(said.contains("not found"), "{said}");
    let create = ["sessions", "create", "-a", "shop", "-u", "alice", "--time-to-live"];
    assert!(fixture.json(&[&create[..], &["1h"]].concat())["expireTime"].as_f64().unwrap() > 1.7e9);
    fixture.fails(2, &[&create[..], &["-1h"]].concat());
}
