//! Tests of the server, with `oneshot` on its router and over connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod apps;
mod artifacts;
mod dev_ui;
mod failures;
mod inspector;
mod log;
mod operations;
mod replay;
mod requests;
mod runs;
mod security;
mod sessions;
mod support;
mod url_prefix;
mod v1;
mod vertex;
mod waiting;

use support::TestClient;

#[tokio::test]
async fn a_session_is_read_on_both_surfaces() {
    let client = TestClient::memory().await;
    client.session("demo", "u1", "s-1").await;
    let (status, body) = client.get("/apps/demo/users/u1/sessions/s-1").await;
    assert_eq!((status, body["id"].as_str()), (200, Some("s-1")));
    let (status, body) = client.get("/v1/apps/demo/users/u1/sessions/nope").await;
    assert_eq!((status, body["error"]["kind"].as_str()), (404, Some("not_found")));
}
