//! The cases that are counted. All cases run in one process, one after the other.

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;

use futures_util::TryStreamExt;
use http::Request;
use scratchbook::environment::SystemEnvironment;
use scratchbook::model::ScriptedLlm;
use scratchbook::plan::prepare_event;
use scratchbook::session::GetSessionConfig;
use scratchbook::state::fold;
use scratchbook::store::{Limits, Synchronous};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, InMemorySessionService, LlmAgent, Runner, SessionService,
    SessionServiceExt, Store,
};
use scratchbook_benches::{event, session, sqlite};
use scratchbook_server::Server;
use serde_json::{Map, json};
use tower::ServiceExt;

/// The name of the function that is called between counted and uncounted calls.
pub(crate) const BOUNDARY: &str = "part_of_the_count_ends";

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// How many calls are counted.
    pub(crate) calls: usize,
    /// By how many percent a call may cost more than the accepted count.
    pub(crate) room: f64,
}

const CORE: f64 = 3.0;
const ELSEWHERE: f64 = 8.0;

/// The cases, in the order in which [`run`] runs them.
pub(crate) const CASES: [Case; 11] = [
    Case { name: "core: read an event", calls: 100, room: CORE },
    Case { name: "core: prepare an event", calls: 100, room: CORE },
    Case { name: "core: fold 10 deltas", calls: 100, room: CORE },
    Case { name: "memory: create", calls: 100, room: CORE },
    Case { name: "memory: append", calls: 100, room: CORE },
    Case { name: "memory: append to a snapshot of 2,000 events", calls: 100, room: CORE },
    Case { name: "memory: get 100 events", calls: 100, room: CORE },
    Case { name: "SQLite: append", calls: 100, room: ELSEWHERE },
    Case { name: "server: get 100 events", calls: 10, room: ELSEWHERE },
    Case { name: "server: append by PATCH", calls: 10, room: ELSEWHERE },
    Case { name: "agent: a turn", calls: 10, room: ELSEWHERE },
];

#[inline(never)]
fn part_of_the_count_ends() {
    black_box(());
}

pub(crate) fn run() {
    let mut cases = CASES.iter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        core(&mut cases).await;
        memory(&mut cases).await;
        on_sqlite(&mut cases).await;
        server(&mut cases).await;
        agent(&mut cases).await;
    });
    assert!(cases.next().is_none());
}

/// Runs the next case, after a few calls that are not counted.
async fn counted<F: Future>(cases: &mut impl Iterator<Item = &'static Case>, mut call: impl FnMut(usize) -> F) {
    let case = cases.next().unwrap();
    let warm = case.calls / 2;
    for n in 0..warm {
        black_box(call(n).await);
    }
    part_of_the_count_ends();
    for n in warm..warm + case.calls {
        black_box(call(n).await);
    }
    part_of_the_count_ends();
}

/// Returns an event as a client sends it, with an id and a time.
fn sent(n: usize) -> Event {
    event(n).with_id(format!("event-{n:08}")).with_timestamp(1_700_000_000.0 + n as f64)
}

async fn core(cases: &mut impl Iterator<Item = &'static Case>) {
    let text = serde_json::to_string(&sent(0)).unwrap();
    counted(cases, async |_| Event::from_json(&text).unwrap()).await;
    let limits = Limits::default();
    counted(cases, async |n| prepare_event(event(n), &SystemEnvironment, &limits).unwrap()).await;
    let deltas: Vec<_> = (0..10).map(|n| event(n).actions.state_delta).collect();
    counted(cases, async |_| fold(Map::new(), &deltas)).await;
}

async fn memory(cases: &mut impl Iterator<Item = &'static Case>) {
    let service = InMemorySessionService::new();
    let config = || CreateSessionConfig::default().with_state(json!({"a": 1, "user:b": "text"}));
    counted(cases, async |_| service.create_session("app", "user", config()).await.unwrap()).await;
    let key = session(&service, "appended", 0, 10).await;
    counted(cases, async |n| service.append(&key, event(n), AppendOptions::default()).await.unwrap()).await;
    let key = session(&service, "long", 2000, 10).await;
    let read = service.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    let snapshot = tokio::sync::Mutex::new(read);
    let append = async |n| service.append_event(&mut *snapshot.lock().await, event(n)).await.unwrap();
    counted(cases, append).await;
    let (key, config) = (session(&service, "read", 100, 10).await, GetSessionConfig::default());
    counted(cases, async |_| service.get_session(&key, &config).await.unwrap()).await;
}

async fn on_sqlite(cases: &mut impl Iterator<Item = &'static Case>) {
    let folder = tempfile::tempdir().unwrap();
    let service = sqlite(&folder.path().join("bench.db"), Synchronous::Full).await;
    let key = session(&*service, "appended", 0, 10).await;
    counted(cases, async |n| service.append(&key, sent(n), AppendOptions::default()).await.unwrap()).await;
    service.close().await.unwrap();
}

async fn server(cases: &mut impl Iterator<Item = &'static Case>) {
    let service = Arc::new(InMemorySessionService::new());
    let key = session(&*service, "served", 100, 10).await;
    let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(["Noted."])).build().unwrap();
    let router = Server::builder(Store::new(service)).app("app", agent).build().unwrap().router();
    let path = format!("/apps/app/users/user/sessions/{}", key.session_id());
    let call = async |method: &str, body: String| {
        let request = Request::builder().method(method).uri(&path).header("content-type", "application/json");
        let answer = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes()
    };
    counted(cases, async |_| call("GET", String::new()).await).await;
    counted(cases, async |n| call("PATCH", json!({"stateDelta": {"step": n}}).to_string()).await).await;
}

async fn agent(cases: &mut impl Iterator<Item = &'static Case>) {
    let agent =
        LlmAgent::builder("agent").model(ScriptedLlm::new(vec!["Noted."; 100])).instruction("Be brief, {name?}.");
    let runner = Runner::builder("app", agent.build().unwrap(), InMemorySessionService::new()).build().unwrap();
    let key = session(&**runner.session_service(), "talk", 10, 10).await;
    let turn = async |_| {
        let events = runner.run(key.user_id(), key.session_id(), "Please note this.");
        events.try_collect::<Vec<_>>().await.unwrap()
    };
    counted(cases, turn).await;
}
