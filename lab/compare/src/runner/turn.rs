//! Measures turns of an agent: a message, a tool call that changes the state, and an answer.

use std::time::Instant;

use futures_util::{TryStreamExt, stream};
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use scratchbook::session::ForkConfig;
use scratchbook::{LlmAgent, Runner};
use scratchbook_compare::protocol::{CellRequest, Measurement};
use serde_json::{Map, Value, json};

use crate::events::APP;
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::store::BenchStore;

/// How many turns a session has. The number is small, so that the session's length hardly changes.
const TURNS: usize = 5;
/// How many events a turn appends: message, call, response, answer.
const EVENTS: u64 = 4;

/// Measures turns through the Runner, in sessions that begin with a number of events.
pub(crate) fn turn(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let book = |mut call: Map<String, Value>, context: ToolContext| async move {
        let room = call.remove("room").unwrap_or_default();
        context.state().set("step", format!("booked {room}"))?;
        context.state().set("user:last", room.clone())?;
        Ok(json!({"booked": room}))
    };
    let tool = FunctionTool::new("book", "Books a room.", book);
    let agent = LlmAgent::builder("agent").instruction("Book rooms.").model(ScriptedModel).tool(tool);
    let agent = agent.build()?;
    let runner = Runner::builder(APP, agent, bench.sessions.clone()).build()?;
    bench.runtime.block_on(async {
        let origin = bench.kept_session(request.size).await?.key().clone();
        let (mut clock, mut n) = (LatencyClock::start(None), 0);
        while n == 0 || clock.elapsed().as_secs_f64() < request.seconds {
            let fork = bench.sessions.fork_session(&origin, ForkConfig::default()).await?;
            let (key, before) = (fork.key(), fork.seq());
            for _ in 0..TURNS {
                let started = Instant::now();
                let run = runner.run(key.user_id(), key.session_id(), "A room by the lake, please.");
                let events: Vec<_> = run.try_collect().await?;
                clock.add_one(started.elapsed());
                check(&events)?;
            }
            n += 1;
            let after = bench.sessions.get_session(key, &scratchbook::GetSessionConfig::state_only()).await?;
            let wanted = before + TURNS as u64 * EVENTS;
            if after.as_ref().map(scratchbook::Session::seq) != Some(wanted) {
                return Err(CellFailure::new(format!("the session {key} does not have {wanted} events")));
            }
        }
        Ok(clock.measured())
    })
}

/// A model that calls the tool, and answers when it has responded. Unlike `ScriptedLlm`, it keeps no requests, and nor do
/// the models of the other systems.
#[derive(Debug)]
struct ScriptedModel;

impl Llm for ScriptedModel {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let responded = request.contents.last().is_some_and(|content| content.function_responses().next().is_some());
        let call = || LlmResponse::call("book", json!({"room": "lake"}));
        let response = if responded { LlmResponse::text("It is done.") } else { call() };
        Box::pin(stream::iter([Ok(response)]))
    }
}

fn check(events: &[scratchbook::Event]) -> Result<()> {
    match events.len() {
        3 => Ok(()),
        count => Err(CellFailure::new(format!("a turn had {count} events, not a call, a response and an answer"))),
    }
}
