//! Runs, compared with recordings of google-adk 2.13.0: the same agents, with the same answers of their models, give
//! the same JSON, except for ids, times and the listed differences.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, RunConfig, SequentialAgent, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{LlmRequest, LlmResponse, ScriptedLlm};
use scratchbook::{
    Agent, Content, Error, ErrorKind, InMemorySessionService, LlmAgent, Result, RunRequest, Runner, StateDelta,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::runner::{app, metadata};

fn response(request: &LlmRequest) -> Result<Vec<LlmResponse>> {
    let last = request.contents.last().cloned().unwrap_or_default();
    let (text, answered) = (last.text(), last.function_responses().next().is_some());
    let usage = json!({"candidatesTokenCount": 7, "promptTokenCount": 11, "totalTokenCount": 18});
    let whole = |response| LlmResponse { usage_metadata: Some(usage), ..response };
    if text.contains("boom") {
        return Err(Error::new(ErrorKind::Internal, "scripted model failure"));
    }
    match (answered, text.contains("artifact"), text.contains("add")) {
        (false, true, _) => return Ok(vec![whole(LlmResponse::call("save_note", json!({"note": "hello"})))]),
        (false, _, true) => {
            return Ok(vec![whole(LlmResponse::call("add_to_cart", json!({"item": "widget", "qty": 2})))]);
        }
        _ => {}
    }
    let text = if answered { "Done: cart updated." } else { "Hello from the scripted model." };
    let mut responses = Vec::new();
    if request.stream {
        let pieces = text.as_bytes().chunks(10).map(|piece| LlmResponse::piece(String::from_utf8_lossy(piece)));
        responses.extend(pieces);
    }
    let partial = request.stream.then_some(false);
    responses.push(LlmResponse { partial, ..whole(LlmResponse::text(text)) });
    Ok(responses)
}

fn model() -> ScriptedLlm {
    ScriptedLlm::from_stream(|request| match response(request) {
        Ok(responses) => stream::iter(responses.into_iter().map(Ok).collect::<Vec<_>>()),
        Err(error) => stream::iter(vec![Err(error)]),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    item: String,
    qty: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    note: String,
}

fn demo() -> LlmAgent {
    let add = FunctionTool::new("add_to_cart", "Adds an item.", |args: Add, context: ToolContext| async move {
        let mut cart: Vec<Value> = context.state().get_as("cart")?.unwrap_or_default();
        cart.push(json!({"item": args.item, "qty": args.qty}));
        for (key, value) in
            [("cart", json!(cart)), ("user:theme", json!("dark")), ("app:x", json!(42)), ("temp:y", json!("scratch"))]
        {
            context.state().set(key, value)?;
        }
        Ok(json!({"status": "ok", "items": cart.len()}))
    });
    let save = FunctionTool::new("save_note", "Saves a note.", |args: Note, context: ToolContext| async move {
        let version = context.save_artifact("note.txt", Part::bytes(args.note, "text/plain")).await?;
        Ok(json!({"version": version}))
    });
    let demo = LlmAgent::builder("demo_agent").model(model()).output_key("last_reply").tool(add).tool(save);
    demo.instruction("You are scripted. cart={cart?}").build().unwrap()
}

fn demo_runner() -> Runner {
    runner(demo())
}

fn runner(agent: impl Agent) -> Runner {
    let service: Arc<InMemorySessionService> = app();
    let builder = Runner::builder("app", agent, Arc::clone(&service)).artifacts(service);
    builder.auto_create_session().build().unwrap()
}

/// Replaces ids and times with names, in the order of their occurrence.
struct PlaceholderNames(HashMap<String, String>);

impl PlaceholderNames {
    fn put(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        Value::String(id) if matches!(key.as_str(), "id" | "invocationId") => {
                            let start = ["adk-", "e-"].into_iter().find(|start| id.starts_with(start));
                            let next = format!("{}{}", start.unwrap_or(key), self.0.len());
                            let name = self.0.entry(id.clone()).or_insert(next);
                            id.clone_from(name);
                        }
                        Value::Number(_) if key == "timestamp" => *value = json!("now"),
                        _ => self.put(value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.put(value)),
            _ => {}
        }
    }
}

fn named(events: Vec<Value>) -> Vec<String> {
    let mut names = PlaceholderNames(HashMap::new());
    let named = events.into_iter().map(|mut event| {
        names.put(&mut event);
        event.to_string()
    });
    named.collect()
}

fn recorded(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn answers(runner: &Runner, request: impl Into<RunRequest>) -> Vec<Value> {
    let events: Vec<_> = runner.run("user", "s", request).collect().await;
    events.into_iter().filter_map(|event| Some(json!(event.ok()?))).collect()
}

macro_rules! recorded {
    ($name:literal) => {
        recorded(include_str!(concat!("testdata/runs/", $name, ".jsonl")))
    };
}

fn streaming(text: &str) -> RunRequest {
    RunRequest::message(text).with_config(RunConfig::default().with_streaming())
}

#[tokio::test]
async fn runs_answer_as_recorded() {
    let with_metadata = RunConfig::default().with_custom_metadata(metadata(json!({"m": 1})));
    let delta = StateDelta::new().with("only", 1).unwrap();
    let message: Content = serde_json::from_value(json!({"role": "user", "parts": []})).unwrap();
    for (name, request, expected) in [
        ("text", RunRequest::message("hello"), recorded!("text")),
        ("tool", RunRequest::message("add widget"), recorded!("tool")),
        ("state delta", RunRequest::state_delta(delta), recorded!("state_delta")),
        ("metadata", RunRequest::message("hello").with_config(with_metadata), recorded!("custom_metadata")),
        ("no parts", RunRequest::message(message), recorded!("no_parts")),
        ("artifact", RunRequest::message("artifact please"), recorded!("artifact")),
        ("streaming", streaming("hello"), recorded!("streaming")),
    ] {
        let answers = answers(&demo_runner(), request).await;
        assert_eq!(named(answers), named(expected), "{name}");
    }
    let two = ["a", "b"].map(|name| -> Arc<dyn Agent> {
        Arc::new(LlmAgent::builder(name).model(model()).output_key(format!("{name}_out")).build().unwrap())
    });
    let sequential = runner(SequentialAgent::new("seq", two.into()));
    assert_eq!(named(answers(&sequential, "hi").await), named(recorded!("sequential")));
    let runner = demo_runner();
    answers(&runner, "add one").await;
    assert_eq!(named(answers(&runner, streaming("add one")).await), named(recorded!("tool_streaming")));
}

#[tokio::test]
async fn a_failure_is_told_as_recorded_but_for_its_code_and_words() {
    let mut told = answers(&demo_runner(), "boom").await;
    let mut expected = recorded!("failure");
    let without = |events: &mut [Value]| -> Map<String, Value> {
        let event = events[0].as_object_mut().unwrap();
        ["errorCode", "errorMessage"].into_iter().filter_map(|key| event.shift_remove_entry(key)).collect()
    };
    let (ours, theirs) = (without(&mut told), without(&mut expected));
    assert_eq!(named(told), named(expected));
    assert_eq!(
        json!(ours),
        json!({
            "errorCode": "INTERNAL", "errorMessage": "the model 'scripted': scripted model failure",
        })
    );
    assert_eq!(json!(theirs), json!({"errorCode": "RuntimeError", "errorMessage": "scripted model failure"}));
}
