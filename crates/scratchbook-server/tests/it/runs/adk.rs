//! `/run` and `/run_sse`, compared with what was recorded from google-adk 2.13.0.

use std::sync::Arc;

use futures_util::stream;
use scratchbook::agent::{FunctionAgent, FunctionTool, InvocationContext, SequentialAgent, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook::{Agent, Content, Error, ErrorKind, LlmAgent};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::wire::StreamedAnswer;
use super::{Host, asked, counter};

/// A model that says the same as the model with which ADK's answers were recorded.
#[derive(Debug)]
struct RecordedLlm;

impl scratchbook::model::Llm for RecordedLlm {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let last = request.contents.last().cloned().unwrap_or_default();
        let (said, answered) = (last.text(), last.function_responses().next().is_some());
        if said.contains("boom") {
            let error = Error::new(ErrorKind::FailedPrecondition, "scripted model failure: é");
            return Box::pin(stream::iter([Err(error)]));
        }
        let usage = json!({"candidatesTokenCount": 7, "promptTokenCount": 11, "totalTokenCount": 18});
        let mut whole = match said.as_str() {
            "artifact" => LlmResponse::call("save_note", json!({"note": "hello"})),
            _ if answered => LlmResponse::text("Done: cart updated."),
            _ => LlmResponse::text("Hello from the scripted model."),
        };
        whole.usage_metadata = Some(usage);
        let mut responses = Vec::new();
        let text = whole.content.as_ref().map(Content::text).unwrap_or_default();
        if request.stream && !text.is_empty() {
            whole.partial = Some(false);
            for piece in text.as_bytes().chunks(10) {
                let mut response = LlmResponse::text(String::from_utf8_lossy(piece));
                (response.partial, response.finish_reason) = (Some(true), None);
                responses.push(Ok(response));
            }
        }
        responses.push(Ok(whole));
        Box::pin(stream::iter(responses))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoteArgs {
    note: String,
}

fn demo() -> LlmAgent {
    let save = |args: NoteArgs, context: ToolContext| async move {
        let version = context.save_artifact("note.txt", Part::bytes(args.note, "text/plain")).await?;
        context.state().set("temp:raw", "scratch")?;
        Ok(json!({"version": version}))
    };
    let agent = LlmAgent::builder("demo_agent").model(RecordedLlm).output_key("last_reply");
    agent.tool(FunctionTool::new("save_note", "Saves a note.", save)).build().unwrap()
}

/// Checks the ids and times in an event's text, and returns the text with all of them replaced.
fn normal(event: &str) -> String {
    let mut value: Value = serde_json::from_str(event).unwrap();
    assert_eq!(value.to_string(), event, "compact, and in this order");
    assert!(value["invocationId"].as_str().unwrap().starts_with("e-"));
    assert!(value["timestamp"].as_f64().unwrap() > 1.7e9 && !value["id"].as_str().unwrap().is_empty());
    (value["invocationId"], value["id"], value["timestamp"]) = (json!("I"), json!("E"), json!(1.5));
    if let Some(part) = value.pointer_mut("/content/parts/0/functionCall") {
        assert!(part["id"].as_str().unwrap().starts_with("adk-"));
        part["id"] = json!("C");
    }
    if let Some(part) = value.pointer_mut("/content/parts/0/functionResponse") {
        part["id"] = json!("C");
    }
    value.to_string()
}

fn data(chunk: &str) -> &str {
    chunk.strip_prefix("data: ").and_then(|chunk| chunk.strip_suffix("\n\n")).unwrap()
}

const ACTIONS: &str = r#"{"stateDelta":{"last_reply":"Hello from the scripted model."},"artifactDelta":{},"requestedAuthConfigs":{},"requestedToolConfirmations":{}}"#;
const NO_ACTIONS: &str =
    r#"{"stateDelta":{},"artifactDelta":{},"requestedAuthConfigs":{},"requestedToolConfirmations":{}}"#;
const REST: &str = r#""nodeInfo":{"path":"demo_agent@1"},"id":"E","timestamp":1.5}"#;
const USAGE: &str = r#""finishReason":"STOP","usageMetadata":{"candidatesTokenCount":7,"promptTokenCount":11,"totalTokenCount":18},"invocationId":"I","author":"demo_agent""#;

#[tokio::test]
async fn a_run_answers_with_its_whole_events() {
    let host = Host::start(demo()).await;
    for streaming in [json!(false), json!(true)] {
        let mut body = asked("hello");
        body["streaming"] = streaming;
        let answer = host.post("/run", &body).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let events = answer.body().await;
        let event = events.strip_prefix('[').and_then(|events| events.strip_suffix(']')).unwrap();
        let whole = format!(
            r#"{{"content":{{"parts":[{{"text":"Hello from the scripted model."}}],"role":"model"}},{USAGE},"actions":{ACTIONS},{REST}"#
        );
        assert_eq!(normal(event), whole);
    }
}

#[tokio::test]
async fn pieces_come_before_their_whole_and_share_its_id() {
    let host = Host::start(demo()).await;
    let mut body = asked("hello");
    body["streaming"] = json!(true);
    let chunks = host.post("/run_sse", &body).await.chunks().await;
    let events: Vec<Value> = chunks.iter().map(|chunk| serde_json::from_str(data(chunk)).unwrap()).collect();
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    let mut expected = Vec::new();
    for piece in ["Hello from", " the scrip", "ted model."] {
        expected.push(format!(
            r#"{{"content":{{"parts":[{{"text":"{piece}"}}],"role":"model"}},"partial":true,"invocationId":"I","author":"demo_agent","actions":{ACTIONS},{REST}"#
        ));
    }
    expected.push(format!(
        r#"{{"content":{{"parts":[{{"text":"Hello from the scripted model."}}],"role":"model"}},"partial":false,{USAGE},"actions":{ACTIONS},{REST}"#
    ));
    let sent: Vec<_> = chunks.iter().map(|chunk| normal(data(chunk))).collect();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn an_artifact_goes_out_in_a_frame_of_its_own_unless_a_call_is_answered() {
    let host = Host::start(demo()).await;
    let chunks = host.run_sse("artifact").await.chunks().await;
    let sent: Vec<_> = chunks.iter().map(|chunk| normal(data(chunk))).collect();
    assert_eq!(sent.len(), 4);
    assert!(sent[0].contains(r#""functionCall":{"id":"C","args":{"note":"hello"},"name":"save_note"}"#));
    assert!(sent[0].contains(r#""longRunningToolIds":[]"#));
    let response = r#""content":{"parts":[{"functionResponse":{"id":"C","name":"save_note","response":{"version":0}}}],"role":"user"},"#;
    let author = r#""invocationId":"I","author":"demo_agent""#;
    assert_eq!(sent[1], format!(r#"{{{response}{author},"actions":{NO_ACTIONS},{REST}"#));
    let saved = NO_ACTIONS.replace(r#""artifactDelta":{}"#, r#""artifactDelta":{"note.txt":0}"#);
    assert_eq!(sent[2], format!(r#"{{{author},"actions":{saved},{REST}"#));
    let ids: Vec<Value> =
        chunks.iter().map(|chunk| serde_json::from_str::<Value>(data(chunk)).unwrap()["id"].clone()).collect();
    assert!(ids[1] == ids[2] && ids[2] != ids[3]);

    let mut body = asked("artifact");
    body["functionCallEventId"] = json!("x");
    let chunks = host.post("/run_sse", &body).await.chunks().await;
    assert_eq!(chunks.len(), 3);
    assert!(chunks[1].contains("functionResponse") && chunks[1].contains(r#""artifactDelta":{"note.txt":1}"#));
    assert!(host.stored().await.iter().all(|event| !json!(event.as_ref()).to_string().contains("temp:")));
}

#[tokio::test]
async fn a_model_that_fails_is_told_of_by_an_event_and_a_last_frame() {
    let host = Host::start(demo()).await;
    let answer = host.run_sse("boom").await;
    assert_eq!(answer.status, 200);
    let chunks = answer.chunks().await;
    assert_eq!(chunks.len(), 2);
    assert_eq!(
        normal(data(&chunks[0])),
        format!(
            r#"{{"errorCode":"FAILED_PRECONDITION","errorMessage":"the model 'scripted': scripted model failure: é","invocationId":"I","author":"demo_agent","actions":{NO_ACTIONS},{REST}"#
        )
    );
    // The frame is written as Python writes JSON.
    let begin = r#"data: {"error": "FAILED_PRECONDITION: the model 'scripted': scripted model failure: \u00e9", "error_details": {"error_type": "FAILED_PRECONDITION", "error_message": "the model 'scripted': scripted model failure: \u00e9", "timestamp": "#;
    let time = chunks[1].strip_prefix(begin).and_then(|rest| rest.strip_suffix("}}\n\n")).unwrap();
    assert!(time.parse::<f64>().unwrap() > 1.7e9);

    let answer = host.post("/run", &asked("boom")).await;
    assert_eq!((answer.status, answer.header("content-type")), (500, Some("text/plain; charset=utf-8")));
    assert_eq!(answer.body().await, "Internal Server Error");
    assert_eq!(host.stored().await.len(), 2);
}

#[tokio::test]
async fn what_cannot_run_is_refused_in_adks_words_before_any_stream() {
    let host = Host::start(demo()).await;
    let with = |name: &str, value: Value| {
        let mut body = asked("hello");
        body[name] = value;
        body
    };
    let app = "app_name is required when ADK_DEFAULT_APP_NAME is not set";
    let reserved = "Access to internal special agents is disabled in API server mode and on a development server not \
                    known to be bound to a loopback address.";
    let cases = [
        (with("sessionId", json!("nope")), 404, "Session not found: nope"),
        (with("sessionId", json!("")), 404, "Session not found: "),
        (with("sessionId", json!("a\nb")), 404, "Session not found: a\nb"),
        (with("userId", json!("")), 404, "Session not found: s"),
        (with("userId", json!("other")), 404, "Session not found: s"),
        (with("appName", json!("nope")), 404, "Agent not found: 'nope'. "),
        (with("appName", json!(null)), 400, app),
        (with("appName", json!("")), 400, app),
        (with("appName", json!("__x")), 403, reserved),
    ];
    for path in ["/run", "/run_sse"] {
        for (body, status, detail) in &cases {
            let answer = host.post(path, body).await;
            assert_eq!((answer.status, answer.header("content-type")), (*status, Some("application/json")), "{body}");
            let found = answer.json().await;
            let found = found["detail"].as_str().unwrap();
            assert!(found == *detail || (detail.ends_with(' ') && found.starts_with(detail)), "{found}");
        }
        // An invalid body is reported before a missing app.
        let answer = host.post(path, &json!({"appName": "nope"})).await;
        assert_eq!((answer.status, answer.json().await["detail"][0]["loc"][1].as_str()), (422, Some("userId")));
        let answer = host.get(path).await;
        assert_eq!((answer.status, answer.json().await), (405, json!({"detail": "Method Not Allowed"})));
    }
    assert_eq!(host.get("/run_live").await.status, 404);
    assert!(host.events().await.is_empty());
}

#[tokio::test]
async fn a_call_that_is_not_there_is_the_callers_error() {
    let host = Host::start(demo()).await;
    let answer = json!({"functionResponse": {"id": "nope", "name": "x", "response": {}}});
    let body = json!({"appName": "demo", "userId": "u", "sessionId": "s", "newMessage": {"parts": [answer]}});
    let refused = host.post("/run", &body).await;
    assert_eq!(refused.status, 400);
    assert!(refused.json().await["detail"].as_str().unwrap().contains("'nope'"));
    let frames = host.post("/run_sse", &body).await.frames().await;
    assert_eq!((frames.len(), &frames[0].data["error_details"]["error_type"]), (1, &json!("INVALID_ARGUMENT")));
}

#[tokio::test]
async fn what_is_asked_of_a_run_is_what_it_does() {
    let host = Host::start(demo()).await;
    let body = json!({
        "app_name": "demo", "user_id": "u", "session_id": " s ", "new_message": {"parts": [{"text": "hi"}]},
        "state_delta": {"sd": 1, "user:sd": 2, "app:sd": 3, "temp:sd": 4, "null": null},
        "invocation_id": "e-mine", "custom_metadata": {"m": 1}, "service_tier": "flex", "unknown": 1,
    });
    let answer = host.post("/run", &body).await;
    assert_eq!(answer.header("scratchbook-invocation-id"), Some("e-mine"));
    let events = answer.json().await;
    assert_eq!((&events[0]["invocationId"], &events[0]["customMetadata"]), (&json!("e-mine"), &json!({"m": 1})));
    let user = json!(host.events().await.get(0).unwrap().as_ref());
    assert_eq!(user["content"], json!({"parts": [{"text": "hi"}], "role": "user"}));
    assert_eq!(user["actions"]["stateDelta"], json!({"sd": 1, "user:sd": 2, "app:sd": 3, "null": null}));

    let mut body = asked("hi");
    (body["newMessage"], body["stateDelta"]) = (json!(null), json!({"only": 1}));
    assert_eq!(host.post("/run", &body).await.json().await.as_array().unwrap().len(), 1);
    (body["newMessage"], body["stateDelta"]) = (json!(null), json!(null));
    assert_eq!(host.post("/run", &body).await.status, 200);
    let authors: Vec<_> = host.events().await.iter().map(|event| event.author.clone()).collect();
    assert_eq!(authors, ["user", "demo_agent", "user", "demo_agent", "demo_agent"]);
}

#[tokio::test]
async fn agents_may_write_keys_of_the_app() {
    let agent = FunctionAgent::new("writer", |context: InvocationContext| {
        let delta = scratchbook::StateDelta::new().with("app:x", 42);
        stream::iter([delta.map(|delta| context.event().with_state_delta(delta))])
    });
    let host = Host::start(agent).await;
    let frames = host.run_sse("write").await.frames().await;
    assert_eq!(frames[0].data["actions"]["stateDelta"], json!({"app:x": 42}));
}

#[tokio::test]
async fn runs_of_a_session_take_turns() {
    let lets = Arc::new(Semaphore::new(0));
    let host = Host::start(counter(2, &lets)).await;
    let mut answers = Vec::new();
    for n in 0..6 {
        let text = n.to_string();
        answers.push(host.run_sse(&text).await);
    }
    lets.add_permits(12);
    for answer in answers {
        assert_eq!(answer.frames().await.len(), 2);
    }
    let authors: Vec<_> = host.events().await.iter().map(|event| event.author.clone()).collect();
    assert_eq!(authors, ["user", "counter", "counter"].repeat(6));
}

#[tokio::test]
async fn the_events_of_a_sequence_have_adks_places() {
    let agent = |name: &str| -> Arc<dyn Agent> {
        Arc::new(LlmAgent::builder(name).model(RecordedLlm).output_key(format!("{name}_out")).build().unwrap())
    };
    let host = Host::start(SequentialAgent::new("second", vec![agent("a"), agent("b")])).await;
    let answer = StreamedAnswer::of(host.address, "POST", "/run", &[], &asked("hi").to_string()).await;
    let events = answer.json().await;
    let shown: Vec<_> = (0..2).map(|n| (events[n]["author"].clone(), events[n]["nodeInfo"].clone())).collect();
    assert_eq!(shown, [(json!("a"), json!({"path": ""})), (json!("b"), json!({"path": ""}))]);
}
