//! A server with scripted answers, for failures of a real server.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use scratchbook::store::{VertexAiOptions, VertexAiSessionService};
use scratchbook::{AppendOptions, Event, SessionKey, SessionService, StateDelta};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// An answer: its status and its text, how long it takes, and its header `Retry-After`.
#[derive(Clone, Debug)]
pub(super) struct ServiceAnswer(u16, String, Duration, Option<&'static str>);

/// Returns an answer with JSON.
pub(super) fn ok(body: Value) -> ServiceAnswer {
    text(200, &body.to_string())
}

/// Returns an error in Google's form.
pub(super) fn error(code: u16, status: &str) -> ServiceAnswer {
    error_with(code, status, json!([]))
}

/// Returns an error in Google's form, with details.
pub(super) fn error_with(code: u16, status: &str, details: Value) -> ServiceAnswer {
    let body = json!({"code": code, "message": "said by the server.", "status": status, "details": details});
    text(code, &json!({"error": body}).to_string())
}

/// Returns an answer with any text.
pub(super) fn text(code: u16, text: &str) -> ServiceAnswer {
    ServiceAnswer(code, text.to_owned(), Duration::ZERO, None)
}

impl ServiceAnswer {
    pub(super) fn after(self, millis: u64) -> Self {
        Self(self.0, self.1, Duration::from_millis(millis), self.3)
    }

    pub(super) fn retry_after(self, when: &'static str) -> Self {
        Self(self.0, self.1, self.2, Some(when))
    }
}

/// A received request: the path with its query, the `Authorization` header, and the body.
#[derive(Clone, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) body: Value,
}

/// The answers to each method, of which the last is repeated, and the received requests.
#[derive(Debug, Default)]
pub(super) struct MethodScript {
    answers: Mutex<HashMap<&'static str, VecDeque<ServiceAnswer>>>,
    asked: Mutex<Vec<(&'static str, ReceivedRequest)>>,
}

impl MethodScript {
    /// Starts the server, and returns it with the options of a client that has short timeouts.
    pub(super) async fn serve(answers: &[(&'static str, &[ServiceAnswer])]) -> (Arc<Self>, VertexAiOptions) {
        let answers = answers.iter().map(|(method, answers)| (*method, answers.iter().cloned().collect())).collect();
        let script = Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        tokio::spawn(async move {
            tokio::select! { _ = axum::serve(listener, router) => (), () = pending() => () }
        });
        let millis = Duration::from_millis;
        let options = VertexAiOptions::new("p1", "l1").with_endpoint(url).with_request_timeout(millis(500));
        (script, options.with_retry_timeout(millis(2000)).with_create_timeout(millis(3000)))
    }

    pub(super) async fn client(answers: &[(&'static str, &[ServiceAnswer])]) -> (Arc<Self>, VertexAiSessionService) {
        let (script, options) = Self::serve(answers).await;
        (script, VertexAiSessionService::open(options).await.unwrap())
    }

    pub(super) fn asked(&self, method: &str) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().iter().filter(|(of, _)| *of == method).map(|(_, asked)| asked.clone()).collect()
    }
}

fn method_of(method: &Method, path: &str) -> &'static str {
    match (method.as_str(), path) {
        (_, path) if path.ends_with(":appendEvent") => "append",
        (_, path) if path.contains("/operations/") => "operation",
        ("GET", path) if path.ends_with("/events") => "events",
        ("GET", path) if path.ends_with("/sessions") => "list",
        ("POST", _) => "create",
        ("PATCH", _) => "update",
        ("DELETE", _) => "delete",
        _ => "get",
    }
}

async fn answer(
    State(script): State<Arc<MethodScript>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let method = method_of(&method, uri.path());
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let body = serde_json::from_slice(&body).unwrap_or_default();
    script.asked.lock().unwrap().push((method, ReceivedRequest { path: uri.to_string(), authorization, body }));
    let answer = {
        let mut answers = script.answers.lock().unwrap();
        let answers = answers.get_mut(method).unwrap_or_else(|| panic!("nobody was to ask: {method} {uri}"));
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    };
    let ServiceAnswer(status, text, span, retry_after) = answer.unwrap();
    tokio::time::sleep(span).await;
    let status = StatusCode::from_u16(status).unwrap();
    let mut response = (status, [("content-type", "application/json")], text).into_response();
    if let Some(when) = retry_after {
        response.headers_mut().insert("retry-after", when.parse().unwrap());
    }
    response
}

/// The session that the answers describe.
pub(super) const NAME: &str = "projects/p1/locations/l1/reasoningEngines/7/sessions/s";

/// Returns Alice's session, as the API shows it.
pub(super) fn session() -> Value {
    json!({"name": NAME, "userId": "alice", "createTime": "2026-01-01T00:00:00Z",
        "updateTime": "2026-01-01T00:00:01Z", "sessionState": {"a": 1}})
}

/// Returns the session's event at a second.
pub(super) fn event(n: u32) -> Value {
    json!({"name": format!("{NAME}/events/{n}"), "author": "agent", "invocationId": "i",
        "timestamp": format!("2026-01-01T00:00:{n:02}Z"), "rawEvent": {"id": format!("e{n}")}})
}

/// Returns the operation that created the session.
pub(super) fn made() -> ServiceAnswer {
    ok(json!({"name": format!("{NAME}/operations/1"), "done": true,
        "response": with_type(session())}))
}

/// Returns a session in the form in which an operation returns it.
pub(super) fn with_type(mut session: Value) -> Value {
    session["@type"] = json!("type.googleapis.com/google.cloud.aiplatform.v1.Session");
    session
}

/// Returns the session's key.
pub(super) fn key() -> SessionKey {
    SessionKey::new("7", "alice", "s").unwrap()
}

/// Returns an event with a secret.
pub(super) fn hello() -> Event {
    Event::new("user").with_content("hello").with_state_delta(StateDelta::new().with("a", "S3CRET").unwrap())
}

/// Appends the event of [`hello`].
pub(super) async fn append(client: &VertexAiSessionService) -> scratchbook::Result<scratchbook::session::Committed> {
    client.append(&key(), hello(), AppendOptions::default()).await
}
