//! The server behind a proxy that serves it below a path, with and without `url_prefix`.

use std::collections::{BTreeSet, VecDeque};

use axum::body::Body;
use axum::http::Request;
use scratchbook::state::StateDelta;
use scratchbook::{Event, SessionKey};
use scratchbook_server::{Login, NewToken, Right, ServerBuilder};
use serde_json::{Value, json};

use crate::support::{Answer, TestClient, resolve};

const PREFIX: &str = "/agents/shop";

/// A server and the path below which a proxy serves it.
struct Proxied {
    client: TestClient,
    /// Whether the proxy removes the path from requests.
    strips: bool,
}

impl Proxied {
    async fn start(strips: bool, options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let client = TestClient::with(options).await;
        client.session("demo", "al ice", "s/1").await;
        let key = SessionKey::new("demo", "al ice", "s/1").unwrap();
        for n in 0..3 {
            let event = Event::new("user").with_state_delta(StateDelta::new().with("user:tier", n).unwrap());
            client.store.sessions.append(&key, event, Default::default()).await.unwrap();
        }
        Self { client, strips }
    }

    /// Sends a browser's request to a path as the browser sees it.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let below = path.strip_prefix(PREFIX).unwrap_or_else(|| panic!("{path} is not below {PREFIX}"));
        let mut request = Request::builder().method(method).uri(if self.strips { below } else { path });
        for (name, value) in [("accept", "text/html"), ("host", "shop.example")].iter().chain(headers) {
            request = request.header(*name, *value);
        }
        self.client.request(request.body(Body::empty()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    /// Follows every link of every page and part of a page, and asserts that it leads to something below the path.
    async fn crawl(&self) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open = VecDeque::from([format!("{PREFIX}/inspector"), format!("{PREFIX}/docs")]);
        while let Some(path) = open.pop_front() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let answer = self.get(&path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let is_html = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
            for (name, address) in addresses(answer.text()).filter(|_| is_html) {
                // A part is put into the page that is one segment above it.
                let page =
                    if answer.text().starts_with("<!DOCTYPE") { &path } else { path.rsplit_once('/').unwrap().0 };
                let address = resolve(page, &address.replace("&amp;", "&"));
                assert!(address.starts_with(PREFIX), "{path} leads to {address}");
                if !matches!(name, "action" | "data-live" | "data-stop") {
                    open.push_back(address);
                }
            }
        }
        seen
    }
}

/// Returns the addresses in the attributes of HTML, except those within the page.
fn addresses(html: &str) -> impl Iterator<Item = (&str, &str)> {
    ["href", "src", "action", "data-part", "data-page", "data-live", "data-stop"].into_iter().flat_map(move |name| {
        let attribute = format!(" {name}=\"");
        let values = html.split(&attribute).skip(1).map(|rest| rest.split('"').next().unwrap());
        let values: Vec<_> = values.filter(|value| !value.starts_with(['#', '?'])).collect();
        values.into_iter().map(move |value| (name, value))
    })
}

#[tokio::test]
async fn pages_and_redirects_work_behind_a_proxy_that_strips_a_path_the_server_does_not_know() {
    let proxied = Proxied::start(true, |server| server).await;
    let seen = proxied.crawl().await;
    for part in
        ["/docs", "/openapi.json", "/inspector/overview", "/inspector/assets/inspector.css", "sessions/s%2F1/state"]
    {
        assert!(seen.iter().any(|path| path.contains(part)), "{part} is not among {seen:?}");
    }
    assert_eq!(proxied.get(&format!("{PREFIX}/")).await.header("location"), Some("./inspector"));
    let slash = format!("{PREFIX}/apps/demo/users/u/sessions/");
    let answer = proxied.get(&slash).await;
    let expected = Some("/agents/shop/apps/demo/users/u/sessions".to_owned());
    assert_eq!((answer.status, answer.redirect(&slash)), (307, expected));
    // The document is beside the API.
    let document: Value = proxied.get(&format!("{PREFIX}/openapi.json")).await.json();
    assert_eq!(document["servers"], json!([{"url": "."}]));
}

#[tokio::test]
async fn server_that_knows_its_path_serves_with_and_without_it_and_names_it() {
    for strips in [true, false] {
        let proxied = Proxied::start(strips, |server| server.url_prefix(PREFIX)).await;
        proxied.crawl().await;
        for (path, status, location) in [
            ("/", 303, "/agents/shop/inspector"),
            ("/apps/demo/users/u/sessions/?x=1", 307, "/agents/shop/apps/demo/users/u/sessions?x=1"),
        ] {
            let answer = proxied.get(&format!("{PREFIX}{path}")).await;
            assert_eq!((answer.status, answer.header("location")), (status, Some(location)));
        }
        let document = proxied.get(&format!("{PREFIX}/openapi.json")).await.json();
        assert_eq!(document["servers"], json!([{"url": PREFIX}]));
        proxied.client.session("demo", "al ice", "s2").await;
        let session = proxied.client.get(&format!("{PREFIX}/apps/demo/users/al%20ice/sessions/s2")).await;
        assert_eq!((session.0, &session.1["userId"]), (200, &json!("al ice")));
        let other = proxied.client.get("/agents/shopping/list-apps").await;
        assert_eq!(other.0, 404);
    }
    let bare = TestClient::with(|server| server.url_prefix(PREFIX)).await;
    assert_eq!(bare.send("GET", PREFIX, None).await.status, 404);
    assert_eq!(bare.get("/agents/shop/list-apps").await, (200, json!([])));
}

#[tokio::test]
async fn two_servers_behind_two_paths_of_one_host_keep_their_own_logins() {
    let folder = tempfile::tempdir().unwrap();
    let token = NewToken::new("u1").with_rights([Right::Read]).make().unwrap();
    let file = folder.path().join("tokens.toml");
    std::fs::write(&file, token.entry()).unwrap();
    let mut names = BTreeSet::new();
    for prefix in [None, Some("/agents/shop"), Some("/agents/other")] {
        let login = Login::new().with_tokens(&file);
        let client = TestClient::with(|server| {
            let server = server.login(login);
            prefix.into_iter().fold(server, ServerBuilder::url_prefix)
        });
        let request = Request::post("/login").header("host", "shop.example").header("origin", "http://shop.example");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let body = format!("token={}&next=%2Finspector", token.secret());
        let answer = client.await.request(request.body(Body::from(body)).unwrap()).await;
        let to = prefix.map_or("./inspector".to_owned(), |prefix| format!("{prefix}/inspector"));
        assert_eq!((answer.status, answer.header("location")), (303, Some(to.as_str())));
        names.insert(answer.header("set-cookie").unwrap().split('=').next().unwrap().to_owned());
    }
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains("scratchbook-login"), "{names:?}");
}

#[tokio::test]
async fn script_of_an_allowed_origin_can_read_the_ids_and_when_to_come_again() {
    let client = TestClient::with(|server| server.allow_origins(["HTTP://App.Example:3000/"])).await;
    let request = Request::get("/list-apps").header("host", "shop.example").header("origin", "http://app.example:3000");
    let answer = client.request(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let exposed = answer.header("access-control-expose-headers");
    assert_eq!(exposed, Some("scratchbook-invocation-id, x-request-id, Retry-After"));
}
