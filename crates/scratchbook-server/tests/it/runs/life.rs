//! How many runs may go on, how they end, and what remains of them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::{StreamExt, stream};
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::{Result, connect};
use scratchbook_server::Server;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::wire::StreamedAnswer;
use super::{Host, RUNS, asked, counter, text};

#[tokio::test]
async fn more_runs_than_there_may_be_are_refused() {
    let lets = Arc::new(Semaphore::new(0));
    let store = connect("memory:").await.unwrap();
    let host = Host::over(store, counter(1, &lets), |server| server.max_runs(1)).await;
    let config = scratchbook::CreateSessionConfig::default().with_session_id("other");
    host.store.sessions.create_session("demo", "u", config).await.unwrap();
    let first = host.run_sse("one").await;
    let second = host.run_sse("two").await;
    let mut other = asked("three");
    other["sessionId"] = "other".into();
    let refused = host.post("/run_sse", &other).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json().await["detail"], "1 runs are under way, as many as there may be; try again later");
    let refused = host.post(&RUNS.replace("/s/", "/other/"), &json!({"message": "three"})).await;
    assert_eq!((refused.status, refused.json().await["error"]["kind"].as_str()), (429, Some("resource_exhausted")));

    // The second run waits for the first and takes no place, since both are of one session.
    lets.add_permits(3);
    assert_eq!((first.frames().await.len(), second.frames().await.len()), (1, 1));
    assert_eq!(host.run_sse("three").await.frames().await.len(), 1);
    let authors: Vec<_> = host.events().await.iter().map(|event| event.author.clone()).collect();
    assert_eq!(authors, ["user", "counter", "user", "counter", "user", "counter"]);
}

#[tokio::test]
async fn a_run_is_listed_and_cancelled_and_what_is_committed_stays() {
    let lets = Arc::new(Semaphore::new(2));
    let host = Host::start(counter(5, &lets)).await;
    let mut answer = host.post(RUNS, &json!({"message": "count", "invocationId": "e-1"})).await;
    assert_eq!(answer.header("scratchbook-invocation-id"), Some("e-1"));
    assert_eq!(answer.frame().await.unwrap().data, json!({"invocationId": "e-1"}));
    host.has_stored(2).await;
    let listed = host.get(RUNS).await.json().await;
    assert_eq!(listed["runs"][0]["invocationId"], "e-1");
    assert!(listed["runs"][0]["startTime"].as_f64().unwrap() > 1.7e9);

    let path = format!("{RUNS}/e-1");
    for _ in 0..2 {
        let cancelled = StreamedAnswer::of(host.address, "DELETE", &path, &[], "").await;
        assert_eq!(cancelled.json().await, json!({"invocationId": "e-1", "outcome": "cancelled"}));
    }
    let frames = answer.frames().await;
    assert_eq!(frames.last().unwrap().data["outcome"], "cancelled");
    assert_eq!(host.stored().await.len(), 2);
    assert_eq!(host.get(RUNS).await.json().await, json!({"runs": []}));
    let frames = host.get(&path).await.frames().await;
    assert_eq!((frames.len(), frames[3].data["outcome"].as_str()), (4, Some("cancelled")));

    let missing = StreamedAnswer::of(host.address, "DELETE", &format!("{RUNS}/nope"), &[], "").await;
    assert_eq!(missing.status, 404);
    // The session is free again.
    lets.add_permits(5);
    assert_eq!(host.run_sse("again").await.frames().await.len(), 5);
}

#[tokio::test]
async fn clients_of_adk_are_told_that_their_run_was_cancelled() {
    let lets = Arc::new(Semaphore::new(0));
    let host = Host::start(counter(1, &lets)).await;
    let mut body = asked("count");
    body["invocationId"] = "e-1".into();
    let streamed = host.post("/run_sse", &body).await;
    let path = format!("{RUNS}/e-1");
    StreamedAnswer::of(host.address, "DELETE", &path, &[], "").await.body().await;
    let frames = streamed.frames().await;
    assert_eq!(frames[0].data["error"], "CANCELLED: the run was cancelled");
    assert_eq!(frames[0].data["error_details"]["error_type"], "CANCELLED");
}

#[tokio::test]
async fn an_agent_that_panics_is_an_error_and_the_server_goes_on() {
    let host = Host::start(FunctionAgent::new("shaky", |context: InvocationContext| {
        let said = context.user_content().map(scratchbook::Content::text).unwrap_or_default();
        stream::once(
            async move { if said == "boom" { panic!("as asked") } else { Ok(super::saying(&context, "fine")) } },
        )
    }))
    .await;
    let frames = host.run_sse("boom").await.frames().await;
    assert_eq!(frames[0].data["errorCode"], "INTERNAL");
    assert_eq!(frames[1].data["error_details"]["error_type"], "INTERNAL");
    assert_eq!(host.post("/run", &asked("boom")).await.status, 500);
    let frames = host.run_sse("hello").await.frames().await;
    assert_eq!((frames.len(), text(&frames[0].data)), (1, "fine"));
}

#[tokio::test]
async fn a_server_that_ends_waits_for_its_runs_and_takes_no_more() -> Result<()> {
    let lets = Arc::new(Semaphore::new(1));
    let host = Host::start(counter(3, &lets)).await;
    let mut gone = host.run_sse("count").await;
    gone.frame().await.unwrap();
    drop(gone);
    let store = host.store.clone();
    let end = tokio::spawn(host.stop());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!end.is_finished());
    lets.add_permits(2);
    end.await.unwrap();
    let key = scratchbook::SessionKey::new("demo", "u", "s")?;
    let session = store.sessions.get_session(&key, &Default::default()).await?.unwrap();
    assert_eq!(session.events().len(), 4);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_ours_that_has_nothing_to_say_says_that_it_is_there() {
    let store = connect("memory:").await.unwrap();
    let config = scratchbook::CreateSessionConfig::default().with_session_id("s");
    store.sessions.create_session("demo", "u", config).await.unwrap();
    let agent = counter(1, &Arc::new(Semaphore::new(0)));
    // Streams end with their server, so the server is kept.
    let server = Server::builder(store).app("demo", agent).build().unwrap();
    let request = Request::post(RUNS).header("content-type", "application/json");
    let request = request.body(Body::from(json!({"message": "x"}).to_string())).unwrap();
    let mut frames = server.router().oneshot(request).await.unwrap().into_body().into_data_stream();
    let begun = tokio::time::Instant::now();
    assert!(frames.next().await.unwrap().unwrap().starts_with(b"event: run\n"));
    for n in 1..=3 {
        assert_eq!(frames.next().await.unwrap().unwrap(), ":\n\n");
        assert_eq!(begun.elapsed().as_secs(), n * 15);
    }
}

#[tokio::test]
async fn what_a_run_cannot_be_asked_is_refused_before_it_begins() {
    let host = Host::start(counter(1, &Arc::new(Semaphore::new(9)))).await;
    let bodies: [(Value, &str); 8] = [
        (json!({"message": 1}), "the message is a text or a Content with parts; send one of them"),
        (json!({"message": {"bogus": 1}}), "the message: unknown field \"bogus\" in 'content'"),
        (json!({"massage": "x"}), "massage: JSON of another shape: unknown field"),
        (json!({"message": "x", "newMessage": "y"}), "JSON of another shape: duplicate field"),
        (json!({"message": "x", "stateDelta": {"k".repeat(2000): 1}}), "stateDelta: JSON of another shape"),
        (json!(["x"]), "the body is no JSON object"),
        (json!({"message": "x", "invocationId": "i".repeat(513)}), "the invocation id 'iii"),
        (json!({"message": "x", "invocationId": "i\n"}), "the invocation id \"i\\n\" contains"),
    ];
    for (body, message) in bodies {
        let refused = host.post(RUNS, &body).await;
        assert_eq!(refused.status, 400, "{body}");
        let error = refused.json().await;
        assert!(error["error"]["message"].as_str().unwrap().starts_with(message), "{error}");
    }
    let refused = host.post("/v1/apps/nope/users/u/sessions/s/runs", &json!({"message": "x"})).await;
    assert_eq!(refused.status, 404);
    let refused = host.post("/v1/apps/demo/users/u/sessions/nope/runs", &json!({"message": "x"})).await;
    assert_eq!(refused.status, 404);
    assert!(host.events().await.is_empty());
}

#[tokio::test]
async fn a_run_of_a_session_that_is_not_there_is_not_there_either() {
    let host = Host::start(counter(1, &Arc::new(Semaphore::new(9)))).await;
    for path in ["nope/runs/e-1", "nope/runs/e-1?after=x"] {
        let missing = host.get(&format!("/v1/apps/demo/users/u/sessions/{path}")).await;
        assert_eq!(missing.status, 404, "{path}");
    }
    assert_eq!(host.get(&format!("{RUNS}/e-1?after=x")).await.status, 400);
}
