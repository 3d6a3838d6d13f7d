//! Exchanges recorded with `adk api_server` of google-adk 2.13.0, replayed in their order against one fresh server.
//!
//! An answer has to equal the recorded one, except for ids, times, and the differences that `differences.rs` lists.

mod agents;
mod alike;
mod differences;

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use scratchbook::{Store, connect};
use scratchbook_server::{Server, ServerBuilder};
use serde_json::{Value, json};
use tower::ServiceExt;

use alike::Alike;
use differences::DIFFERENCES;

/// The headers that matter to clients.
const HEADERS: [&str; 9] = [
    "vary",
    "allow",
    "content-type",
    "location",
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-allow-credentials",
    "access-control-max-age",
];

/// A recorded request and its answer.
struct Exchange {
    number: u16,
    name: String,
    asked: Value,
    answer: Value,
}

fn exchanges() -> Vec<Exchange> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/replay/exchanges");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut exchanges: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let (number, response) = (name[..3].parse().unwrap(), &recorded["response"]);
            let headers = HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), response["headers"].get(*name)?)));
            let headers: serde_json::Map<_, _> = headers.map(|(name, value)| (name, value.clone())).collect();
            let body = body_of(response["headers"]["content-type"].as_str(), response["raw"].as_str().unwrap());
            let answer = json!({"status": response["status"], "headers": headers, "body": body});
            Exchange { number, name, asked: recorded["request"].clone(), answer }
        })
        .collect();
    exchanges.sort_by_key(|exchange| exchange.number);
    exchanges
}

/// Returns a body in a form that can be compared: JSON, the frames of a stream, or text.
fn body_of(content_type: Option<&str>, raw: &str) -> Value {
    match content_type {
        Some("application/json") => serde_json::from_str(raw).unwrap_or_else(|_| json!(raw)),
        Some(kind) if kind.starts_with("text/event-stream") => {
            let frames = raw.strip_suffix("\n\n").unwrap().split("\n\n").map(|frame| {
                let data = frame.strip_prefix("data: ").unwrap();
                let value: Value = serde_json::from_str(data).unwrap();
                // Spaces are part of the format: only the last frame of a failure has them.
                json!({"compact": value.to_string().len() == data.len(), "data": value})
            });
            frames.collect()
        }
        _ => json!(raw),
    }
}

/// Returns a server that hosts the apps that were hosted when the exchanges were recorded.
pub(crate) fn server(store: Store) -> Router {
    hosting(store).build().unwrap().router()
}

fn hosting(store: Store) -> ServerBuilder {
    Server::builder(store).app("demo", agents::demo()).app("second", agents::second())
}

/// The two servers of the recording, named by their ports, over one store. One of them lets a page of another origin
/// call.
struct Servers {
    of_port_8801: Router,
    of_port_8802: Router,
}

impl Servers {
    fn new(store: &Store) -> Self {
        let open = hosting(store.clone()).host("127.0.0.1").allow_origins(["http://ui.example:4200"]);
        let of_port_8801 = open.build().unwrap().router();
        let of_port_8802 = hosting(store.clone()).host("127.0.0.1").build().unwrap().router();
        Self { of_port_8801, of_port_8802 }
    }

    fn of(&self, exchange: &Exchange) -> &Router {
        // The names of exchanges with the second server contain `_web_`.
        if exchange.name.contains("_web_") { &self.of_port_8802 } else { &self.of_port_8801 }
    }
}

async fn answer(server: &Router, asked: &Value, alike: &Alike) -> Value {
    let mut request = Request::builder().method(asked["method"].as_str().unwrap());
    for (name, value) in asked["headers"].as_object().unwrap() {
        request = request.header(name, value.as_str().unwrap());
    }
    let body = match &asked["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let path = alike.ours(asked["path"].as_str().unwrap());
    let request = request.uri(path).body(Body::from(alike.ours(&body))).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let header = |headers: &HeaderMap, name: &str| Some(headers.get(name)?.to_str().unwrap().to_owned());
    let body = body_of(header(&headers, "content-type").as_deref(), std::str::from_utf8(&body).unwrap());
    let headers = HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), json!(header(&headers, name)?))));
    json!({"status": status, "headers": headers.collect::<serde_json::Map<_, _>>(), "body": body})
}

async fn replay(store: Store) {
    let servers = Servers::new(&store);
    let mut alike = Alike::default();
    let mut unlike = Vec::new();
    for exchange in exchanges() {
        let ours = answer(servers.of(&exchange), &exchange.asked, &alike).await;
        let Exchange { number, name, answer: recorded, .. } = exchange;
        let mut expected = recorded;
        for difference in DIFFERENCES.iter().filter(|difference| difference.exchange == number) {
            let before = expected.clone();
            difference.change.apply(&mut expected);
            assert_ne!(before, expected, "{name}: '{}' is no difference any more", difference.why);
        }
        if let Err(what) = alike.compare(&expected, &ours) {
            unlike.push(format!("{name}: {what}\n  expected {expected}\n  answered {ours}"));
        }
    }
    assert!(unlike.is_empty(), "{} answers are others:\n{}", unlike.len(), unlike.join("\n"));
}

#[tokio::test]
async fn every_recorded_exchange_is_answered_alike_in_memory() {
    replay(connect("memory:").await.unwrap()).await;
}

#[tokio::test]
async fn every_recorded_exchange_is_answered_alike_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    replay(connect(&format!("sqlite://{}", folder.path().join("replay.db").display())).await.unwrap()).await;
}

#[test]
fn each_difference_is_of_a_recorded_exchange() {
    let recorded: BTreeSet<_> = exchanges().iter().map(|exchange| exchange.number).collect();
    assert_eq!(recorded.len(), 149);
    for number in DIFFERENCES.iter().map(|difference| difference.exchange) {
        assert!(recorded.contains(&number), "no exchange {number} was recorded");
    }
}
