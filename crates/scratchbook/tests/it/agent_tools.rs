//! Agents as tools: their sessions, and their results.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::agent::{RunConfig, TraceConfig, TraceSink, TraceSpan};
use scratchbook::layer::WithSecretKeys;
use scratchbook::model::ScriptedLlm;
use scratchbook::prelude::*;
use scratchbook::session::SecretKeys;
use serde_json::{Map, Value, json};

use crate::runner::ToolArgs;

fn caller(model: ScriptedLlm, tool: AgentTool) -> LlmAgent {
    LlmAgent::builder("caller").model(model).tool(tool).build().unwrap()
}

/// Calls `helper` once, then is done.
fn calls_once() -> ScriptedLlm {
    ScriptedLlm::new([LlmResponse::call("helper", json!({"request": "go"})), "done".into()])
}

async fn run(agent: impl Agent, sessions: impl SessionService, request: impl Into<RunRequest>) -> Vec<Event> {
    let runner = Runner::builder("app", agent, sessions).auto_create_session().build().unwrap();
    runner.run("u", "s", request).try_collect().await.unwrap()
}

fn response(event: &Event) -> Value {
    json!(event.function_responses().next().unwrap().response)
}

fn acting(act: impl Fn(&ToolContext) -> Result<()> + Send + Sync + 'static) -> FunctionTool {
    FunctionTool::new("act", "Acts.", move |_: ToolArgs, context: ToolContext| {
        let acted = act(&context);
        async move { acted }
    })
}

fn helper(tool: FunctionTool, then: impl Into<LlmResponse>) -> LlmAgent {
    let model = ScriptedLlm::new([LlmResponse::call("act", json!({})), then.into()]);
    LlmAgent::builder("helper").model(model).tool(tool).build().unwrap()
}

#[tokio::test]
async fn an_agent_tool_sees_the_state_without_adks_own_and_temp_keys() {
    let tool = acting(|context| {
        let state = context.state();
        state.set("seen", json!([state.get("a"), state.get("user:b"), state.get("_adk_x"), state.get("temp:t")]))
    });
    let agent = caller(calls_once(), AgentTool::new(helper(tool, "ok")).unwrap());
    let delta = StateDelta::new().with("a", 1).unwrap().with("user:b", 2).unwrap();
    let delta = delta.with("_adk_x", 3).unwrap().with("temp:t", 4).unwrap();
    let request = RunRequest::message("go").with_state_delta(delta);
    let events = run(agent, InMemorySessionService::new(), request).await;
    assert_eq!(json!(events[1].actions.state_delta), json!({"seen": [1, 2, null, null]}));
    assert_eq!(response(&events[1]), json!({"result": "ok"}));
}

#[tokio::test]
async fn an_agent_tools_increments_are_carried_out_where_the_tools_event_is_committed() {
    let sessions = Arc::new(InMemorySessionService::new());
    let app = StateOwner::app("app").unwrap();
    let other = Arc::clone(&sessions);
    let wait = FunctionTool::new("act", "Acts.", move |_: ToolArgs, context: ToolContext| {
        let (other, app) = (Arc::clone(&other), app.clone());
        async move {
            context.state().increment("app:count", 1)?;
            // Another writer counts while the agent runs.
            other.put_state(&app, StateDelta::new().with_increment("count", 10)?, "other".into()).await?;
            Ok(())
        }
    });
    let agent = caller(calls_once(), AgentTool::new(helper(wait, "ok")).unwrap());
    let events = run(agent, Arc::clone(&sessions), "go").await;
    assert_eq!(json!(events[1].actions.state_delta), json!({"app:count": 11}));
    let stored = sessions.get_state(&StateOwner::app("app").unwrap()).await.unwrap();
    assert_eq!(stored["count"], json!(11));
}

#[tokio::test]
async fn nothing_of_an_agent_tool_that_fails_remains() {
    let tool = acting(|context| context.state().set("written", true));
    let model = ScriptedLlm::new([LlmResponse::call("act", json!({}))]);
    let failing = LlmAgent::builder("helper").model(model).tool(tool).build().unwrap();
    let events = run(caller(calls_once(), AgentTool::new(failing).unwrap()), InMemorySessionService::new(), "go").await;
    assert!(response(&events[1])["error"].is_string(), "{:?}", response(&events[1]));
    assert!(events.iter().all(|event| event.actions.state_delta.is_empty()));
    assert_eq!(events[2].content.as_ref().unwrap().text(), "done");
}

#[tokio::test]
async fn temp_keys_of_an_agent_tool_leave_no_trace() {
    let tool = acting(|context| context.state().set("temp:secret", 1));
    let model = ScriptedLlm::new([LlmResponse::call("helper", json!({"request": "go"})), "done".into()]);
    let agent = LlmAgent::builder("caller")
        .model(model)
        .tool(AgentTool::new(helper(tool, "ok")).unwrap())
        .after_agent(|context| async move {
            context.state().set("seen", context.state().contains("temp:secret"))?;
            Ok(None)
        })
        .build()
        .unwrap();
    let events = run(agent, InMemorySessionService::new(), "go").await;
    assert!(!json!(events).to_string().contains("temp:"));
    assert_eq!(json!(events.last().unwrap().actions.state_delta), json!({"seen": false}));
}

#[tokio::test]
async fn of_agent_tools_called_at_once_the_later_call_wins_a_key() {
    let writer = |name: &str, value: u64, wait: u64| {
        let tool = FunctionTool::new("act", "Acts.", move |_: ToolArgs, context: ToolContext| async move {
            tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            context.state().set("k", value)
        });
        let model = ScriptedLlm::new([LlmResponse::call("act", json!({})), "ok".into()]);
        AgentTool::new(LlmAgent::builder(name).model(model).tool(tool).build().unwrap()).unwrap()
    };
    let calls = LlmResponse::calls([("slow", json!({"request": "go"})), ("quick", json!({"request": "go"}))]);
    let agent = LlmAgent::builder("caller")
        .model(ScriptedLlm::new([calls, "done".into()]))
        .tool(writer("slow", 1, 40))
        .tool(writer("quick", 2, 0))
        .build()
        .unwrap();
    let events = run(agent, InMemorySessionService::new(), "go").await;
    assert_eq!(json!(events[1].actions.state_delta), json!({"k": 2}));
}

#[tokio::test]
async fn an_agent_tool_may_not_put_secret_values_into_an_instruction() {
    let helper =
        LlmAgent::builder("helper").model(ScriptedLlm::new(["ok"])).instruction("The pin is {user:pin}.").build();
    let agent = caller(calls_once(), AgentTool::new(helper.unwrap()).unwrap());
    let sessions = WithSecretKeys::new(InMemorySessionService::new(), SecretKeys::new(["user:pin"]));
    let delta = StateDelta::new().with("user:pin", 1234).unwrap();
    let events = run(agent, sessions, RunRequest::message("go").with_state_delta(delta)).await;
    let error = response(&events[1])["error"].as_str().unwrap().to_owned();
    assert!(error.contains("user:pin") && !error.contains("1234"), "{error}");
}

#[tokio::test]
async fn artifacts_of_an_agent_tool_are_those_of_the_calling_session() {
    let tool = FunctionTool::new("act", "Acts.", |_: ToolArgs, context: ToolContext| async move {
        let metadata: ToolArgs = [("by".to_owned(), json!("helper"))].into_iter().collect();
        context.save_artifact_with_metadata("a.txt", Part::text("new"), metadata).await?;
        let old = context.load_artifact_version("a.txt", 0).await?;
        let version = context.get_artifact_version("a.txt", Some(1)).await?;
        Ok(json!({"old": old, "by": version.map(|version| version.custom_metadata)}))
    });
    let model = ScriptedLlm::new([LlmResponse::call("act", json!({})), "ok".into()]);
    let inner = LlmAgent::builder("helper").model(model.clone()).tool(tool).build().unwrap();
    let store = Store::new(Arc::new(InMemorySessionService::new()));
    let key = SessionKey::new("app", "u", "s").unwrap();
    store.artifacts.save_artifact(&key, "a.txt", Part::text("old"), Map::new()).await.unwrap();
    let runner = Runner::builder("app", caller(calls_once(), AgentTool::new(inner).unwrap()), store.sessions.clone());
    let runner = runner.artifacts(store.artifacts.clone()).auto_create_session().build().unwrap();
    let events: Vec<_> = runner.run("u", "s", "go").try_collect().await.unwrap();
    assert_eq!(json!(events[1].actions.artifact_delta), json!({"a.txt": 1}));
    let told = model.requests()[1].contents.last().unwrap().clone();
    let answer = json!(told.function_responses().next().unwrap().response);
    assert_eq!(answer, json!({"old": {"text": "old"}, "by": {"by": "helper"}}));
    assert_eq!(store.artifacts.load_artifact(&key, "a.txt", None).await.unwrap(), Some(Part::text("new")));
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Question {
    city: String,
    #[serde(default = "two")]
    days: u64,
    note: Option<String>,
}

fn two() -> u64 {
    2
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Weather {
    sunny: bool,
}

#[tokio::test]
async fn an_agent_tool_takes_typed_arguments_and_answers_with_a_value() {
    let model = ScriptedLlm::new([r#"{"sunny": true}"#]);
    let helper = LlmAgent::builder("helper")
        .description("Knows the weather.")
        .model(model.clone())
        .input_type::<Question>()
        .output_type::<Weather>()
        .build()
        .unwrap();
    let tool = AgentTool::new(helper).unwrap();
    let declared = scratchbook::agent::Tool::declaration(&tool).clone();
    assert_eq!((declared.name.as_str(), declared.description.as_str()), ("helper", "Knows the weather."));
    assert_eq!(declared.parameters_json_schema["required"], json!(["city"]));
    let calls = [json!({"city": "Bern"}), json!({"town": "Bern"})].map(|args| LlmResponse::call("helper", args));
    let [good, bad] = calls;
    let events =
        run(caller(ScriptedLlm::new([good, bad, "done".into()]), tool), InMemorySessionService::new(), "go").await;
    assert_eq!(response(&events[1]), json!({"sunny": true}));
    assert_eq!(model.requests()[0].contents[0].text(), r#"{"city":"Bern","days":2}"#);
    let error = response(&events[3])["error"].as_str().unwrap().to_owned();
    assert!(error.contains("'helper'") && error.contains("city"), "{error}");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn an_agent_tool_that_has_to_wait_says_so() {
    let later = FunctionTool::new("act", "Acts later.", |_: ToolArgs, _| async { Ok(()) }).long_running();
    let tool = AgentTool::new(helper(later, "unused")).unwrap().skip_summarization();
    let events = run(caller(calls_once(), tool), InMemorySessionService::new(), "go").await;
    let answer = response(&events[1])["result"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("Error: agent 'helper' stopped waiting on unresolved long-running tool call(s)"));
    // The caller's model is asked again, although an answer without an error would have ended the turn.
    assert_eq!(events[2].content.as_ref().unwrap().text(), "done");
}

#[tokio::test]
async fn with_skip_summarization_the_agents_answer_ends_the_turn_and_is_the_callers_own() {
    let inner = LlmAgent::builder("helper").model(ScriptedLlm::new(["ok"])).build().unwrap();
    let tool = AgentTool::new(inner).unwrap().skip_summarization();
    let agent = LlmAgent::builder("caller").model(calls_once()).tool(tool).output_key("said").build().unwrap();
    let events = run(agent, InMemorySessionService::new(), "go").await;
    assert_eq!(events.len(), 2);
    assert!(events[1].is_final_response());
    assert_eq!(events[1].content.as_ref().unwrap().text(), "ok");
    assert_eq!(json!(events[1].actions.state_delta), json!({"said": "ok"}));
}

#[tokio::test]
async fn an_agent_tool_keeps_the_limits_of_the_run() {
    let endless = ScriptedLlm::from_fn(|_| Ok(LlmResponse::call("act", json!({}))));
    let inner = LlmAgent::builder("helper").model(endless).tool(acting(|_| Ok(()))).build().unwrap();
    let request = RunRequest::message("go").with_config(RunConfig::default().with_max_llm_calls(3));
    let agent = caller(calls_once(), AgentTool::new(inner).unwrap());
    let events = run(agent, InMemorySessionService::new(), request).await;
    let error = response(&events[1])["error"].as_str().unwrap().to_owned();
    assert!(error.contains("3 model calls"), "{error}");
}

#[tokio::test]
async fn a_stream_that_is_dropped_leaves_nothing_of_an_agent_tool() {
    let (started, waits) = tokio::sync::oneshot::channel::<()>();
    let started = std::sync::Mutex::new(Some(started));
    let hang = FunctionTool::new("act", "Hangs.", move |_: ToolArgs, context: ToolContext| {
        let started = started.lock().unwrap().take();
        async move {
            context.state().set("written", true)?;
            drop(started);
            std::future::pending::<Result<()>>().await
        }
    });
    let agent = caller(calls_once(), AgentTool::new(helper(hang, "ok")).unwrap());
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder("app", agent, Arc::clone(&sessions)).auto_create_session().build().unwrap();
    let mut stream = runner.run("u", "s", "go");
    let reading = async { while stream.try_next().await.unwrap().is_some() {} };
    tokio::select! {
        () = reading => panic!("the tool hangs"),
        _ = waits => {}
    }
    drop(stream);
    let key = SessionKey::new("app", "u", "s").unwrap();
    let session = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert!(session.state().is_empty());
    assert_eq!(session.events().len(), 2);
}

#[test]
fn an_agent_that_cannot_run_makes_no_tool() {
    let nameless = AgentTool::new(SequentialAgent::new("no name", Vec::new())).unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::InvalidArgument);
    let modelless = AgentTool::new(LlmAgent::builder("helper").build().unwrap()).unwrap_err();
    assert!(modelless.to_string().contains("has no model"), "{modelless}");
}

#[derive(Debug)]
struct TurnCounter;

#[async_trait::async_trait]
impl Plugin for TurnCounter {
    fn name(&self) -> &str {
        "counts"
    }

    async fn before_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        context.state().increment("turns", 1)?;
        Ok(None)
    }
}

#[tokio::test]
async fn plugins_go_with_an_agent_tool_unless_it_is_told_otherwise() {
    for (without, turns) in [(false, 2), (true, 1)] {
        let inner = LlmAgent::builder("helper").model(ScriptedLlm::new(["ok"])).build().unwrap();
        let tool = AgentTool::new(inner).unwrap();
        let tool = if without { tool.without_plugins() } else { tool };
        let sessions = Arc::new(InMemorySessionService::new());
        let runner = Runner::builder("app", caller(calls_once(), tool), Arc::clone(&sessions)).plugin(TurnCounter);
        let runner = runner.auto_create_session().build().unwrap();
        let _: Vec<_> = runner.run("u", "s", "go").try_collect().await.unwrap();
        let key = SessionKey::new("app", "u", "s").unwrap();
        let session = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        assert_eq!(session.state().get("turns"), Some(&json!(turns)));
    }
}

#[derive(Debug, Default)]
struct SpanList(std::sync::Mutex<Vec<TraceSpan>>);

impl TraceSink for SpanList {
    fn record(&self, span: TraceSpan) {
        self.0.lock().unwrap().push(span);
    }
}

#[tokio::test]
async fn the_spans_of_an_agent_tool_belong_to_the_calling_run() {
    let inner = LlmAgent::builder("helper").model(ScriptedLlm::new(["ok"])).build().unwrap();
    let spans = Arc::new(SpanList::default());
    let sink: Arc<dyn TraceSink> = spans.clone();
    let runner =
        Runner::builder("app", caller(calls_once(), AgentTool::new(inner).unwrap()), InMemorySessionService::new());
    let runner = runner.tracing(TraceConfig::default().with_sink(sink)).auto_create_session().build().unwrap();
    let events: Vec<_> = runner.run("u", "s", "go").try_collect().await.unwrap();
    let spans = spans.0.lock().unwrap();
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (tool, helper) = (named("execute_tool helper"), named("invoke_agent helper"));
    assert_eq!(helper.parent_span_id, Some(tool.span_id));
    for span in spans.iter() {
        assert_eq!((span.session.session_id(), span.trace_id), ("s", tool.trace_id), "{}", span.name);
        assert_eq!(span.invocation_id, events[0].invocation_id, "{}", span.name);
    }
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
}

#[tokio::test]
async fn agent_tools_of_agent_tools_pass_their_changes_all_the_way_out() {
    let tool = acting(|context| context.state().increment("user:depth", 1));
    let mut agent = helper(tool, "ok");
    for level in 0..6 {
        let call = LlmResponse::call(agent.name(), json!({"request": "go"}));
        let model = ScriptedLlm::new([call, format!("level {level}").as_str().into()]);
        let name = format!("level{level}");
        agent = LlmAgent::builder(name).model(model).tool(AgentTool::new(agent).unwrap()).build().unwrap();
    }
    let events = run(agent, InMemorySessionService::new(), "go").await;
    assert_eq!(json!(events[1].actions.state_delta), json!({"user:depth": 1}));
    assert_eq!(response(&events[1]), json!({"result": "level 4"}));
}
