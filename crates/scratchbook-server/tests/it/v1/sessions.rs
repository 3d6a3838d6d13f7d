//! Sessions: created, read, found, changed, forked, rewound, deleted.

use serde_json::{Map, json};

use super::support::{Api, S1};

const SESSIONS: &str = "/v1/apps/shop/users/alice/sessions";

#[tokio::test]
async fn a_session_is_made_read_and_deleted() {
    for api in Api::all().await {
        let body = json!({
            "id": "s1", "state": {"step": 1, "user:language": "en", "app:open": true, "temp:x": 1},
            "title": "Groceries", "labels": {"team": "food"}, "createTime": 1000.5,
        });
        let (status, made) = api.send("POST", SESSIONS, Some(body.clone())).await;
        assert_eq!(status, 201);
        assert_eq!(made["state"], json!({"step": 1, "user:language": "en", "app:open": true}));
        assert_eq!((&made["title"], &made["labels"]["team"]), (&json!("Groceries"), &json!("food")));
        assert_eq!((&made["eventCount"], &made["expireTime"]), (&json!(0), &json!(null)));
        let read = api.ok("GET", S1, None).await;
        assert_eq!(read["lastUpdateTime"], json!(1000.5));
        let (kind, message) = api.refused(409, "POST", SESSIONS, Some(body)).await;
        assert_eq!(kind, "already_exists");
        assert!(message.contains("shop/alice/s1"), "{message}");
        assert_eq!(api.send("DELETE", S1, None).await.0, 204);
        assert_eq!(api.send("DELETE", S1, None).await.0, 204, "a second time");
        api.refused(404, "GET", S1, None).await;
        let made = api.ok("POST", SESSIONS, Some(json!({}))).await;
        assert!(!made["id"].as_str().unwrap().is_empty(), "an id was made");
    }
}

#[tokio::test]
async fn a_part_of_a_session_is_read() {
    for api in Api::all().await {
        let events: Vec<_> = (1..=5)
            .map(|n| {
                json!({"id": format!("e{n}"), "author": "agent", "timestamp": n, "seq": 40 + n,
                "actions": {"stateDelta": {"n": n, "user:u": n}}, "ours": "kept"})
            })
            .collect();
        api.ok("POST", SESSIONS, Some(json!({"id": "s1", "events": events}))).await;
        let ids = |session: &serde_json::Value| -> Vec<u64> {
            session["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
        };
        let of = |query: &str| format!("{S1}?{query}");
        for (query, expected) in [
            ("", vec![1, 2, 3, 4, 5]),
            ("numRecentEvents=2", vec![4, 5]),
            ("numRecentEvents=0", vec![]),
            ("afterTimestamp=3.0", vec![3, 4, 5]),
            ("afterTimestamp=2&numRecentEvents=1", vec![5]),
            ("after=1&limit=2", vec![2, 3]),
            ("before=4&limit=2", vec![2, 3]),
        ] {
            let session = api.ok("GET", &of(query), None).await;
            assert_eq!((ids(&session), &session["eventCount"]), (expected, &json!(5)), "{query}");
        }
        let session = api.ok("GET", &of("key=user:u&key=none&numRecentEvents=1"), None).await;
        assert_eq!(session["state"], json!({"user:u": 5}));
        assert_eq!(session["events"][0]["ours"], "kept");
        let session = api.ok("GET", &of("state=none"), None).await;
        assert_eq!(session["state"], json!({}));
        for bad in [
            "numRecentEvents=1001",
            "numRecentEvents=-1",
            "limit=3",
            "after=1&before=3",
            "after=1&limit=0",
            "after=1&limit=1001",
            "after=1&numRecentEvents=1",
            "state=none&key=n",
            "state=some",
            "afterTimestamp=1e300",
            "afterTimestamp=NaN",
            "after=18446744073709551616",
            "after=1&after=2",
        ] {
            let (kind, _) = api.refused(400, "GET", &of(bad), None).await;
            assert_eq!(kind, "invalid_argument", "{bad}");
        }
        let far = api.ok("GET", &of("after=18446744073709551615"), None).await;
        assert_eq!(ids(&far), Vec::<u64>::new());
        let all = api.ok("GET", &of("before=18446744073709551615"), None).await;
        assert_eq!(ids(&all), [1, 2, 3, 4, 5]);
    }
}

#[tokio::test]
async fn sessions_are_listed_by_pages_and_found_by_title_and_label() {
    for api in Api::all().await {
        for n in 0..5 {
            let user = if n < 3 { "alice" } else { "bob" };
            let body = json!({
                "id": format!("s{n}"), "createTime": 1000 + n, "title": format!("Order {n} of MILK"),
                "labels": {"parity": if n % 2 == 0 { "even" } else { "odd" }, "a=b": "c"},
            });
            api.ok("POST", &format!("/v1/apps/shop/users/{user}/sessions"), Some(body)).await;
        }
        let mut found = Vec::new();
        let mut query = String::new();
        loop {
            let page = api.ok("GET", &format!("/v1/apps/shop/sessions?pageSize=2{query}"), None).await;
            found.extend(page["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()));
            let Some(token) = page["nextPageToken"].as_str() else { break };
            query = format!(
                "&pageToken={}",
                percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC)
            );
        }
        assert_eq!(found, ["s0", "s1", "s2", "s3", "s4"]);
        let ids = async |path: &str| -> Vec<String> {
            let page = api.ok("GET", path, None).await;
            page["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(SESSIONS).await, ["s0", "s1", "s2"]);
        assert_eq!(ids(&format!("{SESSIONS}?order=newest")).await, ["s2", "s1", "s0"]);
        assert_eq!(ids(&format!("{SESSIONS}?title=of+milk&label=parity%3Deven")).await, ["s0", "s2"]);
        assert_eq!(ids("/v1/apps/shop/sessions?label=parity=odd").await, ["s1", "s3"]);
        assert_eq!(ids("/v1/apps/shop/sessions?title=Order%204").await, ["s4"]);
        for bad in ["label=parity", "label=parity=odd&label=parity=even", "pageSize=0", "pageSize=1001", "pageToken=x"]
        {
            api.refused(400, "GET", &format!("{SESSIONS}?{bad}"), None).await;
        }
    }
}

#[tokio::test]
async fn title_labels_and_end_are_changed_and_nothing_else() {
    for api in Api::all().await {
        api.ok("POST", SESSIONS, Some(json!({"id": "s1", "title": "a", "labels": {"x": "1", "y": "2"}}))).await;
        let body = json!({"title": "b", "labels": {"x": null, "z": "3"}, "timeToLive": 3600});
        let changed = api.ok("PATCH", S1, Some(body)).await;
        assert_eq!((&changed["title"], &changed["labels"]), (&json!("b"), &json!({"y": "2", "z": "3"})));
        assert!(changed["expireTime"].is_f64());
        let changed = api.ok("PATCH", S1, Some(json!({"expireTime": null}))).await;
        assert_eq!((&changed["title"], &changed["expireTime"]), (&json!("b"), &json!(null)));
        let changed = api.ok("PATCH", S1, Some(json!({"title": null, "expireTime": 4e9}))).await;
        assert_eq!((changed.get("title"), &changed["expireTime"]), (None, &json!(4e9)));
        for bad in [
            json!({"expireTime": 1000}),
            json!({"expireTime": 4e12}),
            json!({"timeToLive": 0}),
            json!({"timeToLive": -1}),
            json!({"timeToLive": 1e300}),
            json!({"timeToLive": 5, "expireTime": 4e9}),
            json!({"title": "a\nb"}),
            json!({"title": "c", "timeToLive": 1e15}),
        ] {
            api.refused(400, "PATCH", S1, Some(bad)).await;
        }
        assert_eq!(api.ok("GET", S1, None).await.get("title"), None, "what was refused has changed nothing");
        api.refused(404, "PATCH", "/v1/apps/shop/users/alice/sessions/none", Some(json!({"title": "x"}))).await;
    }
}

#[tokio::test]
async fn an_update_of_which_a_part_is_refused_changes_nothing() {
    for api in Api::all().await {
        let most: Map<String, _> = (0..60).map(|n| (format!("l{n}"), json!("1"))).collect();
        api.ok("POST", SESSIONS, Some(json!({"id": "s1", "title": "a", "labels": most, "timeToLive": 60}))).await;
        let before = api.ok("GET", S1, None).await;
        let more: Map<String, _> = (0..10).map(|n| (format!("more{n}"), json!("1"))).collect();
        for bad in [
            json!({"title": "b", "expireTime": null, "labels": more}),
            json!({"title": "b", "labels": {"x": "1"}, "expireTime": 1.0}),
            json!({"title": "b", "labels": {"": "1"}, "timeToLive": 90}),
        ] {
            api.refused(400, "PATCH", S1, Some(bad)).await;
            assert_eq!(api.ok("GET", S1, None).await, before);
        }
    }
}

#[tokio::test]
async fn a_session_is_forked_and_rewound() {
    for api in Api::all().await {
        let event = |n: u64| {
            json!({"id": format!("e{n}"), "invocationId": format!("i{n}"), "author": "agent",
            "actions": {"stateDelta": {"step": n}}})
        };
        let body = json!({"id": "s1", "state": {"step": 0}, "events": [event(1), event(2), event(3)]});
        api.ok("POST", SESSIONS, Some(body)).await;
        let (status, fork) = api.send("POST", &format!("{S1}/fork"), Some(json!({"at": 2, "id": "s2"}))).await;
        assert_eq!((status, &fork["id"], &fork["state"]["step"]), (201, &json!("s2"), &json!(2)));
        api.refused(409, "POST", &format!("{S1}/fork"), Some(json!({"id": "s2"}))).await;
        api.refused(404, "POST", &format!("{S1}/fork"), Some(json!({"at": 9}))).await;

        let rewound = api.ok("POST", &format!("{S1}/rewind"), Some(json!({"beforeInvocationId": "i2"}))).await;
        assert_eq!(rewound["event"]["actions"]["rewindBeforeInvocationId"], "i2");
        assert_eq!(rewound["event"]["seq"], 4);
        assert_eq!(api.ok("GET", &format!("{S1}/state/step"), None).await, json!({"key": "step", "value": 1}));
        api.refused(404, "POST", &format!("{S1}/rewind"), Some(json!({"beforeInvocationId": "none"}))).await;
        api.refused(400, "POST", &format!("{S1}/rewind"), Some(json!({"beforeInvocationId": ""}))).await;
    }
}

#[tokio::test]
async fn a_session_does_not_begin_with_misspelled_events() {
    for api in Api::all().await {
        let misspelled = json!({"author": "agent", "actions": {"stateDelt": {"n": 1}}});
        let body = json!({"id": "s1", "events": [{"author": "agent", "new": 1}, misspelled]});
        let (_, message) = api.refused(400, "POST", SESSIONS, Some(body)).await;
        assert!(message.contains("stateDelt"), "{message}");
        api.refused(404, "GET", S1, None).await;
    }
}

#[tokio::test]
async fn names_in_paths_are_decoded_once() {
    for api in Api::all().await {
        // The app `a/b`, the user `50%25 ü`, the session `..x`.
        let path = "/v1/apps/a%2Fb/users/50%2525%20%C3%BC/sessions";
        let made = api.ok("POST", path, Some(json!({"id": "..x", "state": {"k/%2F": 1}}))).await;
        assert_eq!((&made["appName"], &made["userId"]), (&json!("a/b"), &json!("50%25 ü")));
        let read = api.ok("GET", &format!("{path}/..x/state/k%2F%252F"), None).await;
        assert_eq!(read, json!({"key": "k/%2F", "value": 1}));
        let (_, message) = api.refused(400, "GET", "/v1/apps/a%FF/users/u/sessions/s", None).await;
        assert!(message.contains("UTF-8"), "{message}");
    }
}
