//! A server on a store of its own, and a client that speaks to its router.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use scratchbook::{CreateSessionConfig, LlmAgent, ScriptedLlm, Store, connect};
use scratchbook_server::{Server, ServerBuilder};
use serde_json::Value;
use tower::ServiceExt;

/// A server without a socket.
pub(crate) struct Client {
    pub(crate) store: Store,
    router: axum::Router,
}

impl Client {
    /// Over memory, with the app `demo`.
    pub(crate) async fn memory() -> Self {
        let agent = LlmAgent::builder("demo_agent").model(ScriptedLlm::new(["Hello."])).build().unwrap();
        Self::with(|server| server.app("demo", agent)).await
    }

    /// Over memory, with what is hosted said by a function.
    pub(crate) async fn with(hosting: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let store = connect("memory:").await.unwrap();
        let server = hosting(Server::builder(store.clone())).build().unwrap();
        Self { store, router: server.router() }
    }

    /// Makes a session in the store.
    pub(crate) async fn session(&self, app: &str, user: &str, id: &str) {
        let config = CreateSessionConfig::default().with_session_id(id);
        self.store.sessions.create_session(app, user, config).await.unwrap();
    }

    /// Status and body, `null` where it is no JSON.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}
