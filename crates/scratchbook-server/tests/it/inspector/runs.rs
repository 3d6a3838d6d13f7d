//! Runs as timelines, their spans for ADK's interface, and the overview.

use std::sync::Arc;

use scratchbook::agent::FunctionTool;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::prelude::*;
use scratchbook_server::{Login, NewToken, Right, Server};
use serde_json::{Map, Value, json};

use super::{shop, text};
use crate::support::TestClient;

/// Returns an agent that calls a tool, and then answers.
fn clerk() -> LlmAgent {
    let mut said = LlmResponse::text("In stock.");
    said.usage_metadata = Some(json!({"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}));
    let model = ScriptedLlm::new([LlmResponse::call("look_up", json!({"item": "pen"})), said]);
    let tool = FunctionTool::new("look_up", "Looks an item up.", |_: Map<String, Value>, _: ToolContext| async {
        Ok(json!({"stock": 3}))
    });
    LlmAgent::builder("clerk").description("Sells.").instruction("Be kind.").model(model).tool(tool).build().unwrap()
}

/// Returns a server with a run of the clerk in shop/alice/s1, and the id of the run.
async fn with_run(dev_ui: std::path::PathBuf) -> (TestClient, String) {
    let client = TestClient::with(|server| server.app("shop", clerk()).dev_ui(dev_ui)).await;
    client.session("shop", "alice", "s1").await;
    let run = json!({"appName": "shop", "userId": "alice", "sessionId": "s1",
        "newMessage": {"role": "user", "parts": [{"text": "A pen?"}]}});
    let answer = client.send("POST", "/run", Some(&run)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (client, answer.json()[0]["invocationId"].as_str().unwrap().to_owned())
}

fn interface() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "<!doctype html>").unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

#[tokio::test]
async fn a_run_is_shown_with_its_agents_model_calls_and_tools() {
    let (_folder, files) = interface();
    let (client, run) = with_run(files).await;
    let session = "/inspector/apps/shop/users/alice/sessions/s1";
    let page = text(&client, session).await;
    assert!(page.contains(&format!("/runs?run={run}&amp;at=1")), "{page}");
    let page = text(&client, &format!("{session}/runs?run={run}&at=1")).await;
    for shown in ["is-agent", "is-model", "is-tool", ">clerk<", ">look_up<", "11 tokens in", "7 tokens out", "?at=4"] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains("not in this server's memory") && !page.contains(" style="), "{page}");
    let none = text(&client, &format!("{session}/runs?run=no-such-run&at=1")).await;
    assert!(none.contains("Nothing is known of this run"), "{none}");
}

#[tokio::test]
async fn a_run_whose_spans_are_gone_is_told_by_its_events() {
    let client = shop().await;
    let session = "/inspector/apps/shop/users/alice/sessions/s1";
    let page = text(&client, &format!("{session}/runs?run=run-1&at=1")).await;
    assert!(page.contains("not in this server's memory") && page.contains(">clerk<"), "{page}");
    assert!(page.contains("2.0 s"), "the times are those between events: {page}");
}

#[tokio::test]
async fn spans_have_the_json_of_google_adk() {
    let (_folder, files) = interface();
    let (client, run) = with_run(files).await;
    let (status, spans) = client.get("/dev/apps/shop/debug/trace/session/s1").await;
    assert_eq!(status, 200);
    let names: Vec<_> = spans.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    let model = names.iter().find(|name| name.starts_with("generate_content")).unwrap().to_string();
    assert_eq!(names, ["invoke_agent clerk", &model, "execute_tool look_up", &model]);
    let (agent, call, tool) = (&spans[0], &spans[1], &spans[2]);
    assert_eq!(agent["parent_span_id"], Value::Null);
    assert_eq!((&call["parent_span_id"], &tool["parent_span_id"]), (&agent["span_id"], &agent["span_id"]));
    assert!(call["start_time"].as_u64().unwrap() <= call["end_time"].as_u64().unwrap());
    assert_eq!(call["trace_id"], tool["trace_id"]);
    let attributes = &call["attributes"];
    assert_eq!(attributes["gen_ai.conversation.id"], "s1");
    assert_eq!(attributes["gcp.vertex.agent.invocation_id"], json!(run));
    assert_eq!(tool["attributes"]["gen_ai.tool.name"], "look_up");
    let details = &call["logs"][0];
    assert_eq!(details["event_name"], "gen_ai.client.inference.operation.details");
    let input = &details["attributes"]["gen_ai.input.messages"][0];
    assert_eq!(*input, json!({"role": "user", "parts": [{"content": "A pen?", "type": "text"}]}));
    let output = &details["attributes"]["gen_ai.output.messages"][0]["parts"][0];
    assert_eq!((&output["type"], &output["arguments"]), (&json!("tool_call"), &json!({"item": "pen"})));
    assert_eq!(tool["logs"], json!([]));
    let event = attributes["gcp.vertex.agent.event_id"].as_str().unwrap();
    let (status, trace) = client.get(&format!("/dev/apps/shop/debug/trace/{event}")).await;
    assert_eq!((status, &trace["span_id"]), (200, &call["span_id"]));
    assert_eq!(trace["gen_ai.operation.name"], "generate_content");
    let older = client.get("/debug/trace/session/s1").await;
    assert_eq!(older.1.as_array().unwrap().len(), 4);
    assert_eq!(client.get("/dev/apps/other/debug/trace/session/s1").await, (200, json!([])));
}

#[tokio::test]
async fn nobody_sees_the_spans_or_the_figures_of_others() {
    let (folder, files) = interface();
    let (alice, bob, admin) = (
        NewToken::new("alice").with_rights([Right::Read, Right::Write]).with_app("shop").with_user("alice"),
        NewToken::new("bob").with_rights([Right::Read, Right::Write]).with_app("shop").with_user("bob"),
        NewToken::new("admin").with_rights([Right::Read, Right::Write, Right::Admin, Right::App]),
    );
    let made: Vec<_> = [alice, bob, admin].into_iter().map(|token| token.make().unwrap()).collect();
    let tokens = folder.path().join("tokens.toml");
    std::fs::write(&tokens, made.iter().map(|token| token.entry()).collect::<Vec<_>>().join("\n")).unwrap();
    let store = scratchbook::connect("memory:").await.unwrap();
    let config = CreateSessionConfig::default().with_session_id("s1");
    store.sessions.create_session("shop", "alice", config).await.unwrap();
    let server = Server::builder(store).app("shop", clerk()).dev_ui(files).host("127.0.0.1");
    let router = server.login(Login::new().with_tokens(&tokens)).build().unwrap().router();
    let call = |secret: String, path: &'static str, body: Option<Value>| {
        let router = router.clone();
        async move {
            let request = axum::http::Request::builder()
                .method(if body.is_some() { "POST" } else { "GET" })
                .uri(path)
                .header("host", "127.0.0.1")
                .header("content-type", "application/json")
                .header("accept", "text/html, application/json")
                .header("authorization", format!("Bearer {secret}"));
            let body = body.map_or_else(axum::body::Body::empty, |body| body.to_string().into());
            crate::support::answer(&router, request.body(body).unwrap()).await
        }
    };
    let secret = |place: usize| made[place].secret().to_owned();
    let run = json!({"appName": "shop", "userId": "alice", "sessionId": "s1",
        "newMessage": {"role": "user", "parts": [{"text": "A pen?"}]}});
    assert_eq!(call(secret(0), "/run", Some(run)).await.status, 200);
    let path = "/dev/apps/shop/debug/trace/session/s1";
    assert_eq!(call(secret(0), path, None).await.json().as_array().unwrap().len(), 4);
    assert_eq!(call(secret(2), path, None).await.json().as_array().unwrap().len(), 4);
    assert_eq!(call(secret(1), path, None).await.json(), json!([]));
    let overview = "/inspector/overview";
    let all = call(secret(2), overview, None).await;
    assert!(all.text().contains("/inspector/apps/shop"), "{}", all.text());
    for held_to_a_user in [0, 1] {
        let page = call(secret(held_to_a_user), overview, None).await;
        assert_eq!(page.status, 200);
        assert!(!page.text().contains("/inspector/apps/shop\""), "{}", page.text());
    }
}

#[tokio::test]
async fn the_overview_has_what_was_written_refused_and_slow() {
    let client = shop().await;
    let key = SessionKey::new("shop", "alice", "s1").unwrap();
    let sessions = Arc::clone(&client.store.sessions);
    // Writes through the APIs are counted, but writes of a program beside the server are not.
    let change = json!({"author": "clerk", "stateDelta": {"step": 9}});
    let path = "/v1/apps/shop/users/alice/sessions/s1/state";
    let answer = client.send("PATCH", path, Some(&change)).await;
    assert!(answer.status < 300, "{}", answer.text());
    assert!(sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().is_some());
    let page = text(&client, "/inspector/overview").await;
    for shown in
        ["Appends per second", "1 in all", "Conflicts", "Errors", "<polyline", "append", "/inspector/apps/shop"]
    {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains(" style="), "{page}");
    let other = text(&client, "/inspector/overview?app=nope").await;
    assert!(other.contains("0 in all"), "{other}");
}
