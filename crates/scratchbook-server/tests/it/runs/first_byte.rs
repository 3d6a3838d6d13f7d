//! How soon a run is heard of.

use std::time::{Duration, Instant};

use scratchbook::{AppendOptions, CreateSessionConfig, Event, LlmAgent, ScriptedLlm, connect};

use super::wire::{Answer, connect as to};
use super::{Host, asked};

/// How often each thing is measured.
const TIMES: usize = 300;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The time from the request to the first frame of its answer, each run on a session of its own.
async fn first_byte(host: &Host, what: &str, streaming: bool) -> Duration {
    let mut times = Vec::new();
    for n in 0..TIMES {
        let id = format!("{what}-{n}");
        let config = CreateSessionConfig::default().with_session_id(&id);
        host.store.sessions.create_session("demo", "u", config).await.unwrap();
        let mut body = asked("hello");
        (body["sessionId"], body["streaming"]) = (id.into(), streaming.into());
        let (socket, body) = (to(host.address).await, body.to_string());
        let begun = Instant::now();
        let mut answer = Answer::on(socket, "POST", "/run_sse", &[], &body).await;
        answer.frame().await.unwrap();
        times.push(begun.elapsed());
        answer.frames().await;
    }
    median(times)
}

/// Before a piece the user's message is committed; before a whole reply, so is the reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for a machine with nothing else to do"]
async fn the_first_byte_comes_two_milliseconds_after_the_flushes_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}", folder.path().join("runs.db").display());
    let model = ScriptedLlm::from_fn(|_| Ok("Hello from the scripted model.".into()));
    let agent = LlmAgent::builder("demo").model(model).output_key("last_reply").build().unwrap();
    let host = Host::over(connect(&uri).await.unwrap(), agent, |server| server).await;
    let key = scratchbook::SessionKey::new("demo", "u", "s").unwrap();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        host.store.sessions.append(&key, Event::new("user"), AppendOptions::default()).await.unwrap();
        times.push(begun.elapsed());
    }
    let flush = median(times);
    let piece = first_byte(&host, "piece", true).await;
    let whole = first_byte(&host, "whole", false).await;
    println!("one flush {flush:?}, first piece after {piece:?}, first whole reply after {whole:?}");
    let over = Duration::from_millis(2);
    assert!(piece < flush + over, "a piece");
    assert!(whole < 2 * flush + over, "a whole reply");
}
