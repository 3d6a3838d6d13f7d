//! Runs leave room for other sessions and for other callers.

use std::sync::Arc;
use std::time::Duration;

use scratchbook::{CreateSessionConfig, connect};
use scratchbook_server::ServerLimits;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::wire::StreamedAnswer;
use super::{Host, RUNS, asked, counter};

/// Returns an agent that says nothing until the semaphore has a permit.
fn silent() -> (scratchbook::agent::FunctionAgent, Arc<Semaphore>) {
    let lets = Arc::new(Semaphore::new(0));
    (counter(1, &lets), lets)
}

async fn session(host: &Host, user: &str, id: &str) {
    let config = CreateSessionConfig::default().with_session_id(id);
    host.store.sessions.create_session("demo", user, config).await.unwrap();
}

fn runs(user: &str, session: &str) -> String {
    format!("/v1/apps/demo/users/{user}/sessions/{session}/runs")
}

/// Returns the message with which a run is refused.
async fn refused(answer: StreamedAnswer) -> String {
    assert_eq!(answer.status, 429);
    let body: Value = answer.json().await;
    assert_eq!(body["error"]["kind"], "resource_exhausted");
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_thousand_runs_on_one_session_leave_everybody_elses_sessions_free() {
    let (agent, lets) = silent();
    let host = Host::start(agent).await;
    session(&host, "u", "mine").await;
    session(&host, "v", "theirs").await;
    let message = json!({"message": "x"});
    let mut taken = Vec::new();
    for _ in 0..9 {
        let answer = host.post(RUNS, &message).await;
        assert_eq!(answer.status, 200);
        taken.push(answer);
    }
    for _ in 0..991 {
        let said = refused(host.post(RUNS, &message).await).await;
        assert!(said.starts_with("8 runs wait for this session, as many as may at a time"), "{said}");
    }
    let mut others = Vec::new();
    for (user, session) in [("u", "mine"), ("v", "theirs")] {
        let answer = host.post(&runs(user, session), &message).await;
        assert_eq!(answer.status, 200, "{user}");
        others.push(answer);
    }
    assert_eq!(host.get(RUNS).await.json().await["runs"].as_array().unwrap().len(), 9);
    lets.add_permits(11);
    for answer in taken.into_iter().chain(others) {
        assert_eq!(answer.frames().await.last().unwrap().data["outcome"], "completed");
    }
    assert_eq!(host.post(RUNS, &message).await.status, 200);
}

#[tokio::test]
async fn a_caller_leaves_as_many_places_as_it_takes() {
    let (agent, lets) = silent();
    let host = Host::over(connect("memory:").await.unwrap(), agent, |server| server.max_runs(4)).await;
    let message = json!({"message": "x"});
    let mut taken = Vec::new();
    for (user, expected) in [("u", 2), ("v", 1), ("w", 1)] {
        for n in 0..4 {
            let id = format!("{user}-{n}");
            session(&host, user, &id).await;
            let answer = host.post(&runs(user, &id), &message).await;
            if n < expected {
                assert_eq!(answer.status, 200, "{id}");
                taken.push(answer);
                continue;
            }
            let said = refused(answer).await;
            let (all, share) = ("4 runs are under way, as many as there may be", "you have as many runs under way");
            assert!(said.starts_with(if user == "w" { all } else { share }), "{id}: {said}");
        }
    }
    // The run is refused on ADK's route too.
    let mut body = asked("x");
    body["userId"] = "u".into();
    assert_eq!(host.post("/run_sse", &body).await.status, 429);
    lets.add_permits(4);
    for answer in taken {
        answer.frames().await;
    }
    assert_eq!(host.post(&runs("u", "u-3"), &message).await.status, 200);
}

#[tokio::test]
async fn a_run_that_waits_takes_no_place_and_hands_on_the_one_it_gets() {
    let (agent, lets) = silent();
    let host = Host::over(connect("memory:").await.unwrap(), agent, |server| server.max_runs(2)).await;
    session(&host, "v", "theirs").await;
    session(&host, "w", "late").await;
    let first = host.post(RUNS, &json!({"message": "1"})).await;
    let second = host.post(RUNS, &json!({"message": "2", "invocationId": "e-2"})).await;
    let third = host.post(RUNS, &json!({"message": "3"})).await;
    let theirs = host.post(&runs("v", "theirs"), &json!({"message": "x"})).await;
    assert_eq!((first.status, second.status, third.status, theirs.status), (200, 200, 200, 200));
    assert_eq!(host.post(&runs("w", "late"), &json!({"message": "x"})).await.status, 429);

    let cancelled = StreamedAnswer::of(host.address, "DELETE", &format!("{RUNS}/e-2"), &[], "").await;
    assert_eq!(cancelled.json().await["outcome"], "cancelled");
    assert_eq!(second.frames().await.last().unwrap().data["outcome"], "cancelled");
    assert_eq!(host.get(RUNS).await.json().await["runs"].as_array().unwrap().len(), 2);
    lets.add_permits(3);
    for answer in [first, third, theirs] {
        assert_eq!(answer.frames().await.last().unwrap().data["outcome"], "completed");
    }
    let late = host.post(&runs("w", "late"), &json!({"message": "x"})).await;
    assert_eq!(late.status, 200);
}

#[tokio::test]
async fn requests_that_wait_for_a_run_of_their_own_id_are_few_too() {
    let (agent, lets) = silent();
    let one = |server: scratchbook_server::ServerBuilder| server.max_waiting_runs_per_session(1);
    let host = Host::over(connect("memory:").await.unwrap(), agent, one).await;
    let again = json!({"message": "x", "invocationId": "e-1"});
    let first = host.post(RUNS, &again).await;
    let waiting = host.post(RUNS, &again);
    let refusing = async {
        // One of the two requests waits; the one that comes second is refused.
        let said = refused(host.post(RUNS, &again).await).await;
        assert!(said.starts_with("1 runs wait for this session"), "{said}");
    };
    let run = async {
        tokio::select! {
            answer = waiting => refused(answer).await,
            () = refusing => String::new(),
        }
    };
    run.await;
    lets.add_permits(1);
    assert_eq!(first.frames().await.last().unwrap().data["outcome"], "completed");
}

#[tokio::test]
async fn a_request_that_waits_for_a_run_of_its_own_id_leaves_its_room_to_other_bodies() {
    let (agent, lets) = silent();
    // There is room for one such body at a time.
    let limits = ServerLimits::default().with_body_memory(8 << 20).with_body_wait(Duration::from_millis(100));
    let host = Host::over(connect("memory:").await.unwrap(), agent, |server| server.limits(limits)).await;
    session(&host, "u", "other").await;
    let large = |id: &str| json!({"message": "x".repeat(1 << 20), "invocationId": id});
    let first = host.post(RUNS, &large("e-1")).await;
    assert_eq!(first.status, 200);
    let others = async {
        sleep(Duration::from_millis(500)).await;
        let mut others = Vec::new();
        for n in 0..3 {
            others.push(host.post(&runs("u", "other"), &large(&format!("o-{n}"))).await);
            assert_eq!(others[n].status, 200, "the request that waits holds the room");
        }
        lets.add_permits(9);
        others
    };
    let again = large("e-1");
    let (again, others) = tokio::join!(host.post(RUNS, &again), others);
    for answer in others.into_iter().chain([first, again]) {
        assert_eq!(answer.frames().await.last().unwrap().data["outcome"], "completed");
    }
}
