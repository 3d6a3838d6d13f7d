//! Artifacts on ADK's surface.

use serde_json::{Value, json};

use crate::support::TestClient;

const OF: &str = "/apps/demo/users/u1/sessions/s-1/artifacts";

async fn save(client: &TestClient, of: &str, body: &Value) -> (u16, Value) {
    let answer = client.send("POST", of, Some(body)).await;
    (answer.status, answer.json())
}

async fn saved(client: &TestClient, of: &str, name: &str, artifact: Value) -> Value {
    let (status, body) = save(client, of, &json!({"filename": name, "artifact": artifact})).await;
    assert_eq!(status, 200, "{body}");
    body
}

fn not_found() -> (u16, Value) {
    (404, json!({"detail": "Artifact not found"}))
}

#[tokio::test]
async fn each_save_is_a_version_and_all_are_there() {
    let client = TestClient::memory().await;
    let data = json!({"inlineData": {"data": "aGVsbG8gd29ybGQ=", "mimeType": "text/plain"}});
    let body = json!({"filename": "doc.txt", "artifact": data, "customMetadata": {"k": null}});
    let (status, first) = save(&client, OF, &body).await;
    assert_eq!(status, 200, "{first}");
    let keys: Vec<_> = first.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["version", "canonicalUri", "customMetadata", "createTime", "mimeType"]);
    assert_eq!((&first["version"], &first["customMetadata"]), (&json!(0), &json!({"k": null})));
    assert_eq!(first["canonicalUri"], "scratchbook://apps/demo/users/u1/sessions/s-1/artifacts/doc.txt/versions/0");
    let second = saved(&client, OF, "doc.txt", json!({"text": "v2"})).await;
    assert_eq!((&second["version"], second.get("mimeType")), (&json!(1), None));

    let text = (200, json!({"text": "v2"}));
    for (path, answer) in [
        ("doc.txt", text.clone()),
        ("doc.txt?version=0", (200, data.clone())),
        ("doc.txt?version=1", text.clone()),
        ("doc.txt?version=7&version=%2B0_0", (200, data.clone())),
        ("doc.txt?version=2", not_found()),
        ("doc.txt?version=-1", not_found()),
        ("doc.txt?version=99999999999999999999999", not_found()),
        ("doc.txt/versions", (200, json!([0, 1]))),
        ("doc.txt/versions/0", (200, data)),
        ("doc.txt/versions/latest", text),
        ("doc.txt/versions/99", not_found()),
        ("doc.txt/versions/abc", (422, json!({"detail": "Invalid version ID"}))),
        ("doc.txt/versions/0/metadata", (200, first.clone())),
        ("doc.txt/versions/latest/metadata", (200, second.clone())),
        ("doc.txt/versions/9/metadata", (404, json!({"detail": "Artifact version not found"}))),
        ("doc.txt/versions/abc/metadata", (422, json!({"detail": "Invalid version ID"}))),
        ("doc.txt/versions/metadata", (200, json!([first, second]))),
    ] {
        assert_eq!(client.get(&format!("{OF}/{path}")).await, answer, "{path}");
    }
    let (status, body) = client.get(&format!("{OF}/doc.txt?version=abc")).await;
    assert_eq!((status, &body["detail"][0]["type"]), (422, &json!("int_parsing")), "{body}");
}

#[tokio::test]
async fn names_may_hold_slashes_and_anything_that_can_be_encoded() {
    let client = TestClient::memory().await;
    for (name, path) in
        [("a/b.txt", "a/b.txt"), ("50% é?#.txt", "50%25%20%C3%A9%3F%23.txt"), ("n/metadata", "n/metadata")]
    {
        let described = saved(&client, OF, name, json!({"text": name})).await;
        assert_eq!(client.get(&format!("{OF}/{path}")).await, (200, json!({"text": name})), "{name}");
        assert_eq!(client.get(&format!("{OF}/{path}/versions/0/metadata")).await, (200, described), "{name}");
    }
    assert_eq!(client.get(&format!("{OF}/a%2Fb.txt")).await.0, 200);
}

#[tokio::test]
async fn a_users_artifact_is_seen_in_all_sessions_of_the_user_and_nowhere_else() {
    let client = TestClient::memory().await;
    let described = saved(&client, OF, "user:me.png", json!({"inlineData": {"data": "iVBORw0KGgo="}})).await;
    assert_eq!(described["canonicalUri"], "scratchbook://apps/demo/users/u1/artifacts/me.png/versions/0");
    assert_eq!(described["mimeType"], "application/octet-stream");
    saved(&client, OF, "own.txt", json!({"text": "own"})).await;
    let other = OF.replace("s-1", "s-2");
    assert_eq!(client.get(&other).await, (200, json!(["user:me.png"])));
    assert_eq!(client.get(OF).await, (200, json!(["own.txt", "user:me.png"])));
    for path in ["user:me.png", "user%3Ame.png"] {
        assert_eq!(client.get(&format!("{other}/{path}")).await.0, 200, "{path}");
        for elsewhere in [OF.replace("u1", "u2"), OF.replace("demo", "other")] {
            assert_eq!(client.get(&format!("{elsewhere}/{path}")).await, not_found());
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_in_adks_words() {
    let client = TestClient::memory().await;
    assert_eq!(client.get(OF).await, (200, json!([])));
    let long = "n".repeat(600);
    for name in ["nope", "", "user:", "%00", "%ff", "..%2F..%2Fetc%2Fpasswd", &long] {
        assert_eq!(client.get(&format!("{OF}/{name}")).await, not_found(), "{name}");
        if !name.is_empty() {
            assert_eq!(client.get(&format!("{OF}/{name}/versions")).await, (200, json!([])), "{name}");
            assert_eq!(client.get(&format!("{OF}/{name}/versions/metadata")).await, (200, json!([])), "{name}");
            assert_eq!(client.get(&format!("{OF}/{name}/versions/0")).await, not_found(), "{name}");
        }
        let deleted = client.send("DELETE", &format!("{OF}/{name}"), None).await;
        assert_eq!((deleted.status, deleted.text()), (200, "null"), "{name}");
    }
}

#[tokio::test]
async fn megabytes_come_back_as_they_were() {
    let client = TestClient::memory().await;
    let megabytes = "0123456789abcdef".repeat(1 << 18);
    saved(&client, OF, "large.txt", json!({"text": megabytes})).await;
    assert_eq!(client.get(&format!("{OF}/large.txt")).await, (200, json!({"text": megabytes})));
    // The limit for a single version, and the detail of its refusal.
    let folder = tempfile::tempdir().unwrap();
    let small =
        TestClient::over(&format!("sqlite://{}?artifact_bytes=1000", folder.path().join("a.db").display())).await;
    let (status, answer) = save(&small, OF, &json!({"filename": "f", "artifact": {"text": "x".repeat(1000)}})).await;
    assert_eq!(status, 413, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("artifact_bytes is 1000"), "{answer}");
    assert_eq!(small.get(OF).await, (200, json!([])));
}

#[tokio::test]
async fn a_deleted_artifact_is_gone() {
    let client = TestClient::memory().await;
    saved(&client, OF, "a/b", json!({"text": "1"})).await;
    saved(&client, OF, "a", json!({"text": "2"})).await;
    let deleted = client.send("DELETE", &format!("{OF}/a/b"), None).await;
    assert_eq!((deleted.status, deleted.text()), (200, "null"));
    assert_eq!(client.get(&format!("{OF}/a/b")).await, not_found());
    assert_eq!(client.get(OF).await, (200, json!(["a"])));
}

#[tokio::test]
async fn what_is_no_artifact_is_refused_and_leaves_nothing() {
    let client = TestClient::memory().await;
    let text = json!({"text": "x"});
    for (body, status) in [
        (json!({"filename": "../../evil.txt", "artifact": text}), 400),
        (json!({"filename": "/etc/passwd", "artifact": text}), 400),
        (json!({"filename": "a/versions/b", "artifact": text}), 400),
        (json!({"filename": "", "artifact": text}), 400),
        (json!({"filename": "a\u{0}b", "artifact": text}), 400),
        (json!({"filename": "x", "artifact": {}}), 400),
        (json!({"filename": "x", "artifact": {"inlineData": {"mimeType": "a/b"}}}), 400),
        (json!({"filename": "x", "artifact": {"fileData": {"fileUri": "gs://x"}}}), 400),
        (json!({"filename": "x", "artifact": {"inlineData": {"data": "!!!"}}}), 422),
        (json!({"filename": "x", "artifact": {"bogus": 1}}), 422),
        (json!({"filename": 1, "artifact": []}), 422),
        (json!({"filename": "x"}), 422),
        (json!([]), 422),
    ] {
        let (is, answer) = save(&client, OF, &body).await;
        assert_eq!(is, status, "{body}: {answer}");
        assert!(!answer["detail"].is_null(), "{body}: {answer}");
    }
    let (_, answer) = save(&client, OF, &json!({"filename": "x", "artifact": {}})).await;
    assert_eq!(answer["detail"], "Artifact must have either inline_data or text content.");
    assert_eq!(client.get(OF).await, (200, json!([])));
}
