//! Sessions: created, read and deleted.

use std::time::Duration;

use scratchbook::{CreateSessionConfig, GetSessionConfig, SessionKey};
use serde_json::{Value, json};

use super::{ENGINE, all, at, ids, make, refused};
use crate::v1::support::Api;

#[tokio::test]
async fn a_session_is_made_at_once_and_read_by_its_name_in_every_form_of_the_path() {
    for api in Api::all().await {
        for (version, engine) in [
            ("v1", "projects/p1/locations/l1/reasoningEngines/1"),
            ("v1beta1", "projects/p1/locations/l1/reasoningEngines/2"),
            ("v1", "reasoningEngines/3"),
            ("v1beta1", "reasoningEngines/4"),
        ] {
            let body = json!({"userId": "u1", "displayName": "Hi", "labels": {"env": "test"},
                "session_state": {"cart": [], "f": 1.0, "none": null, "user:theme": "light", "temp:y": 1}});
            let made = api.ok("POST", &format!("/{version}/{engine}/sessions"), Some(body)).await;
            let session = &made["response"];
            let name = session["name"].as_str().unwrap();
            let id = name.strip_prefix(&format!("{engine}/sessions/")).unwrap();
            assert!(id.parse::<i64>().is_ok_and(|number| number > 0), "{id}");
            let number = made["name"].as_str().unwrap().strip_prefix(&format!("{name}/operations/")).unwrap();
            assert!(number.parse::<i64>().is_ok() && made["done"] == true, "{made}");
            let types = "type.googleapis.com/google.cloud.aiplatform";
            assert_eq!(session["@type"], json!(format!("{types}.{version}.Session")));
            assert_eq!(made["metadata"]["@type"], json!(format!("{types}.{version}.CreateSessionOperationMetadata")));
            let mut expected = session.clone();
            expected.as_object_mut().unwrap().shift_remove("@type");
            let got = api.ok("GET", &format!("/{version}/{name}"), None).await;
            assert_eq!(got, expected);
            assert!(got["createTime"].is_string() && got["createTime"] == got["updateTime"], "{got}");
            assert_eq!(got["sessionState"], json!({"cart": [], "f": 1.0, "none": null, "user:theme": "light"}));
            assert_eq!(
                (&got["userId"], &got["displayName"], &got["labels"]),
                (&json!("u1"), &json!("Hi"), &json!({"env": "test"}))
            );
            let again = api.ok("GET", &format!("/{version}/{}", made["name"].as_str().unwrap()), None).await;
            assert_eq!(again, made);
        }
    }
}

#[tokio::test]
async fn keys_of_the_user_and_the_app_are_in_their_other_sessions() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"own": 1, "user:a": 2, "app:b": 3}})).await;
    let state = async |user: &str, id: &str| make(&api, user, id, json!({})).await["sessionState"].clone();
    assert_eq!(state("u1", "s2").await, json!({"user:a": 2, "app:b": 3}));
    assert_eq!(state("u2", "s3").await, json!({"app:b": 3}));
    let other = "/v1/reasoningEngines/other/sessions";
    let of_other = api.ok("POST", other, Some(json!({"userId": "u1"}))).await;
    assert_eq!(of_other["response"]["sessionState"], json!({}));
}

#[tokio::test]
async fn an_id_is_one_in_an_engine_whoever_has_it() {
    for api in Api::all().await {
        make(&api, "u1", "s1", json!({})).await;
        for user in ["u1", "u2"] {
            let body = Some(json!({"userId": user}));
            let message = refused(&api, 409, "ALREADY_EXISTS", "POST", &at("?sessionId=s1"), body).await;
            assert!(!message.contains("u1") || user == "u1", "{message}");
        }
        let other = "/v1/reasoningEngines/124/sessions?session_id=s1";
        api.ok("POST", other, Some(json!({"userId": "u2"}))).await;
        // On other surfaces, two users may have sessions with the same id. Then the id alone is ambiguous.
        let config = CreateSessionConfig::default().with_session_id("s1");
        api.store.sessions.create_session("123", "u2", config).await.unwrap();
        for (method, path, body) in [
            ("GET", "/s1", None),
            ("DELETE", "/s1", None),
            ("PATCH", "/s1", Some(json!({"displayName": "x"}))),
            ("GET", "/s1/events", None),
        ] {
            let message = refused(&api, 400, "FAILED_PRECONDITION", method, &at(path), body).await;
            assert!(!message.contains("u1") && !message.contains("u2"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_session_ends_when_it_was_said_to() {
    let api = Api::memory().await;
    let made = make(&api, "u1", "s1", json!({"ttl": "3600s"})).await;
    let ends = made["expireTime"].as_str().unwrap();
    assert!(ends > made["updateTime"].as_str().unwrap() && made["ttl"].is_null(), "{made}");
    let made = make(&api, "u1", "s2", json!({"expire_time": "2099-01-01T01:00:00+01:00"})).await;
    assert_eq!(made["expireTime"], "2099-01-01T00:00:00.000000Z");
    assert!(make(&api, "u1", "s3", json!({})).await["expireTime"].is_null());
    make(&api, "u1", "s4", json!({"ttl": "0.05s"})).await;
    tokio::time::sleep(Duration::from_millis(80)).await;
    refused(&api, 404, "NOT_FOUND", "GET", &at("/s4"), None).await;
    assert_eq!(all(&api, &at(""), "sessions").await, ["s1", "s2", "s3"]);
    make(&api, "u2", "s4", json!({})).await;
}

#[tokio::test]
async fn a_session_is_deleted_once() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"user:a": 1}})).await;
    let deleted = api.ok("DELETE", &at("/s1"), None).await;
    assert_eq!(deleted["done"], true);
    assert_eq!(deleted["response"], json!({"@type": "type.googleapis.com/google.protobuf.Empty"}));
    let name = deleted["name"].as_str().unwrap();
    assert!(name.starts_with(&format!("{}/sessions/s1/operations/", &ENGINE["/v1beta1/".len()..])), "{name}");
    for path in ["/s1".to_owned(), "/s1/events".to_owned(), "/s1/operations/1".to_owned()] {
        refused(&api, 404, "NOT_FOUND", "GET", &at(&path), None).await;
    }
    refused(&api, 404, "NOT_FOUND", "DELETE", &at("/s1"), None).await;
    // The user's state stays.
    assert_eq!(make(&api, "u1", "s1", json!({})).await["sessionState"], json!({"user:a": 1}));
}

#[tokio::test]
async fn what_other_surfaces_make_is_there_under_a_name_that_is_a_path() {
    let api = Api::memory().await;
    for id in ["plain", "a b", "a/b", "é😀", "50%", "x:appendEvent", "a:b", "...", "?", "#"] {
        let config = CreateSessionConfig::default().with_session_id(id).with_title(id);
        api.store.sessions.create_session("my shop/é", "u1", config).await.unwrap();
    }
    let engine = "/v1/reasoningEngines/my%20shop%2F%C3%A9/sessions";
    let listed = api.ok("GET", engine, None).await;
    assert_eq!(ids(&listed, "sessions").len(), 10);
    for session in listed["sessions"].as_array().unwrap() {
        let path = format!("/v1/{}", session["name"].as_str().unwrap());
        assert_eq!(api.ok("GET", &path, None).await, *session, "{path}");
        let event = json!({"author": "user", "timestamp": "2026-01-01T00:00:00Z", "rawEvent": {"id": "e/1"}});
        api.ok("POST", &format!("{path}:appendEvent"), Some(event)).await;
        let events = api.ok("GET", &format!("{path}/events"), None).await;
        let name = format!("{}/events/e%2F1", session["name"].as_str().unwrap());
        assert_eq!(events["sessionEvents"][0]["name"], json!(name));
    }
}

#[tokio::test]
async fn what_is_made_here_is_there_for_the_other_surfaces() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"a": 1}, "displayName": "Hi"})).await;
    let (status, session) = api.send("GET", "/apps/123/users/u1/sessions/s1", None).await;
    assert_eq!((status, &session["state"]), (200, &json!({"a": 1})));
    assert_eq!(api.ok("GET", "/v1/apps/123/users/u1/sessions/s1", None).await["title"], "Hi");
    let key = SessionKey::new("123", "u1", "s1").unwrap();
    let session = api.store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(session.state().get("a"), Some(&Value::from(1)));
}
