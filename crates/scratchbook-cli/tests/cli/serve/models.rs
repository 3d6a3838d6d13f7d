//! Agents from files with remote models.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Served;
use crate::Fixture;
use crate::models::{KEY, RecordedModel, gemini_error, gemini_text, gemini_whole, serve};

/// Sends a message to `/run_sse`, and returns the events with the times at which they arrived.
fn run_sse(served: &Served, message: &str) -> Vec<(Instant, Value)> {
    let content = json!({"role": "user", "parts": [{"text": message}]});
    let run =
        json!({"appName": "helper", "userId": "ann", "sessionId": "s1", "newMessage": content, "streaming": true});
    let (address, body) = (served.address(), run.to_string());
    let mut stream = TcpStream::connect(&address).unwrap();
    let head =
        format!("POST /run_sse HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json");
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let events =
        lines.filter_map(|line| Some((Instant::now(), serde_json::from_str(line.strip_prefix("data: ")?).unwrap())));
    events.collect()
}

#[test]
fn what_gemini_streams_is_streamed_on() {
    let fixture = Fixture::empty();
    let pause = Duration::from_millis(300);
    let model = RecordedModel::start([gemini_text(&["Good ", "morning"]).slowly(pause), gemini_whole("Again.")]);
    let served = serve(&fixture, &model, &[]);
    let events = run_sse(&served, "Hello");
    let text = |(_, event): &(Instant, Value)| event["content"]["parts"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["Good ", "morning", "Good morning"]);
    assert_eq!(events.iter().map(|(_, event)| event["partial"] == true).collect::<Vec<_>>(), [true, true, false]);
    assert!(events[1].0 - events[0].0 >= pause / 2, "each piece comes as it is made");
    let asked = &model.requests()[0];
    assert_eq!(asked.path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(asked.header("x-goog-api-key"), Some(KEY));

    let whole = served.talk("helper", "ann", "s1", "And again?");
    assert_eq!(whole[0]["content"]["parts"][0]["text"], "Again.", "{whole}");
}

#[test]
fn what_a_provider_says_is_in_no_log() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([
        gemini_text(&["Confidential."]),
        gemini_error(400, "INVALID_ARGUMENT", "private matters"),
    ]);
    let served = serve(&fixture, &model, &["--log-level", "trace"]);
    run_sse(&served, "Something personal");
    let failed = run_sse(&served, "Something else");
    assert!(failed.iter().any(|(_, event)| event.to_string().contains("private matters")), "{failed:?}");
    let logs = served.logs();
    assert!(logs.contains("model call"), "at this level much is logged: {logs}");
    for word in ["Confidential", "Something personal", KEY] {
        assert!(!logs.contains(word), "{word} in {logs}");
    }
}

#[test]
fn a_model_named_for_all_answers_for_all() {
    let fixture = Fixture::empty();
    let model = RecordedModel::start([gemini_text(&["As another."])]);
    let served = serve(&fixture, &model, &["--model", "gemini::another"]);
    run_sse(&served, "Hello");
    assert!(model.requests()[0].path.contains("/models/another:"), "{:?}", model.requests());

    let served = Served::new(&fixture, &["--agents", fixture.path("agents").to_str().unwrap(), "--model", "echo"]);
    assert_eq!(served.talk("helper", "ann", "s2", "Hi")[0]["content"]["parts"][0]["text"], "You said: Hi");
    let refused = fixture.fails(6, &["serve", "--port", "0", "--model", "gemini-2.5-flash"]);
    assert!(refused.contains("GOOGLE_API_KEY"), "{refused}");
}
