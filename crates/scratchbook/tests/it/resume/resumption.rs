//! Runs that were cut off and are resumed: by their id, without a message, from their events alone.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use scratchbook::agent::{
    FunctionAgent, InvocationContext, LlmAgentBuilder, LoopAgent, ParallelAgent, SequentialAgent,
};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{
    Agent, AppendOptions, ErrorKind, Event, InMemorySessionService, LlmAgent, RunRequest, Runner, SessionKey,
    SessionService, StateDelta, Store,
};
use serde_json::{Value, json};

use super::{
    ToolRuns, agrees, ask, call, confirm, ids, llm, look, on, pay, requests, resumable, says, shown, tell, told, wait,
};
use crate::runner::{ToolArgs, app, run, stored};

const ID: &str = "e-left";

fn go() -> RunRequest {
    RunRequest::message("go").with_invocation_id(ID)
}

fn again() -> RunRequest {
    RunRequest::default().with_invocation_id(ID)
}

fn key() -> SessionKey {
    SessionKey::new("app", "user", "s").unwrap()
}

/// Drops the run after this many events, like a process that dies after their commit.
async fn cut_off(runner: &Runner, after: usize) -> Vec<String> {
    let mut events = runner.run("user", "s", go());
    let mut seen = Vec::new();
    for _ in 0..after {
        seen.push(tell(&events.next().await.unwrap().unwrap()));
    }
    seen
}

/// Returns everything that a session's agents have said, without their checkpoints.
async fn said(runner: &Runner) -> Vec<String> {
    let session = stored(runner).await;
    let says = |event: &&Arc<Event>| event.author != "user" && event.content.is_some();
    session.events().iter().filter(says).map(|event| tell(event)).collect()
}

fn builder(name: &str, said: &[&str]) -> LlmAgentBuilder {
    LlmAgent::builder(name).model(scripted(said))
}

/// Returns a model whose answers depend on what it has said so far, like a real model's, and not on a count of
/// requests.
fn scripted(turns: &[&str]) -> ScriptedLlm {
    let turns: Vec<_> = turns.iter().map(|turn| (*turn).to_owned()).collect();
    ScriptedLlm::from_fn(move |request| {
        let own = request.contents.iter().filter(|content| content.role.as_deref() == Some("model")).count();
        let turn = turns.get(own).cloned().unwrap_or_else(|| "nothing more".to_owned());
        Ok(match turn.strip_suffix('?') {
            Some("transfer_to_agent") => call("transfer_to_agent", json!({"agent_name": "sub"})),
            Some(tool) => call(tool, json!({"item": "x", "amount": 5})),
            None => says(&turn),
        })
    })
}

/// Checks that a run that is cut off after any of its events and resumed says the same in total as an uncut run.
async fn is_as_if_uncut<A: Agent>(agent: impl Fn(&ToolRuns) -> A, calls: usize) {
    let count = ToolRuns::default();
    let uncut = resumable(&app(), agent(&count));
    let length = run(&uncut, go()).await.unwrap().len();
    assert_eq!(count.get(), calls);
    let expected = said(&uncut).await;
    for after in 1..=length {
        let (count, service) = (ToolRuns::default(), app());
        let seen = cut_off(&resumable(&service, agent(&count)), after).await;
        let runner = resumable(&service, agent(&count));
        let rest = run(&runner, again()).await.unwrap_or_else(|e| panic!("after {after} of {expected:?}: {e}"));
        assert_eq!(said(&runner).await, expected, "cut off after {after} events, {seen:?}");
        assert!(rest.iter().all(|event| event.invocation_id == ID));
        assert!((calls..=calls + 1).contains(&count.get()), "{} calls, cut off after {seen:?}", count.get());
        let over = run(&runner, again()).await.unwrap();
        assert!(over.is_empty(), "what has ended does nothing again: {:?} after {seen:?}", told(&over));
    }
}

#[tokio::test]
async fn an_agent_goes_on_after_any_of_its_events() {
    is_as_if_uncut(|count| builder("agent", &["look?", "look?", "Found."]).tool(look(count)).build().unwrap(), 2).await;
}

#[tokio::test]
async fn agents_one_after_another_go_on_at_the_one_that_was_interrupted() {
    is_as_if_uncut(
        |count| {
            let agents = ["a", "b", "c"].map(|name| -> Arc<dyn Agent> {
                let done = format!("{name} done");
                Arc::new(builder(name, &["look?", &done]).tool(look(count)).build().unwrap())
            });
            SequentialAgent::new("seq", agents.into())
        },
        3,
    )
    .await;
}

#[tokio::test]
async fn a_loop_goes_on_in_its_round() {
    is_as_if_uncut(
        |count| {
            let agents = ["a", "b"].map(|name| -> Arc<dyn Agent> {
                Arc::new(builder(name, &["look?", "1", "look?", "2", "look?", "3"]).tool(look(count)).build().unwrap())
            });
            LoopAgent::new("loop", agents.into()).with_max_iterations(3)
        },
        6,
    )
    .await;
}

#[tokio::test]
async fn a_loop_that_an_agent_has_ended_is_over() {
    is_as_if_uncut(
        |count| {
            let count = count.clone();
            let exit = scratchbook::agent::FunctionTool::new(
                "exit",
                "Ends.",
                move |_: ToolArgs, context: scratchbook::agent::ToolContext| {
                    count.add();
                    async move {
                        context.escalate()?;
                        context.skip_summarization()?;
                        Ok(())
                    }
                },
            );
            let a = builder("a", &["1", "exit?"]).tool(exit).build().unwrap();
            LoopAgent::new("loop", vec![Arc::new(a)]).with_max_iterations(9)
        },
        1,
    )
    .await;
}

#[tokio::test]
async fn an_agent_that_was_handed_the_conversation_goes_on() {
    is_as_if_uncut(
        |count| {
            let sub = builder("sub", &["look?", "sub done"]).tool(look(count)).build().unwrap();
            builder("root", &["transfer_to_agent?"]).sub_agent(sub).build().unwrap()
        },
        1,
    )
    .await;
}

#[tokio::test]
async fn agents_within_others_go_on() {
    is_as_if_uncut(
        |count| {
            let sub = builder("sub", &["look?", "sub done"]).tool(look(count)).build().unwrap();
            let a = builder("a", &["transfer_to_agent?"]).sub_agent(sub).build().unwrap();
            let b = builder("b", &["look?", "b done"]).tool(look(count)).build().unwrap();
            let inner = SequentialAgent::new("inner", vec![Arc::new(a), Arc::new(b)]);
            let c = builder("c", &["c done"]).build().unwrap();
            SequentialAgent::new("outer", vec![Arc::new(inner), Arc::new(c)])
        },
        2,
    )
    .await;
}

#[tokio::test]
async fn agents_side_by_side_that_had_ended_do_not_run_again() {
    let agents = |count: &ToolRuns, models: [ScriptedLlm; 2]| {
        let agents = ["a", "b"].into_iter().zip(models).map(|(name, model)| -> Arc<dyn Agent> {
            Arc::new(LlmAgent::builder(name).model(model).tool(look(count)).build().unwrap())
        });
        ParallelAgent::new("par", agents.collect())
    };
    let (count, service) = (ToolRuns::default(), app());
    // b hangs until it is dropped; a has ended by then.
    let hangs = ScriptedLlm::from_stream(|_| stream::pending());
    let runner = resumable(&service, agents(&count, [scripted(&["look?", "a done"]), hangs]));
    let seen = cut_off(&runner, 5).await;
    assert_eq!(seen.last().unwrap(), "a: ends");
    let [a, b] = [scripted(&["never"]), scripted(&["look?", "b done"])];
    let runner = resumable(&service, agents(&count, [a.clone(), b.clone()]));
    let rest = run(&runner, again()).await.unwrap();
    assert_eq!(told(&rest), ["b: look?", r#"b: look={"found":"x"}"#, "b: b done", "b: ends", "par: ends"]);
    assert!(a.requests().is_empty());
    assert_eq!(rest[0].branch.as_deref(), Some("par.b"));
    assert!(run(&runner, again()).await.unwrap().is_empty());
}

#[tokio::test]
async fn calls_that_are_answered_are_not_run_again() {
    let calls = || LlmResponse::calls([("look", json!({"item": "x"})), ("look", json!({"item": "y"}))]);
    let (count, service) = (ToolRuns::default(), app());
    let runner = resumable(&service, llm("agent", [calls()]).tool(look(&count)).build().unwrap());
    let mut events = runner.run("user", "s", go());
    let asked = events.next().await.unwrap().unwrap();
    drop(events);
    // One of the two calls was answered before the run was cut off.
    let mut half = Event::new("agent").with_invocation_id(ID);
    let id = &ids(std::slice::from_ref(&asked), "look")[0];
    half.content = Some(super::answer(id, "look", json!({"found": "before"})));
    service.append(&key(), half, AppendOptions::default()).await.unwrap();
    let model = ScriptedLlm::new([says("Both.")]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(look(&count)).build().unwrap();
    let rest = run(&resumable(&service, agent), again()).await.unwrap();
    assert_eq!(told(&rest), [r#"agent: look={"found":"y"}"#, "agent: Both.", "agent: ends"]);
    assert_eq!(count.get(), 1);
    assert_eq!(shown(&model)[3..], [r#"look={"found":"before"}"#, r#"look={"found":"y"}"#]);
}

#[tokio::test]
async fn a_tool_that_answers_later_is_begun_once() {
    for tool in ["wait", "ask"] {
        let (count, service) = (ToolRuns::default(), app());
        let agent =
            || builder("agent", &[&format!("{tool}?"), "Pending."]).tool(wait(&count)).tool(ask()).build().unwrap();
        // If the run was cut off before the tool was begun, the tool is begun.
        cut_off(&resumable(&service, agent()), 1).await;
        run(&resumable(&service, agent()), again()).await.unwrap();
        let begun = count.get();
        assert_eq!(begun, usize::from(tool == "wait"));
        let length = stored(&resumable(&service, agent())).await.events().len();
        for _ in 0..2 {
            assert!(run(&resumable(&service, agent()), again()).await.unwrap().is_empty(), "it waits");
        }
        assert_eq!((count.get(), stored(&resumable(&service, agent())).await.events().len()), (begun, length));
    }
}

#[tokio::test]
async fn an_unanswered_question_is_not_asked_again() {
    let (count, service) = (ToolRuns::default(), app());
    let agent = || builder("agent", &["pay?", "Paid."]).tool(pay(&count)).build().unwrap();
    // The run is cut off after the question was asked, and before the call got its waiting answer.
    cut_off(&resumable(&service, agent()), 2).await;
    let runner = resumable(&service, agent());
    assert!(run(&runner, again()).await.unwrap().is_empty());
    let asked: Vec<_> = stored(&runner).await.events().iter().map(|event| Event::clone(event)).collect();
    let events = run(&runner, confirm(&requests(&asked)[0], agrees())).await.unwrap();
    assert_eq!(told(&events), [r#"agent: pay={"paid":5}"#, "agent: Paid.", "agent: ends"]);
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn a_call_that_needs_consent_asks_for_it_also_when_it_is_taken_up_again() {
    let (count, service) = (ToolRuns::default(), app());
    let agent = || builder("agent", &["pay?", "Paid."]).tool(pay(&count)).build().unwrap();
    cut_off(&resumable(&service, agent()), 1).await;
    let events = run(&resumable(&service, agent()), again()).await.unwrap();
    assert_eq!((requests(&events).len(), count.get()), (1, 0));
}

#[tokio::test]
async fn a_run_that_failed_is_tried_again() {
    let service = app();
    let fails = ScriptedLlm::from_fn(|_| Err(scratchbook::Error::new(ErrorKind::Unavailable, "busy")));
    let count = ToolRuns::default();
    let first = LlmAgent::builder("b").model(fails).build().unwrap();
    let a = || -> Arc<dyn Agent> { Arc::new(builder("a", &["look?", "a done"]).tool(look(&count)).build().unwrap()) };
    let seq = |b: LlmAgent| SequentialAgent::new("seq", vec![a(), Arc::new(b)]);
    run(&resumable(&service, seq(first)), go()).await.unwrap_err();
    let runner = resumable(&service, seq(builder("b", &["b done"]).build().unwrap()));
    let rest = run(&runner, again()).await.unwrap();
    assert_eq!(told(&rest), ["b: b done", "b: ends", "seq: ends"]);
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn a_run_that_is_unknown_is_not_found() {
    let service = app();
    let runner = resumable(&service, builder("agent", &["Hi."]).build().unwrap());
    run(&runner, "go").await.unwrap();
    let error = run(&runner, again()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(ID), "{error}");
    let delta = StateDelta::new().with("k", 1).unwrap();
    let error = run(&runner, RunRequest::state_delta(delta).with_invocation_id(ID)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(stored(&runner).await.state().get("k"), None, "nothing is stored");
    let new = RunRequest::default().with_new_invocation_id(ID);
    assert_eq!(
        told(&run(&runner, new).await.unwrap())[0],
        "agent: nothing more",
        "an id that is new is not looked for"
    );
}

#[tokio::test]
async fn a_run_that_was_taken_back_is_not_found() {
    let service = app();
    let runner = resumable(&service, builder("agent", &["Hi."]).build().unwrap());
    run(&runner, go()).await.unwrap();
    Store::new(Arc::clone(&service)).rewind(&key(), ID).await.unwrap();
    assert_eq!(run(&runner, again()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn without_resumability_a_run_goes_on_from_what_the_session_holds_and_tells_nothing_more() {
    let service = app();
    let runner = on(&service, builder("agent", &["look?", "Found."]).tool(look(&ToolRuns::default())).build().unwrap());
    let events = run(&runner, go()).await.unwrap();
    assert!(events.iter().all(|event| event.content.is_some()), "{:?}", told(&events));
    assert_eq!(told(&run(&runner, again()).await.unwrap()), ["agent: nothing more"], "the model is asked");
    assert!(run(&runner, RunRequest::default().with_invocation_id("unknown")).await.is_ok());
}

/// Puts an event with a call that nobody answers into the run that was cut off.
async fn smuggle(service: &Arc<InMemorySessionService>, author: &str) {
    let mut event = Event::new(author).with_invocation_id(ID);
    let mut content = LlmResponse::call("look", json!({"item": "secret"})).content.unwrap();
    for part in content.parts.iter_mut().flatten() {
        part.function_call.as_mut().unwrap().id = Some("smuggled".to_owned());
    }
    event.content = Some(content);
    service.append(&key(), event, AppendOptions::default()).await.unwrap();
}

#[tokio::test]
async fn calls_of_others_are_never_run() {
    for author in ["user", "other", "seq", "b"] {
        let (count, service) = (ToolRuns::default(), app());
        let seq = || {
            let a = builder("a", &["a done", "a more"]).tool(look(&count)).build().unwrap();
            let b = builder("b", &["b done"]).build().unwrap();
            SequentialAgent::new("seq", vec![Arc::new(a), Arc::new(b)])
        };
        cut_off(&resumable(&service, seq()), 1).await;
        smuggle(&service, author).await;
        run(&resumable(&service, seq()), again()).await.unwrap();
        assert_eq!(count.get(), 0, "{author}");
    }
}

#[tokio::test]
async fn agents_that_are_no_more_are_begun_at_the_first() {
    let service = app();
    let seq = |names: &[&str]| {
        let agents = names
            .iter()
            .map(|name| -> Arc<dyn Agent> { Arc::new(builder(name, &[&format!("{name} done")]).build().unwrap()) });
        SequentialAgent::new("seq", agents.collect())
    };
    let seen = cut_off(&resumable(&service, seq(&["a", "b"])), 4).await;
    assert_eq!(seen[3], r#"seq: at {"current_sub_agent":"b"}"#);
    let rest = run(&resumable(&service, seq(&["a", "c"])), again()).await.unwrap();
    assert_eq!(told(&rest).last().unwrap(), "seq: ends");
    assert!(told(&rest).contains(&"c: c done".to_owned()));
}

#[tokio::test]
async fn an_agent_of_ones_own_knows_where_it_stood() {
    let own = || {
        FunctionAgent::new("own", |context: InvocationContext| {
            let steps = context.agent_state().and_then(|state| state["step"].as_u64()).unwrap_or_default();
            assert!(context.is_resumable());
            stream::iter((steps + 1..=3).map(move |step| {
                let mut event = context.event().with_content(format!("step {step}"));
                event.actions.agent_state = Some(Box::new([("step".to_owned(), json!(step))].into_iter().collect()));
                Ok(event)
            }))
        })
    };
    let service = app();
    cut_off(&resumable(&service, own()), 2).await;
    let runner = resumable(&service, own());
    let rest = run(&runner, again()).await.unwrap();
    assert_eq!(told(&rest), [r#"own: step 3 at {"step":3}"#, "own: ends"]);
    assert!(run(&runner, again()).await.unwrap().is_empty());
}

#[tokio::test]
async fn temp_keys_are_gone_and_everything_else_is_there() {
    let service = app();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let agent = || {
        let seen = Arc::clone(&seen);
        builder("agent", &["look?", "Found."])
            .tool(look(&ToolRuns::default()))
            .before_agent(move |context| {
                let state = context.state().to_map();
                seen.lock().unwrap().push((
                    state.get("temp:a").cloned(),
                    state.get("b").cloned(),
                    context.user_content().map(|c| c.text()),
                ));
                async { Ok(None) }
            })
            .build()
            .unwrap()
    };
    let runner = resumable(&service, agent());
    let delta = StateDelta::new().with("temp:a", 1).unwrap().with("b", 2).unwrap();
    let mut events = runner.run("user", "s", go().with_state_delta(delta));
    events.next().await.unwrap().unwrap();
    drop(events);
    run(&resumable(&service, agent()), again()).await.unwrap();
    let (one, two, text) = (Some(json!(1)), Some(json!(2)), Some("go".to_owned()));
    assert_eq!(*seen.lock().unwrap(), [(one, two.clone(), text.clone()), (None::<Value>, two, text)]);
}

#[tokio::test]
async fn callbacks_after_an_agent_run_once_it_is_done() {
    let count = ToolRuns::default();
    let agent = || {
        let count = count.clone();
        builder("agent", &["wait?", "Done."])
            .tool(wait(&ToolRuns::default()))
            .after_agent(move |_| {
                count.add();
                async { Ok(None) }
            })
            .build()
            .unwrap()
    };
    let service = app();
    // The run is cut off before the event that the agent is done.
    let first = builder("agent", &["Done."]).build().unwrap();
    cut_off(&resumable(&service, first), 1).await;
    run(&resumable(&service, agent()), again()).await.unwrap();
    run(&resumable(&service, agent()), again()).await.unwrap();
    assert_eq!(count.get(), 1);
}

/// An agent that runs one agent repeatedly, and does not support resumption.
#[derive(Debug)]
struct Repeats(Vec<Arc<dyn Agent>>);

impl Agent for Repeats {
    fn name(&self) -> &str {
        "repeats"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &self.0
    }

    fn run(&self, context: InvocationContext) -> scratchbook::agent::EventStream {
        let agent = Arc::clone(&self.0[0]);
        Box::pin(stream::iter(0..3).flat_map(move |_| agent.run(context.clone())))
    }
}

#[tokio::test]
async fn an_agent_of_ones_own_that_runs_others_finds_each_where_it_was_left_once() {
    let service = app();
    let agent = || Repeats(vec![Arc::new(builder("a", &["1", "2", "3", "4", "5"]).build().unwrap())]);
    cut_off(&resumable(&service, agent()), 2).await;
    let rest = run(&resumable(&service, agent()), again()).await.unwrap();
    assert_eq!(told(&rest), ["a: 2", "a: ends", "a: 3", "a: ends"], "its first turn had ended");
}
