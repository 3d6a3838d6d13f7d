//! Which uncommitted writes concurrent agents see of each other, and which of these writes are committed in the end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use scratchbook::agent::{
    CallbackContext, FunctionAgent, FunctionTool, InvocationContext, ParallelAgent, SequentialAgent, ToolContext,
};
use scratchbook::content::Part;
use scratchbook::event::EventActions;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Content, InMemorySessionService, LlmAgent, RunRequest, Runner, StateDelta, Store};
use serde_json::{Value, json};

use crate::runner::{ToolArgs, app, run, runner, stored};

async fn wait(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// A model that answers after a pause.
fn after(milliseconds: u64, text: &'static str) -> ScriptedLlm {
    ScriptedLlm::from_stream(move |_| {
        Box::pin(async_stream::stream! {
            wait(milliseconds).await;
            yield Ok(LlmResponse::text(text));
        })
    })
}

/// An agent that writes before it asks its model, whose answer takes a while.
fn slow(milliseconds: u64, write: impl Fn(&CallbackContext) + Send + Sync + 'static) -> LlmAgent {
    let agent = LlmAgent::builder("slow").model(after(milliseconds, "done"));
    let agent = agent.before_model(move |context, request| {
        write(&context);
        async move { Ok(ControlFlow::Continue(request)) }
    });
    agent.build().unwrap()
}

fn sets_k(context: &CallbackContext) {
    context.state().set("k", "cancelled").unwrap();
}

/// An agent that commits a value after a while and ends the agents beside it.
fn quick() -> FunctionAgent {
    FunctionAgent::new("quick", |context: InvocationContext| {
        async_stream::try_stream! {
            wait(5).await;
            let mut event = context.event().with_state_delta(StateDelta::new().with("k", "committed")?);
            event.actions.escalate = Some(true);
            yield event;
        }
    })
}

/// An agent that copies the value that it sees of one key to another key.
fn copies(name: &str, from: &'static str, to: &'static str) -> LlmAgent {
    let agent = LlmAgent::builder(name).model(ScriptedLlm::new(vec!["never said"; 9]));
    let agent = agent.before_agent(move |context| async move {
        let seen = context.state().get_or(from, Value::Null);
        context.state().set(to, seen)?;
        Ok(Some(Content::model("copied")))
    });
    agent.build().unwrap()
}

/// A tool that writes after one pause and answers after another.
fn writer(name: &'static str, before: u64, between: u64) -> FunctionTool {
    FunctionTool::new(name, "Writes.", move |_: ToolArgs, context: ToolContext| async move {
        wait(before).await;
        context.state().set("who", name)?;
        context.state().set("temp:who", name)?;
        wait(between).await;
        Ok(json!({"by": name}))
    })
}

#[tokio::test(start_paused = true)]
async fn of_parallel_calls_the_later_in_call_order_wins_also_beside_a_long_running_one_that_answers_at_once() {
    for (calls, winner) in [(["later", "plain"], "plain"), (["plain", "later"], "later")] {
        for (later, plain) in [((0, 0), (0, 0)), ((10, 0), (0, 0)), ((0, 10), (5, 0)), ((0, 0), (10, 5))] {
            let model = ScriptedLlm::new([LlmResponse::calls(calls.map(|name| (name, json!({})))), "Done.".into()]);
            let agent = LlmAgent::builder("agent")
                .model(model)
                .tool(writer("later", later.0, later.1).long_running())
                .tool(writer("plain", plain.0, plain.1))
                .after_agent(|context| async move {
                    context.state().set("seen", context.state().require("temp:who")?)?;
                    Ok(None)
                })
                .build()
                .unwrap();
            let runner = runner(agent);
            let events = run(&runner, "go").await.unwrap();
            assert_eq!(json!(events[1].actions.state_delta)["who"], winner, "{calls:?}: in the event");
            let state = json!(stored(&runner).await.state());
            assert_eq!(state, json!({"who": winner, "seen": winner}), "{calls:?} {later:?} {plain:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_parallel_calls_the_later_in_call_order_wins_a_temp_key_also_beside_a_long_running_one_without_an_answer() {
    for (calls, winner) in [(["later", "plain"], "plain"), (["plain", "later"], "later")] {
        for waits in [0, 10] {
            let later = FunctionTool::new("later", "Waits.", move |_: ToolArgs, context: ToolContext| async move {
                wait(waits).await;
                context.state().set("temp:who", "later")?;
                Ok(())
            });
            let agent = LlmAgent::builder("agent")
                .model(ScriptedLlm::new([LlmResponse::calls(calls.map(|name| (name, json!({})))), "Done.".into()]))
                .tool(later.long_running())
                .tool(writer("plain", 5, 0))
                .after_agent(|context| async move {
                    context.state().set("seen", context.state().require("temp:who")?)?;
                    Ok(None)
                })
                .build()
                .unwrap();
            let runner = runner(agent);
            let events = run(&runner, "go").await.unwrap();
            assert_eq!(
                json!(stored(&runner).await.state()),
                json!({"who": "plain", "seen": winner}),
                "{calls:?} {waits}"
            );
            let with_changes = events.iter().filter(|event| event.actions != EventActions::default());
            assert_eq!(with_changes.count(), 2, "the answer of `plain`, and what `after_agent` wrote: {events:?}");
        }
    }
}

/// What other calls see between the return of the calls and their commit.
#[tokio::test(start_paused = true)]
async fn of_parallel_calls_that_have_returned_others_see_what_will_be_committed() {
    let names = ["first", "second", "third"];
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&seen);
    // The first call writes last. The third reads the state when the other two have returned.
    let looks = FunctionTool::new("third", "Looks.", move |_: ToolArgs, context: ToolContext| {
        let kept = Arc::clone(&kept);
        async move {
            wait(30).await;
            kept.lock().unwrap().push(context.state().get_or("who", Value::Null));
            Ok(())
        }
    });
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([LlmResponse::calls(names.map(|name| (name, json!({})))), "Done.".into()]))
        .tool(writer("first", 10, 0))
        .tool(writer("second", 0, 0))
        .tool(looks)
        .build()
        .unwrap();
    let runner = runner(agent);
    run(&runner, "go").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("who"), Some(&json!("second")));
    assert_eq!(*seen.lock().unwrap(), [json!("second")], "the later in call order, not in time");
}

fn saver(name: &'static str, before: u64) -> FunctionTool {
    FunctionTool::new(name, "Saves.", move |_: ToolArgs, context: ToolContext| async move {
        wait(before).await;
        Ok(json!({"version": context.save_artifact("note.txt", Part::text(name)).await?}))
    })
}

fn with_artifacts(agent: impl Agent) -> (Runner, Arc<InMemorySessionService>) {
    let service = app();
    let runner = Runner::builder("app", agent, Arc::clone(&service)).artifacts(Arc::clone(&service));
    (runner.auto_create_session().build().unwrap(), service)
}

#[tokio::test(start_paused = true)]
async fn of_versions_of_one_artifact_an_event_names_the_largest() {
    for long_running in [false, true] {
        for (first, second) in [(10, 0), (0, 10)] {
            let one = saver("one", first);
            let calls = LlmResponse::calls(["one", "two"].map(|name| (name, json!({}))));
            let agent = LlmAgent::builder("agent")
                .model(ScriptedLlm::new([calls, "Done.".into()]))
                .tool(if long_running { one.long_running() } else { one })
                .tool(saver("two", second))
                .build()
                .unwrap();
            let (runner, _) = with_artifacts(agent);
            let events = run(&runner, "go").await.unwrap();
            assert_eq!(json!(events[1].actions.artifact_delta), json!({"note.txt": 1}), "{first} {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rewind_brings_back_the_newest_version_of_an_artifact_that_parallel_calls_saved() {
    let both = LlmResponse::calls(["one", "two"].map(|name| (name, json!({}))));
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([both, "Done.".into(), LlmResponse::call("three", json!({})), "Again.".into()]))
        .tool(saver("one", 10))
        .tool(saver("two", 0))
        .tool(saver("three", 0))
        .build()
        .unwrap();
    let (runner, service) = with_artifacts(agent);
    run(&runner, "go").await.unwrap();
    let second = run(&runner, "again").await.unwrap();
    let key = stored(&runner).await.key().clone();
    Store::new(service).rewind(&key, &second[0].invocation_id).await.unwrap();
    let artifact = runner.artifact_service().unwrap().load_artifact(&key, "note.txt", None).await.unwrap();
    assert_eq!(artifact.and_then(|part| part.text).as_deref(), Some("one"), "the version that was saved last");
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_parallel_agent_wrote_is_gone_before_the_next_agent_runs() {
    for _ in 0..20 {
        let both = ParallelAgent::new("both", vec![Arc::new(quick()), Arc::new(slow(60_000, sets_k))]);
        let top = SequentialAgent::new("top", vec![Arc::new(both), Arc::new(copies("next", "k", "kept"))]);
        let runner = runner(top);
        run(&runner, "go").await.unwrap();
        let state = json!(stored(&runner).await.state());
        assert_eq!(state, json!({"k": "committed", "kept": "committed"}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_cancelled_agents_is_left_however_deep_they_run() {
    for _ in 0..20 {
        let deepest = ParallelAgent::new("deepest", vec![Arc::new(slow(60_000, sets_k))]);
        let deeper = ParallelAgent::new("deeper", vec![Arc::new(deepest)]);
        let beside = SequentialAgent::new("beside", vec![Arc::new(deeper)]);
        let both = ParallelAgent::new("both", vec![Arc::new(quick()), Arc::new(beside)]);
        let top = SequentialAgent::new("top", vec![Arc::new(both), Arc::new(copies("next", "k", "kept"))]);
        let runner = runner(top);
        run(&runner, "go").await.unwrap();
        assert_eq!(stored(&runner).await.state().get("kept"), Some(&json!("committed")));
    }
}

/// The cancelled agents end even while a callback is running, and even in a parallel agent within another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_of_cancelled_agents_runs_any_more_when_the_next_agent_begins_however_deep_they_are() {
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    let blocks = slow(60_000, move |_| {
        std::thread::sleep(Duration::from_millis(60));
        flag.store(true, Ordering::SeqCst);
    });
    let deepest = ParallelAgent::new("deepest", vec![Arc::new(blocks)]);
    let deeper = ParallelAgent::new("deeper", vec![Arc::new(deepest)]);
    let beside = SequentialAgent::new("beside", vec![Arc::new(deeper)]);
    let both = ParallelAgent::new("both", vec![Arc::new(quick()), Arc::new(beside)]);
    let next = FunctionAgent::new("next", move |context: InvocationContext| {
        let has_run = Arc::clone(&has_run);
        stream::once(async move {
            let first = has_run.load(Ordering::SeqCst);
            wait(100).await;
            let runs = first != has_run.load(Ordering::SeqCst);
            Ok(context.event().with_state_delta(StateDelta::new().with("still_runs", runs)?))
        })
    });
    let runner = runner(SequentialAgent::new("top", vec![Arc::new(both), Arc::new(next)]));
    run(&runner, "go").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("still_runs"), Some(&json!(false)));
}

#[tokio::test(start_paused = true)]
async fn a_context_of_a_cancelled_agent_refuses_to_write() {
    let slot: Arc<Mutex<Option<CallbackContext>>> = Arc::default();
    let kept = Arc::clone(&slot);
    let keeps = slow(60_000, move |context| *kept.lock().unwrap() = Some(context.clone()));
    let both = ParallelAgent::new("both", vec![Arc::new(quick()), Arc::new(keeps)]);
    run(&runner(both), "go").await.unwrap();
    let context = slot.lock().unwrap().take().unwrap();
    assert_eq!(context.state().set("k", 1).unwrap_err().kind(), scratchbook::ErrorKind::FailedPrecondition);
    assert_eq!(context.state().get("k"), Some(json!("committed")));
}

/// A parent that continues after a parallel agent has failed sees none of its uncommitted writes.
#[tokio::test(start_paused = true)]
async fn what_the_siblings_of_a_failed_parallel_agent_wrote_is_gone() {
    let fails = FunctionAgent::new("fails", |_| {
        async_stream::stream! {
            wait(5).await;
            yield Err(scratchbook::Error::new(scratchbook::ErrorKind::Internal, "broken"));
        }
    });
    let both: Arc<dyn Agent> =
        Arc::new(ParallelAgent::new("both", vec![Arc::new(fails), Arc::new(slow(60_000, sets_k))]));
    let parent = FunctionAgent::new("parent", move |context: InvocationContext| {
        let mut events = both.run(context.clone());
        async_stream::try_stream! {
            while let Some(event) = futures_util::StreamExt::next(&mut events).await {
                if let Ok(event) = event {
                    yield event;
                }
            }
            let kept = context.state().get("k").cloned();
            yield context.for_agent("parent").event().with_state_delta(StateDelta::new().with("kept", &kept)?);
        }
    });
    let runner = runner(parent);
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"kept": null}));
}

/// Commits a value after 40 ms and notes what it sees 80 ms later.
fn fast() -> FunctionAgent {
    FunctionAgent::new("fast", |context: InvocationContext| {
        async_stream::try_stream! {
            wait(40).await;
            yield context.event().with_state_delta(StateDelta::new().with("k", "newer")?);
            wait(80).await;
            let seen = context.state().get("k").cloned();
            yield context.event().with_state_delta(StateDelta::new().with("seen", &seen)?);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_committed_value_is_seen_in_place_of_an_older_pending_one_of_a_sibling() {
    let sets = |context: &CallbackContext| context.state().set("k", "older").unwrap();
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(slow(250, sets)), Arc::new(fast())]));
    run(&runner, "go").await.unwrap();
    let state = json!(stored(&runner).await.state());
    assert_eq!(state, json!({"k": "older", "seen": "newer"}), "the later commit has the last word");
}

#[tokio::test(start_paused = true)]
async fn a_newer_pending_value_of_a_sibling_is_seen_in_place_of_a_committed_one() {
    let agent = LlmAgent::builder("slow").model(after(250, "done")).before_model(|context, request| async move {
        wait(80).await;
        context.state().set("k", "newest")?;
        Ok(ControlFlow::Continue(request))
    });
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(agent.build().unwrap()), Arc::new(fast())]));
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"k": "newest", "seen": "newest"}));
}

#[tokio::test(start_paused = true)]
async fn ones_own_pending_value_is_seen_before_any_other() {
    let agent = LlmAgent::builder("slow").model(after(250, "done")).before_model(|context, request| async move {
        context.state().set("k", "own")?;
        wait(80).await;
        assert_eq!(context.state().get("k"), Some(json!("own")), "another has committed meanwhile");
        assert_eq!(context.state().snapshot().get("k"), Some(&json!("own")));
        assert_eq!(context.state().set_default("k", "default")?, json!("own"));
        context.state().set("checked", true)?;
        Ok(ControlFlow::Continue(request))
    });
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(agent.build().unwrap()), Arc::new(fast())]));
    run(&runner, "go").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("checked"), Some(&json!(true)));
}

/// All callbacks of an agent see what the agent's callbacks have written for the same event.
#[tokio::test(start_paused = true)]
async fn a_callback_sees_what_an_earlier_one_wrote_for_the_same_event_before_any_other_value() {
    let agent = LlmAgent::builder("slow").model(after(250, "done")).before_model(|context, request| async move {
        context.state().set("k", "own")?;
        Ok(ControlFlow::Continue(request))
    });
    let agent = agent.after_model(|context, response| async move {
        assert_eq!(context.state().snapshot().get("k"), Some(&json!("own")));
        context.state().set("copied", context.state().require("k")?)?;
        Ok(response)
    });
    let beside = LlmAgent::builder("beside").model(after(250, "done")).before_model(|context, request| async move {
        wait(80).await;
        context.state().set("k", "newer, and pending")?;
        Ok(ControlFlow::Continue(request))
    });
    let slow = Arc::new(agent.build().unwrap());
    for beside in [None, Some(Arc::new(beside.build().unwrap()))] {
        let beside = beside.into_iter().map(|agent| agent as Arc<dyn Agent>);
        let agents = [Arc::clone(&slow) as Arc<dyn Agent>, Arc::new(fast())];
        let runner = runner(ParallelAgent::new("par", agents.into_iter().chain(beside).collect()));
        run(&runner, "go").await.unwrap();
        assert_eq!(stored(&runner).await.state().get("copied"), Some(&json!("own")));
    }
}

/// An operation is applied to the present value, so it also counts on top of a later commit.
#[tokio::test(start_paused = true)]
async fn a_pending_operation_of_a_sibling_is_seen_on_top_of_what_is_committed() {
    let adds = |context: &CallbackContext| context.state().increment("n", 1).unwrap();
    let fast = FunctionAgent::new("fast", |context: InvocationContext| {
        async_stream::try_stream! {
            wait(10).await;
            yield context.event().with_state_delta(StateDelta::new().with("n", 10)?);
            let seen = context.state().get("n").cloned();
            yield context.event().with_state_delta(StateDelta::new().with("seen", &seen)?);
        }
    });
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(slow(250, adds)), Arc::new(fast)]));
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"n": 11, "seen": 11}));
}

#[tokio::test(start_paused = true)]
async fn an_instruction_is_filled_with_the_newest_value() {
    let model = ScriptedLlm::new(["Hi."]);
    let late = LlmAgent::builder("late").model(model.clone()).instruction("k={k}");
    let late = late.before_agent(|_| async {
        wait(20).await;
        Ok(None)
    });
    let commits = FunctionAgent::new("commits", |context: InvocationContext| {
        stream::once(async move {
            wait(10).await;
            Ok(context.event().with_state_delta(StateDelta::new().with("k", "newer")?))
        })
    });
    let sets = |context: &CallbackContext| context.state().set("k", "older").unwrap();
    let agents: Vec<Arc<dyn Agent>> =
        vec![Arc::new(slow(250, sets)), Arc::new(commits), Arc::new(late.build().unwrap())];
    run(&runner(ParallelAgent::new("par", agents)), RunRequest::message("go")).await.unwrap();
    assert_eq!(crate::runner::own_instruction(&model.requests()[0]), "k=newer");
}
