//! The hosted apps, as ADK's clients see them.

use std::sync::Arc;

use scratchbook::agent::{AgentCatalog, FunctionTool, SequentialAgent, ToolContext, load_agents};
use scratchbook::model::ScriptedLlm;
use scratchbook::{Agent, ErrorKind, LlmAgent, connect};
use scratchbook_server::Server;
use serde_json::{Map, Value, json};

use crate::support::TestClient;

fn llm(name: &str) -> scratchbook::agent::LlmAgentBuilder {
    LlmAgent::builder(name).model(ScriptedLlm::new(["Hello."]))
}

async fn client() -> TestClient {
    let tool = FunctionTool::new("note", "Takes a note.", |_: Map<String, Value>, _: ToolContext| async { Ok(()) });
    let tool = tool.with_parameters_json_schema(json!({"type": "object"}));
    let helper = llm("helper").description("Helps.").build().unwrap();
    let root = llm("root").instruction("Be {mood?}.").tool(tool).sub_agent(helper).build().unwrap();
    let steps = SequentialAgent::new("steps", vec![Arc::new(llm("only").build().unwrap()) as Arc<dyn Agent>]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("filed")).unwrap();
    std::fs::write(folder.path().join("filed/root_agent.yaml"), "name: filed_agent\nmodel: scripted\n").unwrap();
    let catalog = AgentCatalog::new().model("scripted", ScriptedLlm::new(["Hello."]));
    let filed = load_agents(folder.path(), &catalog).unwrap();
    TestClient::with(|server| server.app("two", steps.with_description("Steps.")).app("one", root).config_apps(filed))
        .await
}

#[tokio::test]
async fn apps_are_listed_by_name_and_in_detail() {
    let client = client().await;
    assert_eq!(client.get("/list-apps?relative_path=./").await, (200, json!(["filed", "one", "two"])));
    let (status, body) = client.get("/list-apps?detailed=TRUE").await;
    let two = json!({"name": "two", "rootAgentName": "steps", "description": "Steps.", "language": "python",
        "isComputerUse": false, "agents": null});
    assert_eq!((status, &body["apps"][2], &body["apps"][0]["language"]), (200, &two, &json!("yaml")));
    let (status, body) = client.get("/list-apps?detailed=banana").await;
    let loc = json!(["query", "detailed"]);
    assert_eq!((status, &body["detail"][0]["loc"], &body["detail"][0]["input"]), (422, &loc, &json!("banana")));
}

#[tokio::test]
async fn an_app_tells_of_its_llm_agents_and_their_tools() {
    let client = client().await;
    let (status, body) = client.get("/apps/one/app-info").await;
    let tools = json!([{"functionDeclarations": [
        {"name": "note", "description": "Takes a note.", "parametersJsonSchema": {"type": "object"}}
    ]}]);
    let expected = json!({"name": "one", "rootAgentName": "root", "description": "", "language": "python",
    "isComputerUse": false, "agents": {
        "helper": {"name": "helper", "description": "Helps.", "instruction": "", "tools": [], "sub_agents": []},
        "root": {"name": "root", "description": "", "instruction": "Be {mood?}.", "tools": tools,
            "sub_agents": ["helper"]},
    }});
    assert_eq!((status, body), (200, expected));
    assert_eq!(client.get("/apps/two/app-info").await, (400, json!({"detail": "Root agent is not an LlmAgent"})));
    let (status, body) = client.get("/apps/nope/app-info").await;
    assert!(status == 404 && body["detail"].as_str().unwrap().starts_with("Agent not found: 'nope'. "), "{body}");
    let (status, body) = client.get("/apps/__secret/app-info").await;
    assert!(status == 403 && body["detail"].as_str().unwrap().starts_with("Access to internal special"), "{body}");
}

#[tokio::test]
async fn the_version_has_the_keys_of_adks() {
    let (status, body) = client().await.get("/version").await;
    assert_eq!((status, &body["language"]), (200, &json!("rust")));
    assert!(body["version"].is_string() && body["language_version"].as_str().unwrap().starts_with("1."), "{body}");
}

#[tokio::test]
async fn two_apps_of_one_name_are_refused() {
    let store = connect("memory:").await.unwrap();
    let twice = Server::builder(store).app("a", llm("x").build().unwrap()).app("a", llm("y").build().unwrap());
    assert_eq!(twice.build().unwrap_err().kind(), ErrorKind::InvalidArgument);
}
