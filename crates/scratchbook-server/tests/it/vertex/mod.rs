//! Vertex AI's surface, through the router and with Google's own clients.

mod access;
mod adk_js;
mod client;
mod events;
mod google_adk;
mod list;
mod recorded;
mod refusals;
mod sessions;
mod update;

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::v1::support::Api;

/// An engine, as its clients name it.
const ENGINE: &str = "/v1beta1/projects/p1/locations/l1/reasoningEngines/123";

/// Returns a path below the engine's sessions.
fn at(rest: &str) -> String {
    format!("{ENGINE}/sessions{rest}")
}

/// Creates a session of a user with this id.
async fn make(api: &Api, user: &str, id: &str, more: Value) -> Value {
    let mut body = json!({"userId": user});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.ok("POST", &at(&format!("?sessionId={id}")), Some(body)).await["response"].clone()
}

/// Appends an event of the user at a second of the year 2026, with more in it.
async fn say(api: &Api, id: &str, second: u32, more: Value) {
    let (minute, second) = (second / 60, second % 60);
    let mut body = json!({"author": "user", "invocationId": "i1",
        "timestamp": format!("2026-01-01T{:02}:{:02}:{second:02}Z", minute / 60, minute % 60)});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(api.ok("POST", &at(&format!("/{id}:appendEvent")), Some(body)).await, json!({}));
}

/// Checks a refusal in Google's form.
async fn refused(api: &Api, code: u16, status: &str, method: &str, path: &str, body: Option<Value>) -> String {
    let (found, answer) = api.send(method, path, body).await;
    let error = &answer["error"];
    assert_eq!((found, &error["code"], &error["status"]), (code, &json!(code), &json!(status)), "{path}: {answer}");
    assert_eq!((answer.as_object().unwrap().len(), error.as_object().unwrap().len()), (1, 3), "{answer}");
    error["message"].as_str().unwrap().to_owned()
}

/// Returns the last parts of the names of a list's items.
fn ids(page: &Value, of: &str) -> Vec<String> {
    let items = page[of].as_array().cloned().unwrap_or_default();
    let last = |item: &Value| item["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    items.iter().map(last).collect()
}

/// Reads a whole list, page by page. No page may be empty, unless it is the only one.
async fn all(api: &Api, path: &str, of: &str) -> Vec<String> {
    let (mut found, mut token) = (Vec::new(), String::new());
    for _ in 0..10_000 {
        let and = if path.contains('?') { '&' } else { '?' };
        let page = api.ok("GET", &format!("{path}{and}pageToken={token}"), None).await;
        let here = ids(&page, of);
        assert!(!here.is_empty() || token.is_empty(), "an empty page at the end of {path}");
        found.extend(here);
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => {
                let once: HashSet<_> = found.iter().collect();
                assert_eq!(once.len(), found.len(), "{path} has something twice: {found:?}");
                return found;
            }
        }
    }
    panic!("{path} has no end");
}
