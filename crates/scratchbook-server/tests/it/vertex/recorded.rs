//! Requests as google-adk 2.13.0 sent them with its `VertexAiSessionService`, in the same order.

use serde_json::{Value, json};

use crate::v1::support::Api;

/// The session that the requests are about. Its id was chosen by the server on the first request.
const ID: &str = "1151620212689178662";

#[tokio::test]
async fn what_google_adk_has_sent_is_answered() {
    for api in Api::all().await {
        let recorded: Vec<Value> = serde_json::from_str(include_str!("recorded.json")).unwrap();
        assert_eq!(recorded.len(), 8);
        for request in recorded {
            let (method, path) = (request["method"].as_str().unwrap(), request["path"].as_str().unwrap());
            let (mut path, body) = (path.to_owned(), Some(request["body"].clone()).filter(|body| !body.is_null()));
            if path.ends_with("/sessions") && method == "POST" {
                path += &format!("?sessionId={ID}");
            }
            let (status, answer) = api.send(method, &path, body.clone()).await;
            assert_eq!(status, if path.ends_with("/nope") { 404 } else { 200 }, "{method} {path}: {answer}");
            match (method, path.split("/sessions").nth(1).unwrap()) {
                ("POST", rest) if rest.ends_with(ID) => {
                    let state = json!({"cart": [], "user:theme": "light", "app:x": 7});
                    assert_eq!((&answer["done"], &answer["response"]["sessionState"]), (&json!(true), &state));
                }
                ("POST", "?sessionId=my-session-1") => {
                    let (user, state) = (&answer["response"]["userId"], &answer["response"]["sessionState"]);
                    assert_eq!((user, state), (&json!("u\"1\\"), &json!({"app:x": 7})));
                }
                ("POST", _) => assert_eq!(answer, json!({})),
                ("GET", rest) if rest.ends_with("/events") => check_events(&answer),
                ("GET", rest) if rest.starts_with("?filter") => {
                    let state = json!({"cart": [], "n": 1, "user:theme": "dark", "app:x": 1});
                    assert_eq!(answer["sessions"].as_array().unwrap().len(), 1);
                    assert_eq!(answer["sessions"][0]["sessionState"], state);
                }
                ("GET", _) => assert_eq!(answer["error"]["status"], "NOT_FOUND"),
                _ => assert_eq!(answer["done"], true),
            }
        }
    }
}

fn check_events(answer: &Value) {
    let events = answer["sessionEvents"].as_array().unwrap();
    let said: Vec<_> = events.iter().map(|event| event["content"]["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["m0", "m1"]);
    assert_eq!(events[0]["rawEvent"]["id"], "c10de796-5c65-4aeb-a366-8e8bbf454376");
    assert_eq!(events[0]["timestamp"], "2026-11-20T17:10:22.917539Z");
    assert_eq!(events[1]["eventMetadata"]["customMetadata"]["_usage_metadata"], json!({"promptTokenCount": 1}));
}
