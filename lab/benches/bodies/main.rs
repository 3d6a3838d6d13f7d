//! Measures the processor time of the largest bodies that the server accepts, for every kind of operation and every
//! route that takes a body, over the store in memory and over SQLite. Nothing can end work on the processor from
//! outside, so no body may take more than two seconds.
//!
//! The kinds of operations come from the enum, and the routes from the server's own document: the bench fails if it has
//! no body for one of them. The better of three attempts counts. Without optimizations the limit is higher, and still
//! far below the time of work that grows with the square of a body.
//!
//! `cargo bench --locked -p scratchbook-benches --bench bodies -- TEXT` measures only the routes whose method and path
//! contain the text, such as `PATCH /v1`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

mod cases;

use std::process::ExitCode;

use axum::body::Body;
use cases::{BodyCase, Stored};
use http::Request;
use http_body_util::BodyExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{CreateSessionConfig, LlmAgent, StateDelta, Store, connect};
use scratchbook_benches::{cpu, runtime};
use scratchbook_server::Server;
use serde_json::{Map, Value};
use tower::ServiceExt;

/// The processor time that a body may take, in seconds.
const LIMIT: f64 = if cfg!(debug_assertions) { 12.0 } else { 2.0 };
const ATTEMPTS: usize = 3;

fn main() -> ExitCode {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    runtime().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite://{}", folder.path().join("bodies.db").display());
        let mut is_met = true;
        let mut number = 0;
        for uri in ["memory:", &file] {
            let bench = Bench::new(connect(uri).await.unwrap());
            for (method, route) in cases::routes(&bench.document().await) {
                if !format!("{method} {route}").contains(&only) {
                    continue;
                }
                // The bodies of one route at a time, since all of them together need gigabytes.
                let cases = cases::of_route(&method, &route);
                assert!(!cases.is_empty(), "there is no body for {method} {route}; add the largest one");
                for case in &cases {
                    let name = format!("{} {}", uri.split(':').next().unwrap_or_default(), case.name);
                    is_met &= bench.measure(&name, number, case).await;
                    number += 1;
                }
            }
            bench.store.sessions.close().await.unwrap();
        }
        if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

struct Bench {
    store: Store,
    router: axum::Router,
}

impl Bench {
    fn new(store: Store) -> Self {
        let model = ScriptedLlm::from_fn(|_| Ok("Noted.".into()));
        let agent = LlmAgent::builder("demo").model(model).build().unwrap();
        let router = Server::builder(store.clone()).app("demo", agent).build().unwrap().router();
        Self { store, router }
    }

    /// Returns the server's own description of its routes.
    async fn document(&self) -> Value {
        let request = Request::get("/openapi.json").body(String::new()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    /// Sends a body up to three times, each time for a new user, and returns whether one attempt met the limit.
    async fn measure(&self, name: &str, n: usize, case: &BodyCase) -> bool {
        let mut best = f64::INFINITY;
        for attempt in 0..ATTEMPTS {
            // The other routes of the app need its agent.
            let app = if case.route.starts_with("/v1/apps/{app}/state") {
                format!("a{n}-{attempt}")
            } else {
                "demo".to_owned()
            };
            let user = format!("u{n}-{attempt}");
            self.fill(&app, &user, &case.stored).await;
            let body = case.body.replace("{app}", &app).replace("{user}", &user);
            let bytes = body.len();
            let request = Request::builder().method(case.method.as_str()).uri(case.path(&app, &user));
            let request = request.header("content-type", case.content_type).body(Body::from(body)).unwrap();
            let before = cpu::own();
            let answer = self.router.clone().oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            let seconds = cpu::own() - before;
            let text = String::from_utf8_lossy(&text);
            if !case.statuses.contains(&status) {
                println!("FAILED {name}: {status} {}", text.chars().take(300).collect::<String>());
                return false;
            }
            best = best.min(seconds);
            if best <= LIMIT {
                println!("{seconds:6.2} s  {:6} KiB  {status}  {name}", bytes >> 10);
                return true;
            }
        }
        println!("{best:6.2} s, MISSED {LIMIT} s  {name}");
        false
    }

    /// Stores a session and, for the user and the app, the values that a case finds.
    async fn fill(&self, app: &str, user: &str, stored: &Stored) {
        let sessions = &self.store.sessions;
        let config = CreateSessionConfig::default().with_session_id(user).with_state(Value::Object(stored.clone()));
        sessions.create_session(app, user, config).await.unwrap();
        if stored.is_empty() {
            return;
        }
        for owner in [StateOwner::user(app, user).unwrap(), StateOwner::app(app).unwrap()] {
            if app != "demo" || owner.user_id().is_some() {
                let delta = StateDelta::try_from(Map::clone(stored)).unwrap();
                sessions.put_state(&owner, delta, PutStateOptions::by("bench")).await.unwrap();
            }
        }
    }
}
