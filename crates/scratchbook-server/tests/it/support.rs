//! A server on a store of its own, and a client that calls its router.

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::{CreateSessionConfig, LlmAgent, Store, connect};
use scratchbook_server::{Server, ServerBuilder};
use serde_json::Value;
use tower::ServiceExt;

/// A server without a socket.
pub(crate) struct TestClient {
    pub(crate) store: Store,
    pub(crate) router: axum::Router,
}

impl TestClient {
    /// Creates a server over a store in memory, with the app `demo`.
    pub(crate) async fn memory() -> Self {
        let agent = LlmAgent::builder("demo_agent").model(ScriptedLlm::new(["Hello."])).build().unwrap();
        Self::with(|server| server.app("demo", agent)).await
    }

    /// Creates a server over a store in memory. The function sets what is hosted.
    pub(crate) async fn with(hosting: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self::new(connect("memory:").await.unwrap(), hosting)
    }

    /// Creates a server over another store, without an app.
    pub(crate) async fn over(uri: &str) -> Self {
        Self::new(connect(uri).await.unwrap(), |server| server)
    }

    pub(crate) fn new(store: Store, hosting: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let server = hosting(Server::builder(store.clone())).build().unwrap();
        Self { store, router: server.router() }
    }

    /// Creates a session in the store.
    pub(crate) async fn session(&self, app: &str, user: &str, id: &str) {
        let config = CreateSessionConfig::default().with_session_id(id);
        self.store.sessions.create_session(app, user, config).await.unwrap();
    }

    /// Returns the status and the body of a GET. The body is `null` if it is no JSON.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.send("GET", path, None).await;
        (answer.status, answer.json())
    }

    /// Sends a request, with or without a JSON body.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.request(request.body(body).unwrap()).await
    }

    pub(crate) async fn request(&self, request: Request<Body>) -> Answer {
        answer(&self.router, request).await
    }
}

/// Returns the answer of a router.
pub(crate) async fn answer(router: &axum::Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes() }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the path to which the answer to a request of this path redirects, as a browser finds it.
    pub(crate) fn redirect(&self, path: &str) -> Option<String> {
        self.header("location").map(|location| resolve(path, location))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body as JSON, or `null` if it is no JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Returns the path that a relative address names on the page with this path.
pub(crate) fn resolve(page: &str, address: &str) -> String {
    if address.starts_with('/') {
        return address.to_owned();
    }
    let mut folders: Vec<_> = page.split(['?', '#']).next().unwrap().split('/').collect();
    folders.pop();
    let mut rest = address;
    loop {
        if let Some(further) = rest.strip_prefix("../") {
            assert!(folders.len() > 1, "{address} on {page} is above the root");
            folders.pop();
            rest = further;
        } else if let Some(further) = rest.strip_prefix("./") {
            rest = further;
        } else {
            return format!("{}/{rest}", folders.join("/"));
        }
    }
}

/// Returns the HTML of a page with its relative addresses as paths.
pub(crate) fn with_paths(page: &str, html: &str) -> String {
    let slashes = page.split('?').next().unwrap().matches('/').count();
    // A part is put into the page that is one segment above it.
    let up = if html.starts_with("<!DOCTYPE") { slashes - 1 } else { slashes.saturating_sub(2) };
    let root = if up == 0 { "./".to_owned() } else { "../".repeat(up) };
    html.replace(&format!("=\"{root}"), "=\"/")
}
