//! State by scope: read whole, by key, by pages, and changed.

use serde_json::json;

use super::support::{Api, S1};

const APP: &str = "/v1/apps/shop/state";
const ALICE: &str = "/v1/apps/shop/users/alice/state";

#[tokio::test]
async fn the_state_of_users_and_apps_needs_no_session() {
    for api in Api::all().await {
        let body = json!({"author": "till", "stateDelta": {"open": true, "old": 1},
            "operations": {"sold": [{"increment": 41}]}});
        let done = api.ok("PATCH", APP, Some(body)).await;
        assert_eq!(done["stateDelta"], json!({"sold": 41, "open": true, "old": 1}));
        let body = json!({"author": "till", "stateDelta": {"old": "__ADK_SENTINEL_REMOVED__"},
            "operations": {"sold": [{"expect": 41}, {"increment": 1}]}});
        let next = api.ok("PATCH", APP, Some(body.clone())).await;
        assert_eq!(next["stateDelta"], json!({"sold": 42, "old": "__ADK_SENTINEL_REMOVED__"}));
        assert!(next["position"].as_u64() > done["position"].as_u64());
        assert_eq!(api.ok("GET", APP, None).await, json!({"state": {"open": true, "sold": 42}, "nextPageToken": null}));
        let (status, answer) = api.send("PATCH", APP, Some(body)).await;
        let conflict = &answer["error"]["conflicts"][0];
        assert_eq!((status, &conflict["key"], &conflict["found"]), (409, &json!("app:sold"), &json!(42)));
        assert_eq!(conflict["writer"]["author"], "till");

        api.ok("PATCH", ALICE, Some(json!({"author": "x", "stateDelta": {"language": null}, "time": 12.5}))).await;
        assert_eq!(api.ok("GET", &format!("{ALICE}/language"), None).await, json!({"key": "language", "value": null}));
        api.refused(404, "GET", &format!("{ALICE}/lang"), None).await;
        api.refused(404, "GET", "/v1/apps/shop/users/bob/state/language", None).await;
        // A session of this user and app shows all of these keys.
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1"}))).await;
        let state = api.ok("GET", &format!("{S1}/state"), None).await;
        assert_eq!(state["state"], json!({"user:language": null, "app:open": true, "app:sold": 42}));
        for bad in [
            json!({"stateDelta": {"a": 1}}),
            json!({"author": "x"}),
            json!({"author": "x", "stateDelta": {"app:a": 1}}),
            json!({"author": "x", "stateDelta": {"a": 1}, "time": 1e13}),
            json!({"author": "a\nb", "stateDelta": {"a": 1}}),
            json!({"author": "x", "stateDelta": {"a": 1}, "operations": {"a": [{"increment": 1}]}}),
        ] {
            api.refused(400, "PATCH", APP, Some(bad)).await;
        }
    }
}

#[tokio::test]
async fn the_state_of_an_owner_is_read_by_pages_and_prefix() {
    for api in Api::all().await {
        let keys: serde_json::Map<_, _> =
            (0..10).map(|n| (format!("k{n}"), json!(n))).chain([("z".into(), json!(0))]).collect();
        api.ok("PATCH", ALICE, Some(json!({"author": "x", "stateDelta": keys}))).await;
        let mut found = Vec::new();
        let mut token = String::new();
        loop {
            let page = api.ok("GET", &format!("{ALICE}?prefix=k&pageSize=4{token}"), None).await;
            found.extend(page["state"].as_object().unwrap().keys().cloned());
            let Some(next) = page["nextPageToken"].as_str() else { break };
            token = format!("&pageToken={next}");
        }
        assert_eq!(found, (0..10).map(|n| format!("k{n}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_session_s_state_is_changed_by_an_event() {
    for api in Api::all().await {
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1", "state": {"draft": 1}}))).await;
        let state = format!("{S1}/state");
        let body = json!({"author": "support", "eventId": "e1",
            "stateDelta": {"status": "open", "draft": "__ADK_SENTINEL_REMOVED__"},
            "operations": {"user:orders": [{"increment": 2}]}});
        let done = api.ok("PATCH", &state, Some(body.clone())).await;
        assert_eq!((&done["outcome"], &done["event"]["author"]), (&json!("stored"), &json!("support")));
        assert_eq!(api.ok("PATCH", &state, Some(body)).await["outcome"], "replayed");
        let now = api.ok("GET", &state, None).await;
        assert_eq!(now["state"], json!({"status": "open", "user:orders": 2}));
        assert_eq!((&now["seq"], &now["seen"]["seq"]), (&json!(1), &json!(1)));
        let then = api.ok("GET", &format!("{state}?at=0"), None).await;
        assert_eq!((&then["state"], &then["seq"], then.get("seen")), (&json!({"draft": 1}), &json!(0), None));
        assert_eq!(api.ok("GET", &format!("{state}/draft?at=0"), None).await["value"], 1);
        api.refused(404, "GET", &format!("{state}/draft"), None).await;
        api.refused(404, "GET", &format!("{state}?at=2"), None).await;
        let some = api.ok("GET", &format!("{state}?key=status&key=none&key="), None).await;
        assert_eq!(some["state"], json!({"status": "open"}));
        api.refused(400, "PATCH", &state, Some(json!({"author": "x"}))).await;
        let body = json!({"author": "x", "stateDelta": {"temp:a": 1, "step": 2}, "operations": {"temp:n": [{"increment": 1}]}});
        let done = api.ok("PATCH", &state, Some(body)).await;
        assert_eq!(done["event"]["actions"]["stateDelta"], json!({"step": 2}));
        assert_eq!(api.ok("GET", &state, None).await["state"], json!({"status": "open", "step": 2, "user:orders": 2}));
    }
}

#[tokio::test]
async fn keys_that_no_path_can_name_are_read_by_the_query() {
    for api in Api::all().await {
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1"}))).await;
        let session = format!("{S1}/state");
        for path in [APP, ALICE, &session] {
            let delta = json!({".": 1, "..": 2, "": 3, "..a": 4, "other": 5});
            api.ok("PATCH", path, Some(json!({"author": "x", "stateDelta": delta}))).await;
            let found = api.ok("GET", &format!("{path}?key=..&key=.&key=&key=none"), None).await;
            assert_eq!(found["state"], json!({"..": 2, ".": 1, "": 3}), "{path}");
        }
        let many = "key=a&".repeat(101);
        for query in ["key=a&prefix=b", "key=a&pageToken=b", &many] {
            api.refused(400, "GET", &format!("{APP}?{query}"), None).await;
        }
    }
}
