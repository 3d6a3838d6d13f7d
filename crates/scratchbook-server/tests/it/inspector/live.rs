//! New events reach a page as they are committed.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::{S1, set, shop};
use crate::support::Client;

/// The frames of a stream until one has this text.
async fn until(body: &mut Body, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("no {text} in {seen}")).unwrap().unwrap();
        seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    seen
}

async fn follow(client: &Client, last: Option<&str>) -> Body {
    let request = Request::get(format!("{S1}/live")).header("last-event-id", last.unwrap_or_default());
    let response = client.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

#[tokio::test]
async fn a_commit_appears_and_a_lost_connection_misses_nothing() {
    let client = shop().await;
    let mut body = follow(&client, None).await;
    let first = until(&mut body, "id: ").await;
    let place = first.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    set(&client, "step", "<new>").await;
    let frame = until(&mut body, "\"seq\":4").await;
    assert!(frame.contains("id=\\\"e4\\\"") && frame.contains("&lt;new&gt;"), "{frame}");
    drop(body);
    set(&client, "step", "later").await;
    let mut again = follow(&client, Some(&place)).await;
    let both = until(&mut again, "\"seq\":5").await;
    assert!(both.contains("\"seq\":4"), "{both}");
    let key = scratchbook::SessionKey::new("shop", "alice", "s1").unwrap();
    client.store.sessions.delete_session(&key).await.unwrap();
    until(&mut again, "\"gone\":true").await;
}

#[tokio::test]
async fn a_page_learns_what_was_committed_before_its_stream_began() {
    let client = shop().await;
    // The page was made at event 3.
    set(&client, "step", "between").await;
    let mut body = follow(&client, None).await;
    until(&mut body, "{\"last\":4}").await;
    set(&client, "step", "later").await;
    until(&mut body, "\"seq\":5").await;
}
