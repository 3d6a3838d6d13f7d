//! Changes of sessions.

use std::sync::Arc;

use scratchbook::layer::{Keyring, WithEncryption};
use scratchbook::{InMemorySessionService, Store};
use serde_json::{Value, json};

use super::{all, at, ids, make, refused, say};
use crate::v1::support::Api;

async fn update(api: &Api, query: &str, body: Value) -> Value {
    api.ok("PATCH", &at(&format!("/s1{query}")), Some(body)).await
}

fn without(mut session: Value, names: &[&str]) -> Value {
    names.iter().for_each(|name| drop(session.as_object_mut().unwrap().shift_remove(*name)));
    session
}

#[tokio::test]
async fn only_what_the_mask_names_is_changed() {
    for api in Api::all().await {
        let state = json!({"a": 1, "b": 2, "user:u": 1, "app:p": 1});
        let begin = json!({"displayName": "Hi", "labels": {"x": "1", "y": "2"}, "sessionState": state, "ttl": "3600s"});
        let made = without(make(&api, "u1", "s1", begin).await, &["@type"]);
        let sent = json!({"displayName": "Bye", "labels": {"z": "3"}, "sessionState": {"c": 3}, "ttl": "7200s"});
        for (mask, changed) in [
            ("display_name", json!({"displayName": "Bye"})),
            ("labels", json!({"labels": {"z": "3"}})),
            // The session's own keys are replaced; the keys of the user and the app stay.
            ("session_state", json!({"sessionState": {"c": 3, "user:u": 1, "app:p": 1}})),
        ] {
            let before = api.ok("GET", &at("/s1"), None).await;
            let after = update(&api, &format!("?updateMask={mask}"), sent.clone()).await;
            let mut expected = before.clone();
            expected.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
            // The session's time is that of its last event, and only a change of the state appends an event.
            assert_eq!(after["updateTime"] == before["updateTime"], mask != "session_state", "{mask}: {after}");
            assert_eq!(without(after, &["updateTime"]), without(expected, &["updateTime"]), "{mask}");
        }
        let later = update(&api, "?update_mask=expireTime", sent.clone()).await;
        assert!(later["expireTime"].as_str() > made["expireTime"].as_str(), "{later}");
        assert!(update(&api, "?updateMask=ttl", json!({})).await["expireTime"].is_null());
        let bare = update(&api, "?updateMask=labels,%20displayName", json!({})).await;
        assert!(bare["labels"].is_null() && bare["displayName"].is_null(), "{bare}");
    }
}

#[tokio::test]
async fn without_a_mask_what_was_sent_is_changed() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"displayName": "Hi", "sessionState": {"a": 1}})).await;
    let after = update(&api, "", json!({"labels": {"x": "1"}, "userId": "u1", "displayName": ""})).await;
    assert_eq!((&after["displayName"], &after["labels"]), (&json!("Hi"), &json!({"x": "1"})));
    let after = update(&api, "?updateMask=", json!({"display_name": "Bye", "name": "anything"})).await;
    assert_eq!((&after["displayName"], &after["sessionState"]), (&json!("Bye"), &json!({"a": 1})));
    let after = update(&api, "?updateMask=*", json!({"sessionState": {"b": 2}})).await;
    assert_eq!(without(after, &["name", "userId", "updateTime", "createTime"]), json!({"sessionState": {"b": 2}}));
}

#[tokio::test]
async fn a_state_is_changed_by_one_event_and_by_none_where_it_is_the_same() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"a": 1, "b": 2, "user:u": 1}})).await;
    let wanted = json!({"sessionState": {"a": 1, "c": null, "user:u": 2, "user:v": 3, "temp:t": 4}});
    let state = update(&api, "", wanted.clone()).await["sessionState"].clone();
    assert_eq!(state, json!({"a": 1, "c": null, "user:u": 2, "user:v": 3}));
    update(&api, "", wanted).await;
    let events = api.ok("GET", &at("/s1/events"), None).await;
    assert_eq!(ids(&events, "sessionEvents").len(), 1, "{events}");
    let event = &events["sessionEvents"][0];
    let delta = json!({"c": null, "user:u": 2, "user:v": 3, "b": "__ADK_SENTINEL_REMOVED__"});
    assert_eq!((&event["author"], &event["actions"]["stateDelta"]), (&json!("user"), &delta));
}

#[tokio::test]
async fn a_session_stays_its_users() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    for (query, body) in [
        ("?updateMask=userId", json!({"userId": "u1"})),
        ("?updateMask=user_id,labels", json!({"userId": "u2"})),
        ("", json!({"userId": "u2", "displayName": "x"})),
        ("?updateMask=displayName", json!({"user_id": "u2", "displayName": "x"})),
    ] {
        refused(&api, 400, "INVALID_ARGUMENT", "PATCH", &at(&format!("/s1{query}")), Some(body)).await;
    }
    assert!(api.ok("GET", &at("/s1"), None).await["displayName"].is_null());
}

/// Of the two changes, the one that can be refused is made first.
#[tokio::test]
async fn where_the_state_is_refused_nothing_else_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}?value_bytes=20", folder.path().join("test.db").display());
    let api = Api::over(&uri, folder).await;
    make(&api, "u1", "s1", json!({"displayName": "Hi", "sessionState": {"a": 1}})).await;
    let before = api.ok("GET", &at("/s1"), None).await;
    let sent = json!({"displayName": "Bye", "labels": {"x": "1"}, "ttl": "60s", "sessionState": {"a": "x".repeat(30)}});
    refused(&api, 413, "INVALID_ARGUMENT", "PATCH", &at("/s1"), Some(sent)).await;
    assert_eq!(api.ok("GET", &at("/s1"), None).await, before);
}

/// Once encrypted, a title of 2,000 bytes is longer than a title may be. Only the store can detect that.
#[tokio::test]
async fn where_the_title_is_refused_the_state_is_not_changed_either() {
    let keys = Keyring::new("k", [7; 32]).unwrap();
    let api = Api::of(Store::new(Arc::new(WithEncryption::new(InMemorySessionService::new(), keys))));
    make(&api, "u1", "s1", json!({"displayName": "Hi", "sessionState": {"a": 1}, "ttl": "60s"})).await;
    let before = api.ok("GET", &at("/s1"), None).await;
    let title = "x".repeat(2000);
    let sent = json!({"displayName": title, "labels": {"x": "1"}, "ttl": "90s", "sessionState": {"a": 2, "user:u": 1}});
    refused(&api, 400, "INVALID_ARGUMENT", "PATCH", &at("/s1"), Some(sent.clone())).await;
    assert_eq!(api.ok("GET", &at("/s1"), None).await, before);
    assert_eq!(all(&api, &at("/s1/events"), "sessionEvents").await, [""; 0]);
    let mut fine = sent;
    fine["displayName"] = json!("Bye");
    let after = update(&api, "", fine).await;
    assert_eq!((&after["displayName"], &after["labels"]), (&json!("Bye"), &json!({"x": "1"})));
    assert_eq!(after["sessionState"], json!({"a": 2, "user:u": 1}));
    assert!(after["expireTime"].as_str() > before["expireTime"].as_str(), "{after}");
    assert_eq!(all(&api, &at("/s1/events"), "sessionEvents").await.len(), 1);
}

#[tokio::test]
async fn a_zero_has_a_sign() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"a": {"b": [0.0]}}})).await;
    for zero in ["-0.0", "0.0"] {
        let sent = format!("{{\"sessionState\":{{\"a\":{{\"b\":[{zero}]}}}}}}");
        let after = update(&api, "", serde_json::from_str(&sent).unwrap()).await;
        assert_eq!(after["sessionState"]["a"]["b"][0].to_string(), zero);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_replaced_also_while_others_append() {
    let [_, api] = Api::all().await;
    make(&api, "u1", "s1", json!({})).await;
    for n in 0..60 {
        let (key, path) = (format!("z{n}"), at("/s1"));
        let patch = api.ok("PATCH", &path, Some(json!({"sessionState": {"only": n}})));
        let delta = json!({"rawEvent": {"id": key}, "actions": {"stateDelta": {&key: 1}}});
        tokio::join!(patch, say(&api, "s1", 0, delta));
        let events = all(&api, &at("/s1/events?pageSize=1000"), "sessionEvents").await;
        let state = api.ok("GET", &path, None).await["sessionState"].clone();
        assert_eq!(state["only"], n);
        // The later write wins.
        assert_eq!(state.get(&key).is_some(), events.last() == Some(&key), "{state}");
        assert_eq!(state.as_object().unwrap().len(), if state.get(&key).is_some() { 2 } else { 1 }, "{state}");
    }
}
