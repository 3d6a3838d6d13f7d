//! Plays a scenario with our agents.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::agent::RunConfig;
use scratchbook::content::{FunctionResponse, Part};
use scratchbook::{
    Content, CreateSessionConfig, Event, GetSessionConfig, InMemorySessionService, RunRequest, Runner, SessionKey,
    SessionService, Store,
};
use serde_json::{Map, Value};

use super::agents::build;

pub(super) async fn play(scenario: &Value, url: &str, streamed: bool) {
    let sessions = Arc::new(InMemorySessionService::new());
    let store = Store::new(Arc::clone(&sessions));
    let runner = Runner::builder("app", build(&scenario["agent"], url), Arc::clone(&sessions));
    let runner = runner.artifacts(Arc::clone(&store.artifacts)).build().unwrap();
    let mut config = CreateSessionConfig::default().with_session_id("s");
    if let Some(state) = scenario.get("state") {
        config = config.with_state(state.clone());
    }
    let session = sessions.create_session("app", "u", config).await.unwrap();
    for (name, part) in scenario["artifacts"].as_object().into_iter().flatten() {
        let artifact = serde_json::from_value(part.clone()).unwrap();
        store.artifacts.save_artifact(session.key(), name, artifact, Map::new()).await.unwrap();
    }
    let mut runs: Vec<String> = Vec::new();
    for turn in scenario["turns"].as_array().unwrap() {
        if let Some(place) = turn["rewind_before"].as_u64() {
            store.rewind(session.key(), &runs[usize::try_from(place).unwrap()]).await.unwrap();
            continue;
        }
        let message = match turn["answer"].as_str() {
            Some(tool) => answer(&events(&sessions, session.key()).await, tool, &turn["response"]),
            None => said(&turn["say"]),
        };
        let config = if streamed { RunConfig::default().with_streaming() } else { RunConfig::default() };
        let request = RunRequest::message(message).with_config(config);
        let outcome: Result<Vec<Event>, _> = runner.run("u", "s", request).try_collect().await;
        let fails = turn["fails"] == true;
        assert_eq!(outcome.is_err(), fails, "{}: {turn}: {:?}", scenario["name"], outcome.err());
        let stored = events(&sessions, session.key()).await;
        let last = stored.iter().rev().find(|event| event.author == "user").unwrap();
        runs.push(last.invocation_id.clone());
    }
}

async fn events(sessions: &InMemorySessionService, key: &SessionKey) -> Vec<Arc<Event>> {
    let session = sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap();
    session.events().iter().cloned().collect()
}

fn said(said: &Value) -> Content {
    match said.as_str() {
        Some(text) => Content::user(text),
        None => serde_json::from_value(said.clone()).unwrap(),
    }
}

/// Returns the user's answer to the last call of a tool.
fn answer(events: &[Arc<Event>], tool: &str, response: &Value) -> Content {
    let calls = events.iter().flat_map(|event| event.function_calls());
    let call = calls.filter(|call| call.name.as_deref() == Some(tool)).last().unwrap();
    let response = FunctionResponse {
        id: call.id.clone(),
        name: call.name.clone(),
        response: response.as_object().cloned(),
        ..FunctionResponse::default()
    };
    Content::new("user", vec![Part { function_response: Some(response.into()), ..Part::default() }])
}
