//! Toolsets: when they are asked, what they are shown, and the order of their tools.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use scratchbook::agent::{
    CallbackContext, FunctionTool, ReadonlyContext, Tool, ToolContext, Toolset, transfer_to_agent,
};
use scratchbook::model::{FunctionDeclaration, LlmRequest, LlmResponse, ScriptedLlm};
use scratchbook::{Error, ErrorKind, Event, InMemorySessionService, LlmAgent, Result, Runner};
use serde_json::{Map, Value, json};

/// Returns a tool whose answer is its name.
fn named(name: &str) -> FunctionTool {
    let answer = name.to_owned();
    FunctionTool::new(name, "Says its name.", move |_: Map<String, Value>, _: ToolContext| {
        let answer = answer.clone();
        async move { Ok(answer) }
    })
}

/// Lists a tool that the state names, and another tool. Fails if the state has no name.
#[derive(Debug)]
struct FromState;

#[async_trait]
impl Toolset for FromState {
    async fn get_tools(&self, context: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>> {
        let state = context.state();
        let name =
            state.get("tool").and_then(Value::as_str).ok_or_else(|| Error::invalid("the state names no tool"))?;
        let answers_later = named("later").long_running();
        Ok(vec![Arc::new(named(name)), Arc::new(answers_later)])
    }
}

async fn run(agent: LlmAgent, state: Value) -> Result<Vec<Event>> {
    let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session().build()?;
    let delta = serde_json::from_value(state).unwrap();
    let request = scratchbook::RunRequest::message("Go.").with_state_delta(delta);
    runner.run("u", "s", request).try_collect().await
}

#[tokio::test]
async fn the_tools_of_a_toolset_stand_where_it_was_added_and_are_called() {
    let model = ScriptedLlm::new([LlmResponse::calls([("listed", json!({})), ("later", json!({}))]), "Done.".into()]);
    let agent = LlmAgent::builder("a").model(model.clone()).tool(named("first")).toolset(FromState);
    let agent = agent.tool(named("last")).build().unwrap();
    let events = run(agent, json!({"tool": "listed"})).await.unwrap();
    let names: Vec<_> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["first", "listed", "later", "last"]);
    let ids = events[0].long_running_tool_ids.as_ref().unwrap();
    assert_eq!(ids.len(), 1, "the tool of a toolset can answer later");
    let response = events[1].function_responses().next().unwrap();
    assert_eq!(json!(response.response), json!({"result": "listed"}));
}

#[tokio::test]
async fn a_toolset_that_fails_ends_the_run_and_names_the_agent() {
    let agent = LlmAgent::builder("a").model(ScriptedLlm::new(["Hello."])).toolset(FromState).build().unwrap();
    let error = run(agent, json!({})).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("the tools of agent 'a': the state names no tool"), "{error}");
}

#[tokio::test]
async fn a_toolset_cannot_take_the_name_of_another_tool() {
    for own in ["pay", "set_model_response"] {
        let agent = LlmAgent::builder("a").model(ScriptedLlm::new(["Hello."])).toolset(FromState);
        let agent = if own == "pay" { agent.tool(named(own)) } else { agent.output_schema(json!({"type": "object"})) };
        let error = run(agent.build().unwrap(), json!({"tool": own})).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("are called '{own}'")), "{error}");
    }
}

/// Adds an instruction to requests, and counts them in the state.
#[derive(Debug)]
struct Reminder(FunctionDeclaration);

#[async_trait]
impl Tool for Reminder {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.0
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, _args: Map<String, Value>, _context: ToolContext) -> Result<Value> {
        Ok(Value::Null)
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, context: &CallbackContext) -> Result<()> {
        context.state().increment("requests", 1)?;
        request.append_instruction("Be brief.");
        Ok(())
    }
}

#[tokio::test]
async fn what_a_tool_writes_while_it_adds_to_a_request_is_committed_with_the_answer() {
    let declaration = FunctionDeclaration { name: "reminder".to_owned(), ..FunctionDeclaration::default() };
    let model = ScriptedLlm::new(["Hello."]);
    let agent = LlmAgent::builder("a").model(model.clone()).instruction("Greet.").tool(Reminder(declaration));
    let events = run(agent.build().unwrap(), json!({})).await.unwrap();
    assert_eq!(json!(events[0].actions.state_delta), json!({"requests": 1}));
    let request = &model.requests()[0];
    assert!(request.system_instruction.as_ref().unwrap().ends_with("\n\nBe brief."), "{request:?}");
    assert_eq!(request.tools, [], "it is not declared");
}

#[tokio::test]
async fn transfer_to_agent_as_a_tool_of_its_own_knows_all_agents() {
    let call = |name: &str| LlmResponse::call("transfer_to_agent", json!({"agent_name": name}));
    let operator = ScriptedLlm::new([call("nobody"), call("clerk")]);
    let operator = LlmAgent::builder("operator").model(operator).tool(transfer_to_agent());
    // The clerk's turn comes again after the operator's.
    let clerk = ScriptedLlm::new(["Hello, here is the clerk.", "Hello again."]);
    let clerk = LlmAgent::builder("clerk").model(clerk).build().unwrap();
    let desk = scratchbook::agent::SequentialAgent::new(
        "desk",
        vec![Arc::new(operator.build().unwrap()) as Arc<dyn scratchbook::Agent>, Arc::new(clerk)],
    );
    let runner = Runner::builder("app", desk, InMemorySessionService::new()).auto_create_session().build().unwrap();
    let events: Vec<_> = runner.run("u", "s", "Hello").try_collect().await.unwrap();
    let refused = events[1].function_responses().next().unwrap();
    let said = json!(refused.response);
    assert!(said["error"].as_str().unwrap().contains("there are: clerk, desk, operator"), "{said}");
    assert_eq!(events[3].actions.transfer_to_agent.as_deref(), Some("clerk"));
    assert_eq!(events[4].author, "clerk");
}
