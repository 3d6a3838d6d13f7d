//! Plays a case with our agents and our Runner.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use scratchbook::agent::{
    AgentTool, CallbackContext, FunctionTool, LoopAgent, ParallelAgent, RunConfig, SequentialAgent, ToolContext,
};
use scratchbook::content::Part;
use scratchbook::model::{LlmRequest, LlmResponse, ScriptedLlm};
use scratchbook::{
    Agent, Content, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, InMemorySessionService, LlmAgent,
    Result, RunRequest, Runner, SessionService,
};
use serde_json::{Value, json};

use super::plugin::Played;
use crate::runner::{ToolArgs, own_instruction};

pub(super) async fn play(case: &Value) -> Value {
    let sessions = Arc::new(InMemorySessionService::new());
    let state = case.get("state").cloned().unwrap_or_else(|| json!({}));
    let config = CreateSessionConfig::default().with_session_id("s").with_state(state);
    let key = sessions.create_session("app", "u", config).await.unwrap().key().clone();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let runner = build(&case["agent"]).and_then(|agent| {
        let runner = Runner::builder("app", agent, Arc::clone(&sessions)).artifacts(Arc::clone(&sessions));
        let plugins = case["plugins"].as_array().into_iter().flatten();
        plugins.fold(runner, |runner, spec| runner.plugin(Played::new(spec, &notes))).build()
    });
    let runner = match runner {
        Ok(runner) => runner,
        Err(error) => return json!({"refused": error.to_string()}),
    };
    let (mut turns, mut known) = (Vec::new(), 0);
    for turn in case["turns"].as_array().unwrap() {
        let stored = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        let part = match turn["say"].as_str() {
            Some(text) => Part::text(text),
            None => answer(&turn["answer"], stored.events().iter().map(Arc::as_ref).collect()),
        };
        let mut config = RunConfig::default();
        if let Some(most) = case["config"]["max_llm_calls"].as_u64() {
            config = config.with_max_llm_calls(usize::try_from(most).unwrap());
        }
        let request = RunRequest::message(Content::new("user", vec![part])).with_config(config);
        let outcome: Result<Vec<Event>> = runner.run("u", "s", request).try_collect().await;
        let stored = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        let new: Vec<_> = stored.events().iter().skip(known).map(|event| json!(event.as_ref())).collect();
        known = stored.events().len();
        turns.push(json!({"events": new, "fails": outcome.is_err()}));
    }
    let stored = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    json!({"turns": turns, "state": stored.state(), "notes": *notes.lock().unwrap()})
}

/// Returns the answer to the last open call of `later`, or a text if no call is open.
fn answer(response: &Value, events: Vec<&Event>) -> Part {
    let given: Vec<_> = events.iter().flat_map(|event| event.function_responses()).map(|answer| &answer.id).collect();
    let calls = events.iter().flat_map(|event| event.function_calls());
    let open = calls.filter(|call| call.name.as_deref() == Some("later") && !given.contains(&&call.id));
    match open.last() {
        Some(call) => Part::function_response(call.id.clone().unwrap(), "later", response.clone()),
        None => Part::text("nothing to answer"),
    }
}

fn build(spec: &Value) -> Result<Arc<dyn Agent>> {
    let name = spec["name"].as_str().unwrap();
    let below: Result<Vec<_>> = spec["sub_agents"].as_array().into_iter().flatten().map(build).collect();
    macro_rules! workflow {
        ($agent:expr) => {{
            let mut agent = $agent;
            for deed in deeds(spec, "before_agent") {
                agent = agent.before_agent(move |context| around_agent(deed.clone(), context));
            }
            for deed in deeds(spec, "after_agent") {
                agent = agent.after_agent(move |context| around_agent(deed.clone(), context));
            }
            Arc::new(agent)
        }};
    }
    Ok(match spec["kind"].as_str().unwrap() {
        "sequential" => workflow!(SequentialAgent::new(name, below?)),
        "parallel" => workflow!(ParallelAgent::new(name, below?)),
        "loop" => {
            let rounds = usize::try_from(spec["max_iterations"].as_u64().unwrap()).unwrap();
            workflow!(LoopAgent::new(name, below?).with_max_iterations(rounds))
        }
        _ => Arc::new(llm_agent(spec, below?)?),
    })
}

fn deeds(spec: &Value, kind: &str) -> Vec<Value> {
    spec["callbacks"][kind].as_array().cloned().unwrap_or_default()
}

fn llm_agent(spec: &Value, below: Vec<Arc<dyn Agent>>) -> Result<LlmAgent> {
    let mut agent = LlmAgent::builder(spec["name"].as_str().unwrap()).model(scripted(spec));
    for sub_agent in below {
        agent = agent.sub_agent(sub_agent);
    }
    if let Some(instruction) = spec["instruction"].as_str() {
        agent = agent.instruction(instruction);
    }
    if let Some(key) = spec["output_key"].as_str() {
        agent = agent.output_key(key);
    }
    if spec["tools"] != false {
        let act = FunctionTool::new("act", "Acts.", |args: ToolArgs, context: ToolContext| async move {
            Ok(run_tool(args, context).await?.unwrap_or_else(|| json!({"done": true})))
        });
        let later = FunctionTool::new("later", "Acts later.", |args: ToolArgs, context: ToolContext| async move {
            Ok(run_tool(args, context).await?.unwrap_or(Value::Null))
        });
        agent = agent.tool(act).tool(later.long_running());
        for one in spec["agent_tools"].as_array().into_iter().flatten() {
            let mut tool = AgentTool::new(build(&one["agent"])?)?;
            if one["skip"] == true {
                tool = tool.skip_summarization();
            }
            agent = agent.tool(if one["plugins"] == false { tool.without_plugins() } else { tool });
        }
    }
    for deed in deeds(spec, "before_agent") {
        agent = agent.before_agent(move |context| around_agent(deed.clone(), context));
    }
    for deed in deeds(spec, "after_agent") {
        agent = agent.after_agent(move |context| around_agent(deed.clone(), context));
    }
    for deed in deeds(spec, "before_model") {
        agent = agent.before_model(move |context, request| {
            let deed = deed.clone();
            async move {
                Ok(match act(&deed, &context).await? {
                    Some(said) => ControlFlow::Break(callback_says(&said)),
                    None => ControlFlow::Continue(request),
                })
            }
        });
    }
    for deed in deeds(spec, "after_model") {
        agent = agent.after_model(move |context, response| {
            let deed = deed.clone();
            async move {
                Ok(match act(&deed, &context).await? {
                    Some(said) => LlmResponse { content: callback_says(&said).content, ..response },
                    None => response,
                })
            }
        });
    }
    for deed in deeds(spec, "before_tool") {
        agent =
            agent.before_tool(move |context, call| {
                let deed = deed.clone();
                async move {
                    Ok(act(&deed, &context).await?.map_or_else(|| ControlFlow::Continue(call), ControlFlow::Break))
                }
            });
    }
    for deed in deeds(spec, "after_tool") {
        agent = agent.after_tool(move |context, _, answer| {
            let deed = deed.clone();
            async move { Ok(act(&deed, &context).await?.unwrap_or(answer)) }
        });
    }
    for deed in deeds(spec, "on_model_error") {
        agent = agent.on_model_error(move |context, _, _| {
            let deed = deed.clone();
            async move { Ok(act(&deed, &context).await?.map(|said| callback_says(&said))) }
        });
    }
    for deed in deeds(spec, "on_tool_error") {
        agent = agent.on_tool_error(move |context, _, _| {
            let deed = deed.clone();
            async move { act(&deed, &context).await }
        });
    }
    agent.build()
}

pub(super) fn callback_says(said: &Value) -> LlmResponse {
    LlmResponse { finish_reason: None, ..LlmResponse::text(said.as_str().unwrap()) }
}

pub(super) async fn around_agent(deed: Value, context: CallbackContext) -> Result<Option<Content>> {
    Ok(act(&deed, &context).await?.map(|said| Content::model(said.as_str().unwrap())))
}

async fn run_tool(args: ToolArgs, context: ToolContext) -> Result<Option<Value>> {
    if args.get("skip") == Some(&json!(true)) {
        context.skip_summarization()?;
    }
    if args.get("ask") == Some(&json!(true)) {
        context.request_confirmation("sure?", None)?;
    }
    act(&Value::Object(args), &context).await
}

/// Carries out the deed of a tool or a callback, and returns its answer, if it gives one.
pub(super) async fn act(deed: &Value, context: &CallbackContext) -> Result<Option<Value>> {
    if let Some(milliseconds) = deed["wait"].as_u64() {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    for (key, value) in deed["set"].as_object().into_iter().flatten() {
        context.state().set(key, value)?;
    }
    for (key, source) in deed["copy"].as_object().into_iter().flatten() {
        context.state().set(key, context.state().get_or(source.as_str().unwrap(), "none"))?;
    }
    if let Some(name) = deed["artifact"].as_str() {
        let metadata = deed["note"].as_str().map(|note| ("note".to_owned(), json!(note)));
        context.save_artifact_with_metadata(name, Part::text(name), metadata.into_iter().collect()).await?;
    }
    if let Some(name) = deed["look"].as_str() {
        let version = deed["version"].as_u64();
        let artifact = match version {
            Some(version) => context.load_artifact_version(name, version).await?,
            None => context.load_artifact(name).await?,
        };
        let found = context.get_artifact_version(name, version).await?;
        let (number, metadata) = found.map(|found| (found.version, found.custom_metadata)).unzip();
        let text = artifact.and_then(|artifact| artifact.text);
        return Ok(Some(json!({"text": text, "version": number, "metadata": metadata})));
    }
    if deed["escalate"] == true {
        context.escalate()?;
    }
    if let Some(agent) = deed["transfer"].as_str() {
        context.transfer_to_agent(agent)?;
    }
    match deed["fails"].as_str() {
        Some(why) => Err(Error::new(ErrorKind::Internal, why)),
        None => Ok(deed.get("give").cloned()),
    }
}

/// Returns a model that gives the answers in the agent's script, and then says that the script is over.
fn scripted(spec: &Value) -> ScriptedLlm {
    let script: VecDeque<Value> = spec["script"].as_array().cloned().unwrap_or_default().into();
    let (script, name) = (Arc::new(Mutex::new(script)), spec["name"].as_str().unwrap().to_owned());
    let pause = Duration::from_millis(spec["pause"].as_u64().unwrap_or(0));
    ScriptedLlm::from_stream(move |request| {
        let (script, name, request) = (Arc::clone(&script), name.clone(), request.clone());
        Box::pin(futures_util::stream::once(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let next = script.lock().unwrap().pop_front();
            response(&next.unwrap_or_else(|| json!({"text": format!("{name} is done")})), &request)
        }))
    })
}

fn response(answer: &Value, request: &LlmRequest) -> Result<LlmResponse> {
    if let Some(why) = answer["fails"].as_str() {
        return Err(Error::new(ErrorKind::Internal, why));
    }
    if let Some(reason) = answer.get("empty") {
        let finish_reason = reason.as_str().map(str::to_owned);
        return Ok(LlmResponse { finish_reason, ..LlmResponse::default() });
    }
    let own = || match request.system_instruction.as_deref() {
        Some(told) if told.starts_with("You are an agent.") => "",
        _ => own_instruction(request),
    };
    let text = answer["text"].as_str().map(|text| Part::text(text.replace("<instruction>", own())));
    let calls = answer["calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| Part::function_call(call[0].as_str().unwrap(), call[1].as_object().cloned().unwrap()));
    let content = Content::new("model", text.into_iter().chain(calls).collect());
    Ok(LlmResponse { content: Some(content), ..LlmResponse::text("") })
}
