//! Feeds, page by page.

use serde_json::{Value, json};

use super::support::{Api, S1};

#[tokio::test]
async fn a_feed_is_read_by_pages_without_gap_or_double() {
    for api in Api::all().await {
        api.ok("POST", "/v1/apps/shop/users/alice/sessions", Some(json!({"id": "s1", "state": {"step": 0}}))).await;
        for n in 1..=9 {
            // Ids may have spaces and other characters than ASCII.
            let delta = if n % 3 == 0 { json!({"user:u": n}) } else { json!({"step": n}) };
            let event = json!({"id": format!(" é {n} "), "author": "agent", "actions": {"stateDelta": delta}});
            api.ok("POST", &format!("{S1}/events"), Some(json!({"event": event}))).await;
        }
        api.ok("PATCH", "/v1/apps/shop/users/alice/state", Some(json!({"author": "x", "stateDelta": {"v": 1}}))).await;
        api.ok(
            "PATCH",
            "/v1/apps/shop/state",
            Some(json!({"author": "x", "stateDelta": {"w": "__ADK_SENTINEL_REMOVED__"}})),
        )
        .await;
        for (feed, count) in [
            (format!("{S1}/feed"), 9),
            ("/v1/apps/shop/users/alice/feed".into(), 11),
            ("/v1/apps/shop/feed".into(), 12),
        ] {
            let entries = all(&api, &feed, "").await;
            assert_eq!(entries.len(), count, "{feed}: {entries:?}");
            let seqs: Vec<_> = entries.iter().filter_map(|entry| entry["event"]["seq"].as_u64()).collect();
            assert_eq!(seqs, (1..=9).collect::<Vec<_>>(), "{feed}");
            let user_keys = all(&api, &feed, "&prefix=user:u").await;
            assert_eq!(user_keys.len(), 3, "{feed}");
            let now = api.ok("GET", &format!("{feed}?from=now"), None).await;
            assert_eq!(now["entries"], json!([]));
            let again = api.ok("GET", &format!("{feed}?cursor={}", now["cursor"].as_str().unwrap()), None).await;
            assert_eq!(again["entries"], json!([]));
            for bad in ["cursor=!", "cursor=eHg", "cursor=", "from=then", "from=now&cursor=eHg", "limit=0"] {
                api.refused(400, "GET", &format!("{feed}?{bad}"), None).await;
            }
        }
        let entries = all(&api, "/v1/apps/shop/feed", "").await;
        assert_eq!((&entries[0]["type"], &entries[0]["state"]), (&json!("created"), &json!({"step": 0})));
        let last = entries.last().unwrap();
        assert_eq!((&last["type"], &last["userId"]), (&json!("state"), &json!(null)));
        assert_eq!((&last["changes"][0]["key"], &last["changes"][0]["removed"]), (&json!("w"), &json!(true)));
        api.refused(404, "GET", "/v1/apps/shop/users/alice/sessions/none/feed", None).await;
        let after = format!("&cursor={}", last["cursor"].as_str().unwrap());
        api.ok("DELETE", S1, None).await;
        for feed in ["/v1/apps/shop/users/alice/feed", "/v1/apps/shop/feed"] {
            let page = api.ok("GET", &format!("{feed}?limit=9&from=beginning"), None).await;
            let removed = page["entries"].as_array().unwrap().last().unwrap().clone();
            assert_eq!((&removed["type"], &removed["kind"]), (&json!("removed"), &json!("deleted")), "{feed}");
            assert_eq!((&removed["sessionId"], &removed["count"]), (&json!("s1"), &json!(9)), "{feed}");
        }
        let page = api.ok("GET", &format!("/v1/apps/shop/feed?limit=9{after}"), None).await;
        assert_eq!(page["entries"].as_array().unwrap().len(), 1, "it comes after what was read before");
    }
}

async fn all(api: &Api, feed: &str, more: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.ok("GET", &format!("{feed}?limit=2{cursor}{more}"), None).await;
        found.extend(page["entries"].as_array().unwrap().iter().cloned());
        let next = format!("&cursor={}", page["cursor"].as_str().unwrap());
        if page["entries"] == json!([]) && next == cursor {
            return found;
        }
        cursor = next;
    }
}
