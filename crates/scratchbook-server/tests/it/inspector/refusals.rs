//! If a layer around the pages refuses a request, the answer is a page too.

use std::num::NonZeroU32;

use axum::body::Body;
use axum::http::Request;
use scratchbook_server::{RateLimit, ServerLimits};

use super::{S1, page, shop};
use crate::support::{Answer, TestClient};

/// Asserts that an answer is a page with this title that needs no script.
fn is_page(answer: &Answer, status: u16, title: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{}", answer.text());
    assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let text = answer.text();
    assert!(text.contains(&format!("<h1>{title}</h1>")) && text.contains("inspector\">All apps</a>"), "{text}");
    assert!(!text.contains("<script"), "{text}");
}

#[tokio::test]
async fn too_many_requests_are_refused_by_a_page_that_says_when_to_come_again() {
    let rate = RateLimit::per_second(NonZeroU32::MIN);
    let client = TestClient::with(|server| server.limits(ServerLimits::default().with_rate(rate))).await;
    let mut refused = page(&client, "/inspector").await;
    for _ in 0..9 {
        if refused.status == 429 {
            break;
        }
        refused = page(&client, "/inspector").await;
    }
    is_page(&refused, 429, "Too Many Requests");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    let api = client.get("/list-apps").await;
    assert!(api.0 == 429 && api.1.is_object(), "other paths keep their form: {api:?}");
}

#[tokio::test]
async fn a_form_that_is_too_large_is_refused_by_a_page() {
    let client = TestClient::with(|server| server.limits(ServerLimits::default().with_body_bytes(1000))).await;
    client.session("shop", "alice", "s1").await;
    let request = Request::post(format!("{S1}/change"))
        .header("host", "127.0.0.1")
        .header("origin", "http://127.0.0.1")
        .header("content-type", "application/x-www-form-urlencoded");
    let answer = client.request(request.body(Body::from("x".repeat(5000))).unwrap()).await;
    is_page(&answer, 413, "Payload Too Large");
}

#[tokio::test]
async fn methods_and_parameters_that_a_page_does_not_take_are_refused_by_a_page() {
    let client = shop().await;
    let answer = client.send("PUT", S1, None).await;
    is_page(&answer, 405, "Method Not Allowed");
    assert!(answer.header("allow").unwrap().contains("GET"));
    is_page(&client.send("POST", "/inspector/overview", None).await, 405, "Method Not Allowed");
    for path in [format!("{S1}?at=x"), format!("{S1}/state?at=-1"), format!("{S1}/runs?run=a&at=%3Cb%3E")] {
        is_page(&page(&client, &path).await, 400, "Bad Request");
    }
}

#[tokio::test]
async fn a_name_of_another_host_is_refused_by_a_page_without_markup_of_its_own() {
    let client = TestClient::with(|server| server.host("127.0.0.1")).await;
    let request = Request::get("/inspector/%3Cscript%3E").header("host", "evil.example<script>");
    is_page(&client.request(request.body(Body::empty()).unwrap()).await, 403, "Forbidden");
}
