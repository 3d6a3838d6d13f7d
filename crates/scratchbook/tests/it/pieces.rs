//! Pieces of a streamed answer: their ids, times and changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use scratchbook::agent::RunConfig;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Error, ErrorKind, Event, LlmAgent, RunRequest};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::runner::{run, runner, stored};

const ANSWER: &str = "Hello from the scripted model.";

/// Returns the answer in pieces of ten characters, followed by the whole answer.
fn responses() -> Vec<LlmResponse> {
    let pieces = ANSWER.as_bytes().chunks(10).map(|piece| LlmResponse::piece(std::str::from_utf8(piece).unwrap()));
    pieces.chain([LlmResponse { partial: Some(false), ..LlmResponse::text(ANSWER) }]).collect()
}

fn streaming() -> RunRequest {
    RunRequest::message("hello").with_config(RunConfig::default().with_streaming())
}

fn deltas(events: &[Event]) -> Vec<Value> {
    events.iter().map(|event| json!(event.actions.state_delta)).collect()
}

#[tokio::test]
async fn pieces_that_are_ready_with_their_whole_carry_its_changes() {
    let model = ScriptedLlm::from_stream(|_| stream::iter(responses().into_iter().map(Ok)));
    let agent = LlmAgent::builder("demo_agent")
        .model(model)
        .output_key("last_reply")
        .after_model(|context, response| async move {
            context.state().set("temp:scratch", 1)?;
            Ok(response)
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, streaming()).await.unwrap();
    assert_eq!(deltas(&events), vec![json!({"last_reply": ANSWER}); 4], "as in ADK, and without `temp:`");
    let said: Vec<_> = events.iter().map(|event| event.content.as_ref().unwrap().text()).collect();
    assert_eq!(said, ["Hello from", " the scrip", "ted model.", ANSWER]);
    let partial: Vec<_> = events.iter().map(|event| event.partial).collect();
    assert_eq!(partial, [Some(true), Some(true), Some(true), Some(false)]);
    assert!(events.iter().all(|event| event.id == events[0].id && event.node_info.path == "demo_agent@1"));
    assert!(events.is_sorted_by_key(|event| event.timestamp));
    let session = stored(&runner).await;
    assert_eq!(session.events().len(), 2, "no piece is stored");
    assert_eq!(json!(session.events().last().unwrap().partial), json!(false));
    assert_eq!(json!(session.state()), json!({"last_reply": ANSWER}));
}

#[tokio::test]
async fn a_piece_is_shown_at_once_and_before_its_whole_it_carries_what_is_known() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let model = ScriptedLlm::from_stream(move |_| {
        let waits = Arc::clone(&waits);
        stream::iter(responses()).enumerate().then(move |(place, response)| {
            let waits = Arc::clone(&waits);
            async move {
                if place == 2 {
                    waits.acquire().await.unwrap().forget();
                }
                Ok(response)
            }
        })
    });
    let runner = runner(LlmAgent::builder("agent").model(model).output_key("said").build().unwrap());
    let mut run = runner.run("user", "s", streaming());
    let mut events = Vec::new();
    for _ in 0..2 {
        let next = tokio::time::timeout(Duration::from_secs(10), run.next());
        events.push(next.await.expect("a piece waits for nothing").unwrap().unwrap());
    }
    gate.add_permits(1);
    while let Some(event) = run.next().await {
        events.push(event.unwrap());
    }
    let whole = json!({"said": ANSWER});
    assert_eq!(deltas(&events), [json!({}), json!({}), whole.clone(), whole]);
}

#[tokio::test]
async fn a_slow_callback_holds_up_no_piece_before_its_own() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::from_stream(|_| stream::iter(responses().into_iter().map(Ok))))
        .output_key("said")
        .after_model(move |context, response| {
            let (waits, place) = (Arc::clone(&waits), count.fetch_add(1, Ordering::SeqCst));
            async move {
                context.state().set("place", place)?;
                if place == 1 {
                    waits.acquire().await.unwrap().forget();
                }
                Ok(response)
            }
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let mut run = runner.run("user", "s", streaming());
    let first = tokio::time::timeout(Duration::from_secs(10), run.next());
    let mut events = vec![first.await.expect("a piece waits for no callback of the next").unwrap().unwrap()];
    gate.add_permits(1);
    while let Some(event) = run.next().await {
        events.push(event.unwrap());
    }
    let whole = json!({"place": 3, "said": ANSWER});
    assert_eq!(deltas(&events), [json!({"place": 0}), whole.clone(), whole.clone(), whole]);
    assert_eq!(seen.load(Ordering::SeqCst), 4, "once for each response, in order");
}

#[tokio::test]
async fn pieces_without_a_whole_are_shown_before_the_failure_is_told() {
    for (end, word) in [(Some("scripted model failure"), "scripted model failure"), (None, "without a whole answer")] {
        let model = ScriptedLlm::from_stream(move |_| {
            let failure = end.map(|message| Err(Error::new(ErrorKind::Unavailable, message)));
            stream::iter([Ok(LlmResponse::piece("Hel")), Ok(LlmResponse::piece("lo"))].into_iter().chain(failure))
        });
        let runner = runner(LlmAgent::builder("agent").model(model).output_key("said").build().unwrap());
        let items: Vec<_> = runner.run("user", "s", streaming()).collect().await;
        assert_eq!(items.len(), 4);
        let events: Vec<_> = items[..3].iter().map(|item| item.as_ref().unwrap().clone()).collect();
        assert_eq!(events[1].content.as_ref().unwrap().text(), "lo");
        assert_eq!(deltas(&events), vec![json!({}); 3]);
        assert!(events[2].error_message.as_deref().unwrap().contains(word));
        assert!(items[3].is_err());
    }
}

#[tokio::test]
async fn more_pieces_than_are_looked_ahead_at_all_arrive_in_order() {
    let words: Vec<_> = (0..1000).map(|n| format!("{n} ")).collect();
    let text = words.concat();
    let runner = runner(LlmAgent::builder("agent").model(ScriptedLlm::new([text])).output_key("said").build().unwrap());
    let events = run(&runner, streaming()).await.unwrap();
    let said: Vec<_> = events[..1000].iter().map(|event| event.content.as_ref().unwrap().text()).collect();
    assert_eq!(said, words);
    assert_eq!((events.len(), events[1000].partial), (1001, Some(false)));
}

#[tokio::test]
async fn an_answer_without_pieces_does_not_say_that_it_is_whole() {
    let runner = runner(LlmAgent::builder("agent").model(ScriptedLlm::new(["Hi."])).build().unwrap());
    assert_eq!(run(&runner, "hello").await.unwrap()[0].partial, None);
}
