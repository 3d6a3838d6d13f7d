//! Artifacts as bytes.

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use scratchbook::SessionKey;
use scratchbook::content::Part;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::support::{Api, S1};

/// Sends a request with bytes, and returns the answer.
async fn raw(api: &Api, method: &str, path: &str, kind: Option<&str>, body: &[u8]) -> (u16, HeaderMap, Vec<u8>) {
    let mut request = Request::builder().method(method).uri(format!("{S1}/artifacts{path}"));
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    let response = api.router.clone().oneshot(request.body(Body::from(body.to_vec())).unwrap()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

async fn save(api: &Api, name: &str, kind: Option<&str>, data: &[u8]) -> Value {
    let (status, _, body) = raw(api, "PUT", &format!("/{name}"), kind, data).await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 201, "{body}");
    body
}

#[tokio::test]
async fn bytes_come_back_as_they_were_with_their_content_type() {
    for api in Api::all().await {
        let all: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
        let saved = save(&api, "dir%2Fall.bin", Some("application/x-all"), &all).await;
        assert_eq!((&saved["version"], &saved["mimeType"]), (&json!(0), &json!("application/x-all")));
        assert!(saved["createTime"].as_f64().unwrap() > 1e9 && saved["customMetadata"] == json!({}), "{saved}");
        assert_eq!(save(&api, "dir%2Fall.bin", None, b"").await["mimeType"], "application/octet-stream");

        let (status, headers, data) = raw(&api, "GET", "/dir%2Fall.bin?version=0", None, b"").await;
        assert_eq!((status, &headers["content-type"]), (200, &"application/x-all".parse().unwrap()));
        assert!(data == all, "{} bytes", data.len());
        let (_, _, newest) = raw(&api, "GET", "/dir%2Fall.bin", None, b"").await;
        assert!(newest.is_empty());
        // A saved page must not act as a page of this server.
        assert_eq!(headers["content-disposition"], "attachment; filename*=UTF-8''all%2Ebin");
        assert_eq!(headers["content-security-policy"], "sandbox");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn text_and_references_of_agents_are_read_as_what_they_are() {
    let api = Api::memory().await;
    let key = SessionKey::new("shop", "alice", "s1").unwrap();
    let reference: Part = serde_json::from_value(json!({"fileData": {"fileUri": "gs://b/f"}})).unwrap();
    for (name, part) in [("t", Part::text("é")), ("r", reference), ("odd", Part::bytes("x", "a\nb"))] {
        api.store.artifacts.save_artifact(&key, name, part, Default::default()).await.unwrap();
    }
    let (_, headers, text) = raw(&api, "GET", "/t", None, b"").await;
    assert_eq!(
        (&headers["content-type"], text.as_slice()),
        (&"text/plain; charset=utf-8".parse().unwrap(), "é".as_bytes())
    );
    let (status, _, body) = raw(&api, "GET", "/r", None, b"").await;
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&body));
    assert_eq!(raw(&api, "GET", "/odd", None, b"").await.1["content-type"], "application/octet-stream");
}

#[tokio::test]
async fn names_and_versions_are_listed_page_by_page() {
    for api in Api::all().await {
        for name in ["a", "user:z", "b", "a", "a%2Fb"] {
            save(&api, name, None, name.as_bytes()).await;
        }
        let (mut names, mut token) = (Vec::new(), String::new());
        for _ in 0..4 {
            let page = api.ok("GET", &format!("{S1}/artifacts?pageSize=1{token}"), None).await;
            names.extend(page["names"].as_array().unwrap().clone());
            let Some(next) = page["nextPageToken"].as_str() else { break };
            token = format!("&pageToken={}", next.replace('/', "%2F"));
        }
        assert_eq!(names, ["a", "a/b", "b", "user:z"]);

        let first = api.ok("GET", &format!("{S1}/artifacts/a/versions?pageSize=1"), None).await;
        assert_eq!((&first["versions"][0]["version"], &first["nextPageToken"]), (&json!(0), &json!("0")));
        let second = api.ok("GET", &format!("{S1}/artifacts/a/versions?pageToken=0"), None).await;
        assert_eq!((&second["versions"][0]["version"], &second["nextPageToken"]), (&json!(1), &Value::Null));
    }
}

#[tokio::test]
async fn what_is_deleted_or_was_never_there_is_not_found() {
    let api = Api::memory().await;
    save(&api, "a", None, b"1").await;
    assert_eq!(raw(&api, "DELETE", "/a", None, b"").await.0, 204);
    assert_eq!(raw(&api, "DELETE", "/a", None, b"").await.0, 204);
    for path in ["/a", "/a?version=0", "/a/versions", "/nope"] {
        assert_eq!(raw(&api, "GET", path, None, b"").await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_right_is_refused() {
    let api = Api::memory().await;
    let long = "n".repeat(600);
    for (method, path) in [
        ("PUT", "/..%2F..%2Fevil"),
        ("PUT", "/%2Fabs"),
        ("PUT", "/a%00"),
        ("PUT", "/user:"),
        ("PUT", "/a?version=1"),
        ("PUT", format!("/{long}").as_str()),
        ("GET", "/a?version=-1"),
        ("GET", "/a?verison=1"),
        ("GET", "?pageSize=0"),
        ("GET", "/a/versions?pageToken=x"),
    ] {
        let (status, _, body) = raw(&api, method, path, None, b"x").await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &body["error"]["kind"]), (400, &json!("invalid_argument")), "{method} {path}: {body}");
    }
}
