//! Runs that wait for a tool that answers later, for a user's confirmation, or to be resumed.

mod confirmation;
mod crash;
mod long_running;
mod parallel;
mod recorded;
mod resumption;
mod transfer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scratchbook::agent::{FunctionTool, LlmAgentBuilder, ToolConfirmation, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Content, Event, InMemorySessionService, LlmAgent, Runner};
use serde_json::{Value, json};

use crate::runner::ToolArgs;

/// The number of runs of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolRuns(Arc<AtomicUsize>);

impl ToolRuns {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn llm<const N: usize>(name: &str, turns: [LlmResponse; N]) -> LlmAgentBuilder {
    LlmAgent::builder(name).model(ScriptedLlm::new(turns))
}

fn call(name: &str, args: Value) -> LlmResponse {
    LlmResponse { finish_reason: None, ..LlmResponse::call(name, args) }
}

fn says(text: &str) -> LlmResponse {
    LlmResponse { finish_reason: None, ..LlmResponse::text(text) }
}

/// A tool that pays if the user agrees.
fn pay(count: &ToolRuns) -> FunctionTool {
    let count = count.clone();
    let tool = FunctionTool::new("pay", "Pays.", move |args: ToolArgs, context: ToolContext| {
        let count = count.clone();
        async move {
            count.add();
            context.state().set("paid", &args["amount"])?;
            Ok(json!({"paid": args["amount"]}))
        }
    });
    tool.require_confirmation()
}

/// A tool that answers at once.
fn look(count: &ToolRuns) -> FunctionTool {
    let count = count.clone();
    FunctionTool::new("look", "Looks.", move |args: ToolArgs, _: ToolContext| {
        count.add();
        async move { Ok(json!({"found": args["item"]})) }
    })
}

/// A tool that gives a first answer at once and another later.
fn ask() -> FunctionTool {
    FunctionTool::new("ask", "Asks.", |_: ToolArgs, _: ToolContext| async { Ok(json!({"status": "pending"})) })
        .long_running()
}

/// A tool that answers later.
fn wait(count: &ToolRuns) -> FunctionTool {
    let count = count.clone();
    let tool = FunctionTool::new("wait", "Waits.", move |_: ToolArgs, _: ToolContext| {
        count.add();
        async { Ok(()) }
    });
    tool.long_running()
}

fn on(service: &Arc<InMemorySessionService>, agent: impl Agent) -> Runner {
    Runner::builder("app", agent, Arc::clone(service)).auto_create_session().build().unwrap()
}

fn resumable(service: &Arc<InMemorySessionService>, agent: impl Agent) -> Runner {
    Runner::builder("app", agent, Arc::clone(service)).auto_create_session().resumable().build().unwrap()
}

fn answer(id: &str, name: &str, response: Value) -> Content {
    Content::new("user", vec![Part::function_response(id, name, response)])
}

fn confirm(id: &str, response: Value) -> Content {
    answer(id, ToolConfirmation::CALL_NAME, response)
}

fn agrees() -> Value {
    json!({"confirmed": true})
}

/// Returns the ids of the calls with a name, in order.
fn ids(events: &[Event], name: &str) -> Vec<String> {
    let calls = events.iter().flat_map(Event::function_calls).filter(|call| call.name.as_deref() == Some(name));
    calls.filter_map(|call| call.id.clone()).collect()
}

fn requests(events: &[Event]) -> Vec<String> {
    ids(events, ToolConfirmation::CALL_NAME)
}

/// Returns one line per event: the author, and its text, calls, answers, or the checkpoint of an agent.
fn told<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    events.into_iter().map(tell).collect()
}

fn tell(event: &Event) -> String {
    let mut said = Vec::new();
    for part in event.content.iter().flat_map(Content::parts) {
        said.extend(part.text.clone());
        said.extend(part.function_call.iter().map(|call| format!("{}?", call.name.as_deref().unwrap())));
        let answers = part.function_response.iter();
        said.extend(answers.map(|answer| format!("{}={}", answer.name.as_deref().unwrap(), json!(answer.response))));
    }
    said.extend(event.actions.agent_state.iter().map(|state| format!("at {}", json!(state))));
    said.extend(event.actions.end_of_agent.map(|_| "ends".to_owned()));
    format!("{}: {}", event.author, said.join(" "))
}

/// Returns the contents of a model's last request, one line per part.
fn shown(model: &ScriptedLlm) -> Vec<String> {
    let requests = model.requests();
    let parts = requests.last().unwrap().contents.iter().flat_map(Content::parts);
    let line = |part: &Part| match (&part.text, &part.function_call, &part.function_response) {
        (Some(text), ..) => text.clone(),
        (_, Some(call), _) => format!("{}?", call.name.as_deref().unwrap()),
        (.., Some(answer)) => format!("{}={}", answer.name.as_deref().unwrap(), json!(answer.response)),
        _ => String::new(),
    };
    parts.map(line).collect()
}
