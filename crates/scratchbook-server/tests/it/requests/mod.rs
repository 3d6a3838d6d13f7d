//! Generated requests: whatever is sent, no answer is a server error, and nothing panics.

mod generate;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scratchbook::connect;
use serde_json::Value;
use tower::ServiceExt;

use crate::replay;
use generate::{GeneratedRequest, sent};

/// How long a stream is read.
const PATIENCE: Duration = Duration::from_millis(20);

/// Returns the status. Fails if it is a server error, or if the body is not in the form of its surface.
async fn answer(server: &Router, sent: GeneratedRequest) -> Result<Option<u16>, String> {
    let mut request = Request::builder().method(sent.method).uri(&sent.path);
    for (name, value) in sent.headers.iter().filter(|(_, value)| axum::http::HeaderValue::from_str(value).is_ok()) {
        request = request.header(*name, *value);
    }
    // A request that is not valid HTTP cannot be sent.
    let Ok(request) = request.body(Body::from(sent.body)) else { return Ok(None) };
    let Ok(response) = server.clone().oneshot(request).await;
    let (status, headers) = (response.status(), response.headers().clone());
    let is =
        |kind: &str| headers.get("content-type").is_some_and(|found| found.as_bytes().starts_with(kind.as_bytes()));
    let body = match tokio::time::timeout(PATIENCE, response.into_body().collect()).await {
        Ok(body) => body.map_err(|error| format!("a body that broke off: {error}"))?.to_bytes(),
        // A watch waits for further commits.
        Err(_) if is("text/event-stream") => Bytes::new(),
        Err(_) => return Err("a body that does not end".to_owned()),
    };
    if status.is_server_error() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    // An artifact has the content type that its owner chose.
    let is_artifact = status.is_success() && sent.path.contains("/artifacts/");
    if is("application/json") && sent.method != "HEAD" && !is_artifact {
        let value: Value = serde_json::from_slice(&body).map_err(|error| format!("no JSON: {error}"))?;
        let path = sent.path.split('?').next().unwrap_or_default();
        let is_google = ["/v1beta1", "/v1/projects", "/v1/reasoningEngines"]
            .iter()
            .any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        let has_form = if is_google {
            value.pointer("/error/status").is_some() && value["error"]["code"] == status.as_u16()
        } else if path == "/v1" || path.starts_with("/v1/") {
            value.pointer("/error/kind").is_some()
        } else {
            value.get("detail").is_some()
        };
        if status.is_client_error() && !has_form {
            return Err(format!("{status} without its form: {value}"));
        }
    }
    Ok(Some(status.as_u16()))
}

/// Returns the paths of the server's own document.
async fn documented() -> Vec<String> {
    let server = replay::server(connect("memory:").await.unwrap());
    let response = server.oneshot(Request::get("/openapi.json").body(Body::empty()).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let document: Value = serde_json::from_slice(&body).unwrap();
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
    assert!(paths.iter().any(|path| path.starts_with("/v1/")), "{paths:?}");
    paths
}

/// Sends as many requests as `SCRATCHBOOK_REQUESTS` says, or else 2,000.
#[test]
fn no_request_is_answered_with_a_server_error() {
    let count = std::env::var("SCRATCHBOOK_REQUESTS").map_or(2000, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let (server, seen) = (RefCell::new((0, None)), RefCell::new(BTreeSet::new()));
    let outcome = TestRunner::new(config).run(&sent(runtime.block_on(documented())), |sent| {
        let (asked, router) = &mut *server.borrow_mut();
        // The server is replaced now and then, so that lists do not grow endlessly.
        if *asked % 500 == 0 {
            *router = Some(replay::server(runtime.block_on(connect("memory:")).unwrap()));
        }
        *asked += 1;
        let status = runtime.block_on(answer(router.as_ref().unwrap(), sent)).map_err(TestCaseError::fail)?;
        seen.borrow_mut().extend(status);
        Ok(())
    });
    outcome.unwrap();
    let seen = seen.into_inner();
    // This checks that the requests are not all refused early. A conflict of ids need not be among 2,000 requests.
    assert!([200, 307, 400, 404, 405, 422].iter().all(|status| seen.contains(status)), "only {seen:?} were seen");
}
