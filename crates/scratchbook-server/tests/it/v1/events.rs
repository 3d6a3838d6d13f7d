//! Events: they are appended once, refused as stale if the request asks for that check, and read by page and one by
//! one.

use serde_json::{Value, json};

use super::support::{Api, S1};

const SESSIONS: &str = "/v1/apps/shop/users/alice/sessions";

async fn begun(api: &Api) -> String {
    api.ok("POST", SESSIONS, Some(json!({"id": "s1", "state": {"step": 0, "user:orders": 6}}))).await;
    format!("{S1}/events")
}

fn event(id: &str, delta: Value) -> Value {
    json!({"id": id, "author": "agent", "actions": {"stateDelta": delta}})
}

#[tokio::test]
async fn an_event_is_stored_once_however_often_it_is_sent() {
    for api in Api::all().await {
        let events = begun(&api).await;
        let body = json!({
            "event": event("e1", json!({"step": 1, "temp:x": 1})),
            "operations": {"user:orders": [{"increment": 1}], "log": [{"append": "a"}, {"append": "b"}],
                "once": [{"setIfAbsent": true}], "gone": ["expectAbsent"],
                "map": [{"mergePatch": {"a": 1, "b": null}}]},
        });
        let first = api.ok("POST", &events, Some(body.clone())).await;
        assert_eq!((&first["outcome"], &first["event"]["seq"]), (&json!("stored"), &json!(1)));
        let delta = json!({"user:orders": 7, "log": ["a", "b"], "once": true, "map": {"a": 1}, "step": 1});
        assert_eq!(first["event"]["actions"]["stateDelta"], delta);
        assert!(first["positions"]["user"].as_u64().unwrap() > 0);
        let again = api.ok("POST", &events, Some(body)).await;
        assert_eq!(again["outcome"], "replayed");
        assert_eq!(again["event"], first["event"]);
        let other = json!({"event": event("e1", json!({"step": 2}))});
        let (kind, _) = api.refused(409, "POST", &events, Some(other)).await;
        assert_eq!(kind, "already_exists");
        let state = api.ok("GET", &format!("{S1}/state"), None).await;
        assert_eq!(state["state"]["user:orders"], 7);
    }
}

#[tokio::test]
async fn a_guard_refuses_the_whole_and_shows_what_was_found() {
    for api in Api::all().await {
        let events = begun(&api).await;
        let body = json!({
            "event": event("e1", json!({"step": 1})),
            "operations": {"step": [{"expect": 5}], "user:orders": [{"increment": 1}]},
        });
        let (status, answer) = api.send("POST", &events, Some(body)).await;
        assert_eq!((status, answer["error"]["kind"].as_str()), (409, Some("conflict")));
        let conflict = &answer["error"]["conflicts"][0];
        assert_eq!((&conflict["key"], &conflict["cause"]), (&json!("step"), &json!("guard")));
        assert_eq!((&conflict["read"], &conflict["found"]), (&json!(5), &json!(0)));
        assert!(!answer["error"]["message"].as_str().unwrap().contains('5'));
        let state = api.ok("GET", &format!("{S1}/state"), None).await;
        assert_eq!(state["state"], json!({"step": 0, "user:orders": 6}));
        // Compare and set, with a guard on one key and a value for it.
        let body = json!({"event": event("e1", json!({"step": 1})), "operations": {"step": [{"expect": 0}]}});
        api.ok("POST", &events, Some(body)).await;
        let (kind, _) = api
            .refused(
                400,
                "POST",
                &events,
                Some(json!({"event": event("e2", json!({"log": 1})), "operations": {"step": [{"append": 1}]}})),
            )
            .await;
        assert_eq!(kind, "failed_precondition");
    }
}

#[tokio::test]
async fn who_is_late_is_refused_where_it_asks_for_that() {
    for api in Api::all().await {
        let events = begun(&api).await;
        let seen = api.ok("GET", S1, None).await["seen"].clone();
        api.ok("POST", &events, Some(json!({"event": event("theirs", json!({"step": 1, "user:orders": 8}))}))).await;
        let mine = |id: &str, delta: Value, conflict: &str| json!({"event": event(id, delta), "conflict": conflict, "seen": seen});
        let (status, answer) = api.send("POST", &events, Some(mine("m1", json!({"step": 2}), "by_key"))).await;
        assert_eq!(status, 409, "{answer}");
        let conflict = &answer["error"]["conflicts"][0];
        assert_eq!(
            (&conflict["key"], &conflict["cause"], &conflict["found"]),
            (&json!("step"), &json!("changed"), &json!(1))
        );
        assert_eq!((&conflict["writer"]["eventId"], &conflict["writer"]["seq"]), (&json!("theirs"), &json!(1)));
        api.refused(409, "POST", &events, Some(mine("m2", json!({"user:orders": 2}), "by_key"))).await;
        api.refused(409, "POST", &events, Some(mine("m3", json!({"other": 2}), "by_session"))).await;
        api.ok("POST", &events, Some(mine("m4", json!({"other": 2}), "by_key"))).await;
        api.ok("POST", &events, Some(mine("m5", json!({"step": 3}), "merge"))).await;
        let late = json!({"event": event("m6", json!({"step": 4})), "conflict": "by_key",
            "seen": {"seq": 0, "keys": {"step": 3}}});
        api.ok("POST", &events, Some(late)).await;
        let seen = api.ok("GET", S1, None).await["seen"].clone();
        api.ok("DELETE", S1, None).await;
        api.ok("POST", SESSIONS, Some(json!({"id": "s1"}))).await;
        for n in 0..seen["seq"].as_u64().unwrap() {
            api.ok("POST", &events, Some(json!({"event": event(&format!("n{n}"), json!({"other": n}))}))).await;
        }
        let of_the_first = json!({"event": event("m8", json!({"new": 1})), "conflict": "by_session", "seen": seen});
        let (_, message) = api.refused(409, "POST", &events, Some(of_the_first)).await;
        assert!(message.contains("made anew"), "{message}");
        let no_object = json!({"event": event("m7", json!({})), "conflict": "by_key", "seen": [3]});
        let (_, message) = api.refused(400, "POST", &events, Some(no_object)).await;
        assert!(message.contains("seen"), "{message}");
        let without = json!({"event": event("m7", json!({})), "conflict": "by_key"});
        let (_, message) = api.refused(400, "POST", &events, Some(without)).await;
        assert!(message.contains("seen"), "{message}");
    }
}

#[tokio::test]
async fn what_is_no_event_to_append_is_refused_and_says_why() {
    for api in Api::all().await {
        let events = begun(&api).await;
        let refused = async |event: Value, part: &str| {
            let (_, message) = api.refused(400, "POST", &events, Some(json!({ "event": event }))).await;
            assert!(message.contains(part), "{message}");
        };
        refused(json!({"author": "a", "seq": 3}), "seq").await;
        refused(json!({"author": "a", "partial": true}), "partial").await;
        refused(json!({"author": "a", "timestamp": 1_795_194_011_590u64}), "milliseconds").await;
        refused(json!({"author": "a", "actions": {"nonsense": 1}}), "event: unknown field \"nonsense\" in 'actions'")
            .await;
        refused(json!({"author": "a", "actions": {"stateDelta": []}}), "event.actions.stateDelta").await;
        refused(json!({"author": 5}), "event.author").await;
        refused(json!({"author": "a", "actions": {"stateDelta": {"a\u{0}": 1}}}), "U+0000").await;
        refused(json!([]), "event").await;
        let operations = async |operations: Value, part: &str| {
            let body = json!({"event": event("x", json!({"k": 1})), "operations": operations});
            let (_, message) = api.refused(400, "POST", &events, Some(body)).await;
            assert!(message.contains(part), "{message}");
        };
        operations(json!({"k": [{"increment": 1}]}), "'k'").await;
        operations(json!({"n": []}), "'n'").await;
        operations(json!({"n": [{"increment": "1"}]}), "operations.n[0]").await;
        operations(json!({"n": [{"double": 1}]}), "double").await;
        operations(json!({"n": {"increment": 1}}), "operations.n").await;
        api.refused(404, "POST", &events.replace("s1", "s2"), Some(json!({"event": event("x", json!({}))}))).await;
        assert_eq!(api.ok("GET", S1, None).await["eventCount"], 0);
    }
}

#[tokio::test]
async fn numbers_and_strings_come_back_as_they_went_in() {
    for api in Api::all().await {
        let events = begun(&api).await;
        let exact =
            r#"{"big":18446744073709551615,"small":-9223372036854775808,"float":0.1,"zero":-0.0,"text":"\u0000🍋"}"#;
        let body = format!(r#"{{"event":{{"id":"e1","author":"a","actions":{{"stateDelta":{exact}}}}}}}"#);
        let request = axum::http::Request::post(&events).header("content-type", "application/json; charset=utf-8");
        let (status, answer) = api.call(request.body(body.into()).unwrap()).await;
        assert_eq!(status, 200, "{answer}");
        let read = api.ok("GET", &format!("{events}/1"), None).await;
        assert_eq!(read["actions"]["stateDelta"], serde_json::from_str::<Value>(exact).unwrap());
    }
}

#[tokio::test]
async fn events_are_read_by_pages_both_ways_and_one_by_one() {
    for api in Api::all().await {
        let events = begun(&api).await;
        for n in 1..=7 {
            api.ok("POST", &events, Some(json!({"event": event(&format!("e/{n}"), json!({"n": n}))}))).await;
        }
        let numbers = |page: &Value| -> Vec<u64> {
            page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
        };
        let (mut after, mut found) = (0, Vec::new());
        loop {
            let page = api.ok("GET", &format!("{events}?after={after}&limit=3"), None).await;
            assert_eq!(page["eventCount"], 7);
            found.extend(numbers(&page));
            match page["next"].as_u64() {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7]);
        let last = api.ok("GET", &format!("{events}?before=8&limit=3"), None).await;
        assert_eq!((numbers(&last), &last["next"]), (vec![5, 6, 7], &json!(5)));
        let first = api.ok("GET", &format!("{events}?before=3&limit=3"), None).await;
        assert_eq!((numbers(&first), &first["next"]), (vec![1, 2], &json!(null)));
        let one = api.ok("GET", &format!("{events}/4"), None).await;
        assert_eq!((&one["id"], &one["seq"]), (&json!("e/4"), &json!(4)));
        assert_eq!(api.ok("GET", &format!("{events}/by-id/e%2F4"), None).await, one);
        for missing in ["0", "8", "18446744073709551615", "by-id/none"] {
            api.refused(404, "GET", &format!("{events}/{missing}"), None).await;
        }
        for bad in ["/x", "/-1", "?after=1&before=2", "?limit=0", "?limit=1001", "?limit=x"] {
            api.refused(400, "GET", &format!("{events}{bad}"), None).await;
        }
    }
}
