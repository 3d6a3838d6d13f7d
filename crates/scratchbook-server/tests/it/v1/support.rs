//! A client of `/v1`: through the router, or over TCP.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::{LlmAgent, Store, connect};
use scratchbook_server::{Server, ServerBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

/// A server over a store, with methods that call it.
pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) router: axum::Router,
    _folder: TempDir,
}

/// A session's path.
pub(crate) const S1: &str = "/v1/apps/shop/users/alice/sessions/s1";

impl Api {
    /// Creates a server over the store at a URI. The folder is kept until the server is dropped.
    pub(crate) async fn over(uri: &str, folder: TempDir) -> Self {
        let store = connect(uri).await.unwrap();
        Self { router: server(&store).router(), store, _folder: folder }
    }

    /// Creates a server over a store that needs no folder.
    pub(crate) fn of(store: Store) -> Self {
        Self { router: server(&store).router(), store, _folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a server over a store in memory, and one over SQLite.
    pub(crate) async fn all() -> [Self; 2] {
        let (unused, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sqlite = format!("sqlite://{}", folder.path().join("test.db").display());
        [Self::over("memory:", unused).await, Self::over(&sqlite, folder).await]
    }

    pub(crate) async fn memory() -> Self {
        Self::over("memory:", tempfile::tempdir().unwrap()).await
    }

    /// Sends a request, and returns the status and the body. An absent body is `null`.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        self.call(request.body(body).unwrap()).await
    }

    pub(crate) async fn call(&self, request: Request<Body>) -> (u16, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        (status, body)
    }

    /// Returns the answer to a request, which has to succeed.
    pub(crate) async fn ok(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.send(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Returns the kind and the message of a refusal, which has to have this status.
    pub(crate) async fn refused(&self, status: u16, method: &str, path: &str, body: Option<Value>) -> (String, String) {
        let (found, answer) = self.send(method, path, body).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        let text = |name: &str| answer["error"][name].as_str().unwrap().to_owned();
        (text("kind"), text("message"))
    }
}

/// Returns a server over a store.
pub(crate) fn server(store: &Store) -> Server {
    server_builder(store).build().unwrap()
}

/// Returns the builder of a server over a store.
pub(crate) fn server_builder(store: &Store) -> ServerBuilder {
    let agent = LlmAgent::builder("assistant").model(ScriptedLlm::new(["Hello."])).build().unwrap();
    Server::builder(store.clone()).app("shop", agent)
}

/// Waits for something, but not forever.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes too long")
}
