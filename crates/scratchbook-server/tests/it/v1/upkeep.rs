//! Verifying, pruning and erasing.

use serde_json::json;

use super::support::{Api, S1};

const SESSIONS: &str = "/v1/apps/shop/users/alice/sessions";

#[tokio::test]
async fn what_is_stored_is_verified_and_pruned() {
    for api in Api::all().await {
        api.ok("POST", SESSIONS, Some(json!({"id": "s1"}))).await;
        for n in 1..=6 {
            let delta = json!({"n": n, "user:u": n, "app:a": n});
            let body = json!({"event": {"author": "agent", "actions": {"stateDelta": delta}}});
            api.ok("POST", &format!("{S1}/events"), Some(body)).await;
        }
        let verified = api.ok("GET", &format!("{S1}/verify"), None).await;
        assert_eq!(verified, json!({"events": 6, "keys": 1}));
        api.ok("POST", &format!("{S1}/events"), Some(json!({"event": {"author": "agent"}}))).await;
        api.refused(400, "GET", &format!("{S1}/verify?against={}", "0".repeat(64)), None).await;
        for owner in ["/v1/apps/shop", "/v1/apps/shop/users/alice"] {
            assert_eq!(api.ok("GET", &format!("{owner}/verify"), None).await, json!({"events": 6, "keys": 1}));
            let log = api.ok("GET", &format!("{owner}/changes"), None).await;
            let body = json!({"before": log["position"], "limit": 3});
            assert_eq!(api.ok("POST", &format!("{owner}/prune"), Some(body.clone())).await, json!({"pruned": 3}));
            assert_eq!(api.ok("POST", &format!("{owner}/prune"), Some(body)).await, json!({"pruned": 1}));
            assert_eq!(api.ok("GET", &format!("{owner}/verify"), None).await, json!({"events": 2, "keys": 1}));
        }
        assert_eq!(api.ok("POST", &format!("{S1}/prune"), Some(json!({"before": 4}))).await, json!({"pruned": 3}));
        let verified = api.ok("GET", &format!("{S1}/verify"), None).await;
        assert_eq!(verified["events"], 4);
        assert_eq!(api.ok("GET", &format!("{S1}/initial-state"), None).await, json!({"state": {"n": 3}, "seq": 3}));
        api.refused(400, "GET", &format!("{S1}/state?at=2"), None).await;
        api.refused(404, "GET", "/v1/apps/shop/users/alice/sessions/none/verify", None).await;
        for bad in [json!({}), json!({"before": -1}), json!({"before": 2, "limit": 0}), json!({"before": 1.5})] {
            api.refused(400, "POST", &format!("{S1}/prune"), Some(bad)).await;
        }
        let far = json!({"before": u64::MAX});
        assert_eq!(api.ok("POST", &format!("{S1}/prune"), Some(far.clone())).await, json!({"pruned": 4}));
        api.ok("POST", "/v1/apps/shop/prune", Some(far)).await;
    }
}

#[tokio::test]
async fn expired_sessions_are_gone_and_deleted_for_good() {
    for api in Api::all().await {
        api.ok("POST", SESSIONS, Some(json!({"id": "s1", "timeToLive": 0.05}))).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        api.refused(404, "GET", S1, None).await;
        assert_eq!(api.ok("POST", "/v1/prune-expired", Some(json!({}))).await, json!({"pruned": 1}));
        assert_eq!(api.ok("POST", "/v1/prune-expired", Some(json!({"limit": 1}))).await, json!({"pruned": 0}));
    }
}

#[tokio::test]
async fn users_are_listed_and_erased() {
    for api in Api::all().await {
        for (app, user) in [("shop", "alice"), ("shop", "bob"), ("shop", "carol"), ("shop2", "dave"), ("a", "eve")] {
            api.ok("POST", &format!("/v1/apps/{app}/users/{user}/sessions"), Some(json!({"id": "s1"}))).await;
        }
        let users = "/v1/apps/shop/users";
        assert_eq!(
            api.ok("GET", users, None).await,
            json!({"users": ["alice", "bob", "carol"], "nextPageToken": null})
        );
        let page = api.ok("GET", &format!("{users}?pageSize=2"), None).await;
        assert_eq!(page, json!({"users": ["alice", "bob"], "nextPageToken": "bob"}));
        let page = api.ok("GET", &format!("{users}?pageSize=2&pageToken=bob"), None).await;
        assert_eq!(page, json!({"users": ["carol"], "nextPageToken": null}));
        assert_eq!(api.send("DELETE", "/v1/apps/shop/users/bob", None).await.0, 204);
        assert_eq!(api.send("DELETE", "/v1/apps/shop/users/bob", None).await.0, 204);
        api.refused(404, "GET", "/v1/apps/shop/users/bob/sessions/s1", None).await;
        assert_eq!(api.ok("GET", users, None).await["users"], json!(["alice", "carol"]));
    }
}
