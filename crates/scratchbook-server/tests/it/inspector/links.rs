//! Links to the pages: in the answers of `/v1`, and from other sites.

use axum::body::Body;
use axum::http::Request;
use scratchbook::connect;
use scratchbook_server::{Login, NewToken, Right, Server};
use serde_json::{Value, json};

use super::S1;
use crate::support::{Answer, TestClient, resolve};

const EVENTS: &str = "/v1/apps/shop/users/alice/sessions/s1/events";

/// Returns a write that expects a value which is not stored.
fn guarded() -> Value {
    json!({"event": {"author": "till"}, "operations": {"user:tier": [{"expect": "gold"}, {"set": "none"}]}})
}

#[tokio::test]
async fn a_conflict_links_to_the_page_that_shows_it() {
    let client = TestClient::memory().await;
    client.session("shop", "alice", "s1").await;
    let answer = client.send("POST", EVENTS, Some(&guarded())).await;
    assert_eq!((answer.status, &answer.json()["error"]["view"]), (409, &json!(format!("{S1}?key=user%3Atier"))));
    assert_eq!(super::page(&client, answer.json()["error"]["view"].as_str().unwrap()).await.status, 200);

    let (_, session) = client.get("/v1/apps/shop/users/alice/sessions/s1").await;
    let mine = json!({"event": {"author": "me", "actions": {"stateDelta": {"step": 1}}},
        "conflict": "by_session", "seen": session["seen"]});
    super::set(&client, "step", 5).await;
    let stale = client.send("POST", EVENTS, Some(&mine)).await;
    let view = stale.json()["error"]["view"].as_str().unwrap_or_default().to_owned();
    assert!(stale.status == 409 && view.starts_with(S1), "{}", stale.text());

    let missing = client.send("POST", &EVENTS.replace("s1", "s2"), Some(&guarded())).await;
    assert_eq!((missing.status, missing.json()["error"].get("view")), (404, None));
    let without = TestClient::with(|server| server.without_inspector()).await;
    without.session("shop", "alice", "s1").await;
    let answer = without.send("POST", EVENTS, Some(&guarded())).await;
    assert_eq!((answer.status, answer.json()["error"].get("view")), (409, None));
}

/// Returns a server that accepts a single token, and the token.
async fn with_login(rights: &[Right]) -> (TestClient, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let made = NewToken::new("ann").with_rights(rights.iter().copied()).make().unwrap();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, made.entry()).unwrap();
    let store = connect("memory:").await.unwrap();
    let server = Server::builder(store.clone()).login(Login::new().with_tokens(&path)).host("127.0.0.1");
    let client = TestClient { store, router: server.build().unwrap().router() };
    client.session("shop", "alice", "s1").await;
    (client, made.secret().to_owned(), folder)
}

#[tokio::test]
async fn a_conflict_links_to_nothing_that_the_caller_may_not_read() {
    let (client, token, _folder) = with_login(&[Right::Write]).await;
    let request = Request::post(EVENTS).header("authorization", format!("Bearer {token}"));
    let request = request.header("content-type", "application/json").body(Body::from(guarded().to_string()));
    let answer = client.request(request.unwrap()).await;
    assert_eq!((answer.status, answer.json()["error"].get("view")), (409, None), "{}", answer.text());
}

const HOST: (&str, &str) = ("host", "127.0.0.1:8801");
const FROM_ELSEWHERE: [(&str, &str); 3] =
    [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
const FROM_HERE: [(&str, &str); 3] =
    [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];

/// Opens a page as a browser does.
async fn open(client: &TestClient, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path).header("accept", "text/html");
    for (name, value) in [&[HOST][..], headers].concat() {
        request = request.header(name, value);
    }
    client.request(request.body(Body::empty()).unwrap()).await
}

/// Returns the path to which the answer to a request of this path goes by itself.
fn refreshed_to(path: &str, page: &Answer) -> String {
    let (_, rest) = page.text().split_once("http-equiv=\"refresh\" content=\"0; url=").expect("it goes on");
    resolve(path, &rest.split('"').next().unwrap().replace("&amp;", "&"))
}

#[tokio::test]
async fn a_link_on_another_site_leads_to_the_page_and_not_to_the_login() {
    let (client, token, _folder) = with_login(&[Right::Read]).await;
    let cookie = format!("scratchbook-login-8801={token}");
    let path = format!("{S1}?at=0&key=user%3Atier");
    for site in ["cross-site", "same-site"] {
        // The browser sends no cookie, or a cookie that the server does not use.
        let from = [("sec-fetch-site", site), FROM_ELSEWHERE[1], FROM_ELSEWHERE[2]];
        let first = open(&client, &path, &from).await;
        assert_eq!(first.status, 200, "{}", first.text());
        assert_eq!(first.header("cache-control"), Some("no-store"));
        assert!(!first.text().contains("<script") && !first.text().contains("alice<"), "{}", first.text());
        let next = refreshed_to(&path, &first);
        assert!(next.starts_with("/login?next=%2Finspector"), "{next}");
        let with_cookie = [&[("cookie", cookie.as_str())][..], &FROM_HERE].concat();
        let second = open(&client, &next, &with_cookie).await;
        assert_eq!((second.status, second.redirect(&next).as_deref()), (303, Some(path.as_str())));
        assert_eq!(open(&client, &path, &with_cookie).await.status, 200);
        // A person who is not logged in gets the form, and not another page that goes on by itself.
        for headers in [&FROM_HERE, &from] {
            let form = open(&client, &next, headers).await;
            assert!(form.status == 200 && form.text().contains("name=\"token\""), "{}", form.text());
            assert!(!form.text().contains("http-equiv=\"refresh\""), "{}", form.text());
        }
    }
    let login = open(&client, &path, &FROM_HERE).await;
    assert!(login.status == 303 && login.redirect(&path).unwrap().starts_with("/login?next="));
}

#[tokio::test]
async fn a_link_to_the_login_leads_to_no_other_server() {
    let (client, token, _folder) = with_login(&[Right::Read]).await;
    let cookie = format!("scratchbook-login-8801={token}");
    let with_cookie = [&[("cookie", cookie.as_str())][..], &FROM_HERE].concat();
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2F%5Cevil.example", "", "%2Flogin"] {
        let answer = open(&client, &format!("/login?next={next}&from=link"), &with_cookie).await;
        assert_eq!((answer.status, answer.header("location")), (200, None), "{next}");
    }
    // The page that goes on treats the wanted address as text.
    let path = "/inspector/apps/x%22%3E%3Cscript%3E?a='%3E;url=//evil.example";
    let evil = open(&client, path, &FROM_ELSEWHERE).await;
    let next = refreshed_to(path, &evil);
    assert!(next.starts_with("/login?next=%2Finspector") && next.ends_with("&from=link"), "{next}");
    assert!(!next.contains(['<', '>', '\'', ';']) && !evil.text().contains("<script"), "{}", evil.text());
}
