//! The past: differences, who wrote what, and the history of a key.

use serde_json::{Value, json};

use super::support::{Api, S1};

async fn story(api: &Api) {
    api.ok(
        "POST",
        "/v1/apps/shop/users/alice/sessions",
        Some(json!({"id": "s1", "state": {"step": 1, "draft": true}})),
    )
    .await;
    for (id, delta) in [
        ("e1", json!({"step": 2, "user:name": "A", "draft": "__ADK_SENTINEL_REMOVED__"})),
        ("e2", json!({"step": 3, "user:name": "B", "app:open": true})),
    ] {
        let event = json!({"id": id, "author": "agent", "invocationId": "i1", "timestamp": 5.5,
            "actions": {"stateDelta": delta}});
        api.ok("POST", &format!("{S1}/events"), Some(json!({"event": event}))).await;
    }
}

#[tokio::test]
async fn differences_are_between_any_two_events() {
    for api in Api::all().await {
        story(&api).await;
        let diff = api.ok("GET", &format!("{S1}/diff?before=0&after=1"), None).await;
        assert_eq!(
            diff,
            json!({"draft": {"before": true}, "step": {"before": 1, "after": 2}, "user:name": {"after": "A"}})
        );
        let back = api.ok("GET", &format!("{S1}/diff?before=2&after=1"), None).await;
        assert_eq!(back["app:open"], json!({"before": true}));
        api.refused(404, "GET", &format!("{S1}/diff?before=0&after=9"), None).await;
        let (_, message) = api.refused(400, "GET", &format!("{S1}/diff?before=0"), None).await;
        assert!(message.contains("after"), "{message}");
    }
}

#[tokio::test]
async fn every_key_says_who_wrote_it() {
    for api in Api::all().await {
        story(&api).await;
        let blame = api.ok("GET", &format!("{S1}/blame"), None).await;
        let writer = json!({"value": 3, "author": "agent", "userId": "alice", "sessionId": "s1", "seq": 2,
            "eventId": "e2", "invocationId": "i1", "time": 5.5});
        assert_eq!(blame["step"], writer);
        assert_eq!(blame["app:open"]["seq"], 2);
        let history = api.ok("GET", &format!("{S1}/history?key=step"), None).await;
        let values: Vec<_> = history["writes"].as_array().unwrap().iter().map(|write| &write["value"]).collect();
        assert_eq!(values, [3, 2, 1]);
        let removed = api.ok("GET", &format!("{S1}/history?key=draft&limit=1"), None).await;
        assert_eq!((removed["writes"][0].get("value"), &removed["writes"][0]["seq"]), (None, &json!(1)));
        api.refused(400, "GET", &format!("{S1}/history?key=temp:x"), None).await;
        let initial = api.ok("GET", &format!("{S1}/initial-state"), None).await;
        assert_eq!(initial, json!({"state": {"step": 1, "draft": true}, "seq": 0}));
    }
}

#[tokio::test]
async fn owners_have_a_history_of_each_key_and_a_log_of_all() {
    for api in Api::all().await {
        story(&api).await;
        let alice = "/v1/apps/shop/users/alice";
        api.ok(
            "PATCH",
            &format!("{alice}/state"),
            Some(json!({"author": "x", "stateDelta": {"name": "__ADK_SENTINEL_REMOVED__"}})),
        )
        .await;
        let history = api.ok("GET", &format!("{alice}/history?key=name&limit=2"), None).await;
        let writes = history["writes"].as_array().unwrap();
        assert_eq!(
            (writes[0].get("value"), &writes[0]["author"], &writes[0]["version"]),
            (None, &json!("x"), &json!(3))
        );
        assert_eq!((&writes[1]["value"], &writes[1]["eventId"]), (&json!("B"), &json!("e2")));
        let before = &writes[1]["position"];
        let rest = api.ok("GET", &format!("{alice}/history?key=name&before={before}"), None).await;
        assert_eq!((rest["writes"].as_array().unwrap().len(), &rest["writes"][0]["value"]), (1, &json!("A")));

        let (mut after, mut found) = (json!(0), Vec::new());
        loop {
            let page = api.ok("GET", &format!("{alice}/changes?after={after}&limit=1"), None).await;
            let changes = page["changes"].as_array().unwrap();
            if changes.is_empty() {
                break;
            }
            found.extend(changes.iter().map(|change| (change["value"].clone(), change["removed"].clone())));
            after = page["position"].clone();
        }
        assert_eq!(found, [(json!("A"), Value::Null), (json!("B"), Value::Null), (Value::Null, json!(true))]);
        let app = api.ok("GET", "/v1/apps/shop/changes", None).await;
        assert_eq!(app["changes"][0]["key"], "open");
        assert_eq!(api.ok("GET", "/v1/apps/shop/history?key=open", None).await["writes"][0]["userId"], "alice");
    }
}
