//! Resumed streams: no event is missed and none is sent twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream;
use scratchbook::agent::{FunctionAgent, FunctionTool, InvocationContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Event, LlmAgent, connect};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::wire::{Frame, StreamedAnswer};
use super::{Host, RUNS, asked, counter, saying, text};

async fn resume(host: &Host, id: &str, last: Option<&str>) -> StreamedAnswer {
    let headers: Vec<_> = last.map(|last| ("Last-Event-ID", last)).into_iter().collect();
    StreamedAnswer::of(host.address, "GET", &format!("{RUNS}/{id}"), &headers, "").await
}

/// Returns the texts of a stream's whole events, and the outcome that the stream reports.
async fn followed(answer: StreamedAnswer) -> (Vec<String>, Value) {
    assert_eq!(answer.status, 200);
    let frames = answer.frames().await;
    let (first, last) = (frames.first().unwrap(), frames.last().unwrap());
    assert_eq!((first.name.as_str(), last.name.as_str()), ("run", "end"));
    let whole = frames.iter().filter(|frame| frame.name == "event");
    let said = whole.map(|frame| text(&frame.data).to_owned()).collect();
    (said, last.data["outcome"].clone())
}

fn ids(events: &[Arc<Event>]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

#[tokio::test]
async fn a_stream_has_ids_where_it_can_be_taken_up_again() {
    let agent = LlmAgent::builder("demo").model(ScriptedLlm::new(["one two"])).build().unwrap();
    let host = Host::start(agent).await;
    let answer = host.post(RUNS, &json!({"message": "hi", "streaming": true})).await;
    let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let frames = answer.frames().await;
    let names: Vec<_> = frames.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(names, ["run", "piece", "piece", "event", "end"]);
    let with_ids: Vec<_> = frames.iter().filter_map(|frame| frame.id.as_deref()).collect();
    assert_eq!(with_ids, ids(&host.stored().await));
    assert_eq!(frames[0].data, json!({"invocationId": id}));
    assert_eq!(frames[4].data, json!({"invocationId": id, "outcome": "completed"}));
    let mut event = frames[3].data.clone();
    assert_eq!(event.as_object_mut().unwrap().remove("seq"), Some(json!(2)));
    assert_eq!(json!(host.stored().await[0].as_ref()), event);
}

#[tokio::test]
async fn a_run_is_followed_from_any_event_while_it_goes_on_and_after() {
    let lets = Arc::new(Semaphore::new(0));
    let host = Host::start(counter(6, &lets)).await;
    // A run whose client, one of ADK, was disconnected.
    let answer = host.run_sse("count").await;
    let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
    drop(answer);
    let early = resume(&host, &id, None).await;
    lets.add_permits(3);
    host.has_stored(3).await;
    let middle = resume(&host, &id, Some(&host.stored().await[1].id)).await;
    let at_end = resume(&host, &id, Some(&host.stored().await[2].id)).await;
    // The user's message is not among the run's events, but a stream can begin after it.
    let from_user = resume(&host, &id, Some(&host.events().await.get(0).unwrap().id)).await;
    lets.add_permits(3);
    let all = ["0", "1", "2", "3", "4", "5"];
    assert_eq!(followed(early).await, (all.map(str::to_owned).to_vec(), json!("completed")));
    assert_eq!(followed(middle).await.0, all[2..]);
    assert_eq!(followed(at_end).await.0, all[3..]);
    assert_eq!(followed(from_user).await.0, all);

    // The run is over.
    let stored = host.stored().await;
    assert_eq!(followed(resume(&host, &id, None).await).await, (all.map(str::to_owned).to_vec(), json!("completed")));
    assert_eq!(followed(resume(&host, &id, Some(&stored[4].id)).await).await.0, ["5"]);
    assert_eq!(followed(resume(&host, &id, Some(&stored[5].id)).await).await, (vec![], json!("completed")));
    let by_query = host.get(&format!("{RUNS}/{id}?after={}", stored[3].id)).await;
    assert_eq!(followed(by_query).await.0, ["4", "5"]);

    assert_eq!(resume(&host, &id, Some("nope")).await.status, 400);
    assert_eq!(resume(&host, "nope", None).await.status, 404);
    assert_eq!(host.get("/v1/apps/demo/users/u/sessions/nope/runs/x").await.status, 404);
    let other = host.get(&format!("/v1/apps/demo/users/other/sessions/s/runs/{id}")).await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn after_a_restart_what_is_stored_is_there_and_the_end_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}", folder.path().join("runs.db").display());
    let lets = Arc::new(Semaphore::new(2));
    let host = Host::over(connect(&uri).await.unwrap(), counter(5, &lets), |server| server).await;
    let answer = host.post(RUNS, &json!({"message": "count", "invocationId": "e-1"})).await;
    host.has_stored(2).await;
    let store = host.store.clone();
    drop(answer);
    // As if the process were killed: the run is not cancelled, but gone.
    host.serving.abort();

    let host = Host::over(store, counter(5, &lets), |server| server).await;
    let found = followed(resume(&host, "e-1", None).await).await;
    assert_eq!(found, (vec!["0".to_owned(), "1".to_owned()], json!("unknown")));
    assert_eq!(host.get(RUNS).await.json().await, json!({"runs": []}));
}

#[tokio::test]
async fn a_run_that_failed_says_why_at_its_end() {
    let agent = LlmAgent::builder("demo").model(ScriptedLlm::new(["said"])).build().unwrap();
    let host = Host::start(agent).await;
    assert_eq!(host.run_sse("one").await.frames().await.len(), 1);
    let answer = host.post(RUNS, &json!({"message": {"parts": [{"text": "two"}]}})).await;
    let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
    for answer in [answer, resume(&host, &id, None).await] {
        let frames = answer.frames().await;
        assert_eq!(frames[1].data["errorCode"], "FAILED_PRECONDITION");
        assert_eq!((frames[2].data["outcome"].as_str(), frames.len()), (Some("failed"), 3));
        assert_eq!(frames[2].data["error"]["kind"], "failed_precondition");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EmptyArgs {}

#[tokio::test]
async fn an_answer_to_a_call_goes_on_with_its_run_and_both_are_one_stream() {
    let ask = FunctionTool::new("ask", "Asks somebody.", |_: EmptyArgs, _| async { Ok(Value::Null) }).long_running();
    let model = ScriptedLlm::from_fn(|request| {
        let last = request.contents.last().cloned().unwrap_or_default();
        let answered = last.function_responses().next().is_some();
        Ok(if answered { "approved".into() } else { LlmResponse::call("ask", json!({})) })
    });
    let host = Host::start(LlmAgent::builder("demo").model(model).tool(ask).build().unwrap()).await;
    let answer = host.post(RUNS, &json!({"message": "may I?"})).await;
    let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
    answer.frames().await;
    host.run_sse("something else").await.frames().await;
    let stored = host.stored().await;
    let call = stored[0].function_calls().next().unwrap().id.clone().unwrap();

    let response = json!({"functionResponse": {"id": call, "name": "ask", "response": {"ok": true}}});
    let answer = host.post(RUNS, &json!({"message": {"parts": [response]}, "invocationId": "e-ignored"})).await;
    assert_eq!(answer.header("scratchbook-invocation-id"), Some(id.as_str()));
    assert_eq!(followed(answer).await.0, ["approved"]);
    let of_run: Vec<_> = host.stored().await.into_iter().filter(|event| event.invocation_id == id).collect();
    let frames = resume(&host, &id, None).await.frames().await;
    let found: Vec<_> = frames.iter().filter_map(|frame| frame.id.as_deref()).collect();
    assert_eq!(found, ids(&of_run));
    assert_eq!(resume(&host, &id, Some(&of_run[0].id)).await.frames().await.len(), of_run.len() + 1);
}

#[tokio::test]
async fn runs_of_one_invocation_follow_one_another_in_one_stream() {
    let lets = Arc::new(Semaphore::new(2));
    let host = Host::start(counter(2, &lets)).await;
    let mut body = asked("count");
    body["invocationId"] = json!("e-1");
    host.post("/run_sse", &body).await.frames().await;
    host.run_sse("another").await;
    let second = {
        let (address, body) = (host.address, body.to_string());
        tokio::spawn(async move { StreamedAnswer::of(address, "POST", "/run_sse", &[], &body).await.frames().await })
    };
    lets.add_permits(2);
    host.has_stored(4).await;
    while host.get(RUNS).await.json().await["runs"][0]["invocationId"] != "e-1" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let first = host.stored().await[0].id.clone();
    let (whole, rest) = (resume(&host, "e-1", None).await, resume(&host, "e-1", Some(&first)).await);
    lets.add_permits(2);
    assert_eq!(followed(whole).await.0, ["0", "1", "0", "1"]);
    assert_eq!(followed(rest).await.0, ["1", "0", "1"]);
    assert_eq!(second.await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_late_reader_sees_whole_events_and_the_pieces_of_what_is_not_whole() {
    let (lets, agent) = {
        let lets = Arc::new(Semaphore::new(0));
        let of_agent = Arc::clone(&lets);
        let agent = FunctionAgent::new("talker", move |context: InvocationContext| {
            let lets = Arc::clone(&of_agent);
            stream::unfold(0, move |n| {
                let (lets, mut event) = (Arc::clone(&lets), saying(&context, &format!("{n} ")));
                event.partial = (n % 3 < 2).then_some(true);
                async move {
                    lets.acquire().await.ok()?.forget();
                    (n < 6).then_some((Ok(event), n + 1))
                }
            })
        });
        (lets, agent)
    };
    let host = Host::start(agent).await;
    let mut quick = host.post(RUNS, &json!({"message": "talk", "invocationId": "e-1", "streaming": true})).await;
    lets.add_permits(5);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(quick.frame().await.unwrap().name);
    }
    assert_eq!(seen, ["run", "piece", "piece", "event", "piece", "piece"]);
    let late = resume(&host, "e-1", None).await;
    let later = resume(&host, "e-1", Some(&host.stored().await[0].id)).await;
    lets.add_permits(2);
    let names = |frames: Vec<Frame>| frames.into_iter().map(|frame| frame.name).collect::<Vec<_>>();
    assert_eq!(names(late.frames().await), ["run", "event", "piece", "piece", "event", "end"]);
    assert_eq!(names(later.frames().await), ["run", "piece", "piece", "event", "end"]);
}

/// Random numbers that are the same each time.
struct SeededDice(u64);

impl SeededDice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Returns an agent that says one text after another until it is stopped. If the run streams, each text comes in pieces
/// first.
fn talker(stop: &Arc<AtomicBool>) -> FunctionAgent {
    let stop = Arc::clone(stop);
    FunctionAgent::new("talker", move |context: InvocationContext| {
        let (stop, pieces) = (Arc::clone(&stop), if context.run_config().streaming { 7 } else { 0 });
        stream::unfold((0, 0, String::new()), move |(reply, piece, said)| {
            let (stop, context) = (Arc::clone(&stop), context.clone());
            async move {
                tokio::time::sleep(Duration::from_micros(200)).await;
                if piece < pieces {
                    let said_now = format!("{reply}.{piece} ");
                    let mut event = saying(&context, &said_now);
                    (event.partial, event.id) = (Some(true), format!("reply-{reply}"));
                    return Some((Ok(event), (reply, piece + 1, said + &said_now)));
                }
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                let mut event = saying(&context, &if said.is_empty() { format!("{reply}") } else { said });
                event.id = format!("reply-{reply}");
                Some((Ok(event), (reply + 1, 0, String::new())))
            }
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_a_hundred_times_misses_nothing_and_sees_nothing_twice() {
    for (streaming, seed) in [(false, 1), (true, 2), (true, 3)] {
        let stop = Arc::new(AtomicBool::new(false));
        let host = Host::start(talker(&stop)).await;
        let mut dice = SeededDice(seed);
        let mut answer = host.post(RUNS, &json!({"message": "talk", "streaming": streaming})).await;
        let id = answer.header("scratchbook-invocation-id").unwrap().to_owned();
        let (mut seen, mut pieces, mut shared, mut cuts) = (Vec::<String>::new(), HashMap::new(), 0, 0);
        let end = loop {
            let mut until_cut = if cuts < 100 { dice.roll(20) } else { u64::MAX };
            let end = loop {
                if until_cut == 0 {
                    break None;
                }
                until_cut -= 1;
                let frame = answer.frame().await.expect("a stream ends with its run");
                let event_id = frame.data["id"].as_str().unwrap_or_default().to_owned();
                match frame.name.as_str() {
                    "piece" => pieces.entry(event_id).or_insert_with(String::new).push_str(text(&frame.data)),
                    "event" => {
                        // If any pieces came, all of them did.
                        if let Some(said) = pieces.remove(&event_id) {
                            assert_eq!(said, text(&frame.data), "{event_id}");
                            shared += 1;
                        }
                        seen.extend(frame.id);
                    }
                    "end" => break Some(frame.data),
                    _ => {}
                }
            };
            if let Some(end) = end {
                break end;
            }
            cuts += 1;
            if cuts == 100 {
                stop.store(true, Ordering::Relaxed);
            }
            // An incomplete reply is sent again from its first piece.
            pieces.clear();
            answer = resume(&host, &id, seen.last().map(String::as_str)).await;
        };
        assert_eq!(end["outcome"], "completed");
        assert_eq!(cuts, 100);
        assert_eq!(seen, ids(&host.stored().await));
        assert!(seen.len() > 100 || streaming, "{} events", seen.len());
        assert!(shared > 0 || !streaming);
    }
}
