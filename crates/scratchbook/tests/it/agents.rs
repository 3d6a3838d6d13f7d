//! Agents: output keys, callbacks, workflow agents, transfer.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::StreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{
    FunctionAgent, FunctionTool, InvocationContext, LoopAgent, ParallelAgent, SequentialAgent, ToolContext,
};
use scratchbook::content::Part;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Content, ErrorKind, LlmAgent, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::runner::{own_instruction, run, runner, stored};

fn says(name: &str, text: &str) -> LlmAgent {
    LlmAgent::builder(name).model(ScriptedLlm::new(vec![text; 50])).output_key(format!("{name}_said")).build().unwrap()
}

#[tokio::test]
async fn output_key_holds_the_final_text_without_thoughts() {
    let thought = Part { thought: Some(true), ..Part::text("hmm") };
    let content = Content::new("model", vec![thought, Part::text("Hello "), Part::text("there!")]);
    let answer = LlmResponse { content: Some(content), ..LlmResponse::default() };
    for (key, shown) in [("last_greeting", true), ("user:greeting", true), ("temp:greeting", false)] {
        let agent =
            LlmAgent::builder("Greeter").model(ScriptedLlm::new([answer.clone()])).output_key(key).build().unwrap();
        let runner = runner(agent);
        run(&runner, "Hello").await.unwrap();
        let session = stored(&runner).await;
        assert_eq!(session.state().get(key), shown.then_some(&json!("Hello there!")), "{key}");
    }
}

#[tokio::test]
async fn output_key_is_seen_by_the_agents_that_follow() {
    let model = ScriptedLlm::new(["Better."]);
    let editor = LlmAgent::builder("editor").model(model.clone()).instruction("Edit: {writer_said}").build().unwrap();
    let both = SequentialAgent::new("both", vec![Arc::new(says("writer", "A draft.")), Arc::new(editor)]);
    run(&runner(both), "go").await.unwrap();
    assert_eq!(own_instruction(&model.requests()[0]), "Edit: A draft.");
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its shape is wanted")]
pub(crate) struct City {
    name: String,
    people: u64,
}

#[tokio::test]
async fn with_an_output_type_the_parsed_value_is_stored() {
    let city = |text: &str| {
        let model = ScriptedLlm::new([text.to_owned()]);
        let agent =
            LlmAgent::builder("a").model(model.clone()).output_key("city").output_type::<City>().build().unwrap();
        (runner(agent), model)
    };
    let (good, model) = city(r#"{"name": "Bern", "people": 134000}"#);
    run(&good, "go").await.unwrap();
    assert_eq!(stored(&good).await.state().get("city"), Some(&json!({"name": "Bern", "people": 134_000})));
    assert_eq!(model.requests()[0].output_schema.as_ref().unwrap()["properties"]["people"]["type"], "integer");
    let (fenced, _) = city("```json\n{\"name\": \"Bern\", \"people\": 1}\n```");
    run(&fenced, "go").await.unwrap();
    assert_eq!(stored(&fenced).await.state().get("city"), Some(&json!({"name": "Bern", "people": 1})));
    let (blank, _) = city("  ");
    run(&blank, "go").await.unwrap();
    assert!(stored(&blank).await.state().is_empty());
    let (bad, _) = city(r#"{"name": "Bern"}"#);
    let error = run(&bad, "go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(stored(&bad).await.state().is_empty());
}

#[tokio::test]
async fn callbacks_write_state_and_each_later_reader_sees_it_at_once() {
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Hi."]))
        .instruction("count={count} temp={temp:t}")
        .before_agent(|context| async move {
            let count = context.state().get_as::<u64>("user_action_count")?.unwrap_or(0);
            context.state().set("user_action_count", count + 1)?;
            context.state().set("temp:t", "seen")?;
            context.state().set("count", 1)?;
            Ok(None)
        })
        .before_agent(|context| async move {
            assert_eq!(context.state().get("count"), Some(json!(1)));
            context.state().set("count", 2)?;
            Ok(None)
        })
        .before_model(|context, mut request| async move {
            assert_eq!(own_instruction(&request), "count=2 temp=seen");
            request.system_instruction = Some("changed".to_owned());
            context.state().set("model_calls", 1)?;
            Ok(ControlFlow::Continue(request))
        })
        .after_model(|context, mut response| async move {
            assert_eq!(context.state().get("model_calls"), Some(json!(1)));
            context.state().set("after", true)?;
            response.content = Some(Content::model("Changed."));
            Ok(response)
        })
        .after_agent(|context| async move {
            assert_eq!(context.state().get("after"), Some(json!(true)));
            assert_eq!(context.state().get("said"), Some(json!("Changed.")));
            context.state().remove("count")?;
            Ok(Some(Content::model("Bye.")))
        })
        .output_key("said")
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(events.len(), 3, "before_agent's writes, the model's answer, after_agent's content");
    assert_eq!(events[0].content, None);
    assert_eq!(json!(events[0].actions.state_delta), json!({"user_action_count": 1, "count": 2}));
    assert_eq!(json!(events[1].actions.state_delta), json!({"model_calls": 1, "after": true, "said": "Changed."}));
    assert_eq!(events[2].content, Some(Content::model("Bye.")));
    let state = json!(stored(&runner).await.state());
    assert_eq!(state, json!({"user_action_count": 1, "model_calls": 1, "after": true, "said": "Changed."}));
}

#[tokio::test]
async fn callbacks_can_answer_in_the_place_of_agent_and_model() {
    let silent = ScriptedLlm::new(["never said"]);
    let agent = LlmAgent::builder("agent")
        .model(silent.clone())
        .before_agent(|context| async move {
            context.state().set("skipped", true)?;
            Ok(Some(Content::model("Not now.")))
        })
        .build()
        .unwrap();
    let skipping = runner(agent);
    let events = run(&skipping, "go").await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].content, Some(Content::model("Not now.")));
    assert_eq!(stored(&skipping).await.state().get("skipped"), Some(&json!(true)));
    let agent = LlmAgent::builder("agent")
        .model(silent.clone())
        .before_model(|_, _| async { Ok(ControlFlow::Break(LlmResponse::text("From the cache."))) })
        .after_model(|_, _| async { Ok(LlmResponse::text("no callback after a model sees what it has not said")) })
        .output_key("said")
        .build()
        .unwrap();
    let cached = runner(agent);
    run(&cached, "go").await.unwrap();
    assert_eq!(stored(&cached).await.state().get("said"), Some(&json!("From the cache.")));
    assert!(silent.requests().is_empty());
}

#[tokio::test]
async fn agents_whose_names_are_no_identifiers_are_refused_when_built() {
    for name in ["", "user", "two words", "a-b", "1a", "a.b", "a@1"] {
        let built = LlmAgent::builder(name).model(ScriptedLlm::new(["Hi."])).build();
        assert_eq!(built.unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
        let workflow = SequentialAgent::new(name, vec![Arc::new(says("below", "Hi."))]);
        let built = scratchbook::Runner::builder("app", workflow, crate::runner::app()).build();
        assert_eq!(built.unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
    }
    for name in ["_a1", "Häuser", "class", "エージェント"] {
        LlmAgent::builder(name).model(ScriptedLlm::new(["Hi."])).build().unwrap();
    }
}

#[tokio::test]
async fn what_a_callback_discards_leaves_nothing() {
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Hi."]))
        .before_agent(|context| async move {
            context.state().set("a", 1)?;
            assert!(context.state().has_delta());
            context.state().discard();
            assert!(!context.state().has_delta());
            assert_eq!(context.state().set_default("b", 2)?, json!(2));
            assert_eq!(context.state().get_or("none", "x"), json!("x"));
            assert_eq!(context.state().require("none").unwrap_err().kind(), ErrorKind::NotFound);
            Ok(None)
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"b": 2}));
}

#[tokio::test]
async fn sequential_parallel_and_loop_share_one_invocation() {
    let mark = |name: &str| -> Arc<dyn Agent> {
        let own = name.to_owned();
        Arc::new(FunctionAgent::new(name, move |context: InvocationContext| {
            let own = own.clone();
            async_stream::try_stream! {
                let mut seen: Vec<String> = context.state().get_as("temp:seen")?.unwrap_or_default();
                seen.push(own);
                let delta = StateDelta::new().with("temp:seen", &seen)?.with("seen", &seen)?;
                yield context.event().with_state_delta(delta);
            }
        }))
    };
    let nested = SequentialAgent::new("inner", vec![mark("b"), mark("c")]);
    let repeated = LoopAgent::new("loop", vec![mark("d")]).with_max_iterations(2);
    let parallel = ParallelAgent::new("par", vec![mark("e")]);
    let top = SequentialAgent::new("top", vec![mark("a"), Arc::new(nested), Arc::new(repeated), Arc::new(parallel)]);
    let runner = runner(top);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("seen"), Some(&json!(["a", "b", "c", "d", "d", "e"])));
    assert!(events.iter().all(|event| event.invocation_id == events[0].invocation_id));
}

#[tokio::test]
async fn a_loop_ends_when_an_agent_escalates_after_that_agents_turn() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        async_stream::try_stream! {
            let n = context.state().get_as::<u64>("n")?.unwrap_or(0) + 1;
            let mut event = context.event().with_state_delta(StateDelta::new().with("n", n)?);
            event.actions.escalate = (n == 3).then_some(true);
            yield event;
            yield context.event().with_state_delta(StateDelta::new().with("after", n)?);
        }
    });
    let never = FunctionAgent::new("next", |context: InvocationContext| {
        let n = context.state().get_as::<u64>("n").unwrap().unwrap();
        assert!(n < 3, "the agent after the one that escalated does not run");
        futures_util::stream::empty()
    });
    let runner = runner(LoopAgent::new("loop", vec![Arc::new(agent), Arc::new(never)]));
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"n": 3, "after": 3}));
}

#[tokio::test]
async fn parallel_children_run_on_branches_and_wait_for_their_events_to_be_taken() {
    let child = |name: &'static str| -> Arc<dyn Agent> {
        Arc::new(FunctionAgent::new(name, move |context: InvocationContext| {
            async_stream::try_stream! {
                for n in 1..=3 {
                    yield context.event().with_state_delta(StateDelta::new().with(name, n)?);
                    assert_eq!(context.session().state().get(name), Some(&json!(n)), "committed before it goes on");
                }
            }
        }))
    };
    let inner = ParallelAgent::new("inner", vec![child("c")]);
    let runner = runner(ParallelAgent::new("par", vec![child("a"), child("b"), Arc::new(inner)]));
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(events.len(), 9);
    for event in &events {
        let branch = match event.author.as_str() {
            "c" => "par.inner.inner.c".to_owned(),
            name => format!("par.{name}"),
        };
        assert_eq!(event.branch.as_deref(), Some(branch.as_str()));
    }
    assert_eq!(json!(stored(&runner).await.state()), json!({"a": 3, "b": 3, "c": 3}));
}

#[tokio::test]
async fn branches_do_not_see_each_other_and_other_agents_are_told_as_such() {
    let model = ScriptedLlm::from_fn(|_| Ok("Hi.".into()));
    let a = LlmAgent::builder("a").model(model.clone()).build().unwrap();
    let b = LlmAgent::builder("b").model(model.clone()).build().unwrap();
    let last = ScriptedLlm::from_fn(|_| Ok("Sum.".into()));
    let sum = LlmAgent::builder("sum").model(last.clone()).build().unwrap();
    let both = ParallelAgent::new("par", vec![Arc::new(a), Arc::new(b)]);
    run(&runner(SequentialAgent::new("top", vec![Arc::new(both), Arc::new(sum)])), "go").await.unwrap();
    assert!(model.requests().iter().all(|request| request.contents == [Content::user("go")]));
    let told: Vec<String> = last.requests()[0].contents.iter().map(Content::text).collect();
    assert_eq!(told.len(), 3);
    assert!(told[1].starts_with("For context: below is a transcript of what another agent did"), "{told:?}");
    let quote = "said:\n<<<BEGIN_QUOTED_AGENT_CONTENT>>>\nHi.\n<<<END_QUOTED_AGENT_CONTENT>>>";
    assert!(told[1].ends_with(quote), "{told:?}");
}

#[tokio::test]
async fn a_conversation_is_handed_over_and_stays_there() {
    let refunds = LlmAgent::builder("refunds")
        .description("Handles refunds")
        .model(ScriptedLlm::new(["Refunded.", "Still me."]))
        .build()
        .unwrap();
    let root_model =
        ScriptedLlm::new([LlmResponse::call("transfer_to_agent", json!({"agent_name": "refunds"})), "Root.".into()]);
    let root = LlmAgent::builder("root").model(root_model.clone()).sub_agent(refunds).build().unwrap();
    let runner = runner(root);
    let events = run(&runner, "I want my money back").await.unwrap();
    let authors: Vec<_> = events.iter().map(|event| event.author.as_str()).collect();
    assert_eq!(authors, ["root", "root", "refunds"]);
    assert_eq!(events[1].actions.transfer_to_agent.as_deref(), Some("refunds"));
    let request = &root_model.requests()[0];
    assert!(
        request
            .system_instruction
            .as_deref()
            .unwrap()
            .contains("\nAgent name: refunds\nAgent description: Handles refunds\n")
    );
    assert_eq!(request.tools[0].parameters_json_schema["properties"]["agent_name"]["enum"], json!(["refunds"]));
    let events = run(&runner, "Thanks").await.unwrap();
    assert_eq!(events[0].author, "refunds", "the next message goes to the agent that was handed the conversation");
}

#[tokio::test]
async fn what_is_added_after_a_hand_over_does_not_take_the_conversation_back() {
    for says in [None, Some("Root has handed over.")] {
        let sub = LlmAgent::builder("sub").model(ScriptedLlm::new(["I am sub.", "Still sub."])).build().unwrap();
        let to_sub = LlmResponse::call("transfer_to_agent", json!({"agent_name": "sub"}));
        let root = LlmAgent::builder("root").model(ScriptedLlm::new([to_sub, "Root again.".into()])).sub_agent(sub);
        let root = root.after_agent(move |context| async move {
            context.state().set("handed_over", true)?;
            Ok(says.map(Content::model))
        });
        let runner = runner(root.build().unwrap());
        let events = run(&runner, "go").await.unwrap();
        assert_eq!(events.last().unwrap().author, "root");
        let events = run(&runner, "and now?").await.unwrap();
        assert_eq!(events[0].author, "sub");
    }
}

#[tokio::test]
async fn an_unknown_agent_to_hand_over_to_is_told_to_the_model() {
    let other = says("other", "Hi.");
    let turns = [LlmResponse::call("transfer_to_agent", json!({"agent_name": "nobody"})), "Then I do it.".into()];
    let root = LlmAgent::builder("root").model(ScriptedLlm::new(turns)).sub_agent(other).build().unwrap();
    let events = run(&runner(root), "go").await.unwrap();
    assert_eq!(events.len(), 3);
    let answer = events[1].function_responses().next().unwrap();
    assert!(json!(answer.response)["error"].as_str().unwrap().contains("'nobody'"));
}

#[tokio::test]
async fn an_answer_to_a_call_goes_to_the_agent_that_made_it() {
    let sub = LlmAgent::builder("sub")
        .model(ScriptedLlm::new([LlmResponse::call("ask", json!({})), "Thanks.".into()]))
        .tool(
            scratchbook::agent::FunctionTool::new(
                "ask",
                "Asks.",
                |_: serde_json::Map<String, serde_json::Value>, _| async { Ok(()) },
            )
            .long_running(),
        )
        .build()
        .unwrap();
    let top = SequentialAgent::new("top", vec![Arc::new(sub)]);
    let runner = runner(top);
    let events = run(&runner, "go").await.unwrap();
    let call = events[0].function_calls().next().unwrap().clone();
    let answer = scratchbook::content::FunctionResponse {
        id: call.id,
        name: call.name,
        response: Some(serde_json::Map::from_iter([("result".to_owned(), json!(42))])),
        ..Default::default()
    };
    let content = Content::new("user", vec![Part { function_response: Some(answer.into()), ..Part::default() }]);
    let events = run(&runner, content).await.unwrap();
    assert_eq!(events[0].author, "sub");
    assert_eq!(events[0].content, Some(Content::model("Thanks.")));
}

#[tokio::test]
async fn dropping_a_parallel_run_ends_its_children() {
    let flag = Arc::new(());
    let held = Arc::clone(&flag);
    let forever = FunctionAgent::new("forever", move |context: InvocationContext| {
        let held = Arc::clone(&held);
        async_stream::try_stream! {
            yield context.event();
            std::future::pending::<()>().await;
            drop(held);
        }
    });
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(forever)]));
    let mut events = runner.run("user", "s", "go");
    events.next().await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&flag), 3);
    drop(events);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&flag), 2, "the child's stream is gone");
}

#[tokio::test]
async fn agents_that_hand_over_to_each_other_for_ever_reach_the_bound_and_not_the_end_of_the_stack() {
    let hands_to = |name: &str, other: &'static str| {
        let model =
            ScriptedLlm::from_fn(move |_| Ok(LlmResponse::call("transfer_to_agent", json!({"agent_name": other}))));
        LlmAgent::builder(name).model(model)
    };
    let ping = hands_to("ping", "pong").build().unwrap();
    let pong = hands_to("pong", "ping").build().unwrap();
    let root = hands_to("root", "ping").sub_agent(ping).sub_agent(pong).build().unwrap();
    let error = run(&runner(root), "go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
}

#[tokio::test]
async fn callbacks_after_a_turn_run_when_what_it_led_to_is_over() {
    let sub = LlmAgent::builder("sub")
        .model(ScriptedLlm::new(["Done."]))
        .after_agent(|context| async move {
            context.state().set("order", json!(["sub"]))?;
            Ok(None)
        })
        .build()
        .unwrap();
    let root = LlmAgent::builder("root")
        .model(ScriptedLlm::new([LlmResponse::call("transfer_to_agent", json!({"agent_name": "sub"}))]))
        .sub_agent(sub)
        .after_agent(|context| async move {
            let mut order: Vec<String> = context.state().get_as("order")?.unwrap_or_default();
            order.push("root".to_owned());
            context.state().set("order", &order)?;
            Ok(None)
        })
        .build()
        .unwrap();
    let runner = runner(root);
    run(&runner, "go").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("order"), Some(&json!(["sub", "root"])));
}

/// A parent that passes on its child's events; `keep` decides which.
#[derive(Debug)]
struct Parent {
    child: Arc<dyn Agent>,
    keep: fn(&scratchbook::Event) -> bool,
}

impl Agent for Parent {
    fn name(&self) -> &'static str {
        "parent"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        std::slice::from_ref(&self.child)
    }

    fn run(&self, context: InvocationContext) -> scratchbook::agent::EventStream {
        let (mut events, keep) = (self.child.run(context.clone()), self.keep);
        Box::pin(async_stream::try_stream! {
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) if keep(&event) => yield event,
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
            drop(events);
            let seen = context.state().get("x").cloned();
            yield context.for_agent("parent").event().with_state_delta(StateDelta::new().with("seen", &seen)?);
        })
    }
}

#[tokio::test]
async fn what_was_written_for_an_event_that_is_never_appended_leaves_nothing() {
    let child = || {
        LlmAgent::builder("child").model(ScriptedLlm::new(["Hi."])).before_model(|context, request| async move {
            context.state().set("x", "pending")?;
            Ok(ControlFlow::Continue(request))
        })
    };
    let swallowed = Parent { child: Arc::new(child().build().unwrap()), keep: |_| false };
    let failing = child().before_agent(|context| async move {
        context.state().set("x", "pending")?;
        Err(scratchbook::Error::new(ErrorKind::Internal, "broken"))
    });
    let caught = Parent { child: Arc::new(failing.build().unwrap()), keep: |_| false };
    for parent in [swallowed, caught] {
        let runner = runner(parent);
        run(&runner, "go").await.unwrap();
        assert_eq!(json!(stored(&runner).await.state()), json!({"seen": null}));
    }
}

#[tokio::test]
async fn a_failing_callback_loses_its_own_writes_and_those_before_it_travel_with_the_failure() {
    let agent = |failing: &str| {
        let builder = LlmAgent::builder("agent").model(ScriptedLlm::new(["Hi."]));
        match failing {
            "after_model" => builder
                .after_model(|context, response| async move {
                    context.state().set("first", 1)?;
                    Ok(response)
                })
                .after_model(|context, _| async move {
                    context.state().set("second", 2)?;
                    Err(scratchbook::Error::new(ErrorKind::PermissionDenied, "guard says no"))
                }),
            "before_model" => builder
                .before_model(|context, request| async move {
                    context.state().set("first", 1)?;
                    Ok(ControlFlow::Continue(request))
                })
                .before_model(|context, _| async move {
                    context.state().set("second", 2)?;
                    Err(scratchbook::Error::new(ErrorKind::PermissionDenied, "guard says no"))
                }),
            _ => builder
                .before_agent(|context| async move {
                    context.state().set("first", 1)?;
                    Ok(None)
                })
                .before_agent(|context| async move {
                    context.state().set("second", 2)?;
                    Err(scratchbook::Error::new(ErrorKind::PermissionDenied, "guard says no"))
                }),
        }
    };
    for failing in ["before_agent", "before_model", "after_model"] {
        let runner = runner(agent(failing).build().unwrap());
        let items: Vec<_> = runner.run("user", "s", "go").collect().await;
        assert_eq!(items.len(), 2);
        let event = items[0].as_ref().unwrap();
        assert_eq!(event.error_code.as_deref(), Some("PERMISSION_DENIED"));
        assert_eq!(event.error_message.as_deref(), Some("guard says no"));
        assert_eq!(json!(stored(&runner).await.state()), json!({"first": 1}));
    }
}

#[tokio::test]
async fn each_failure_that_ends_a_turn_is_told_once() {
    let failing = FunctionAgent::new("failing", |_| {
        futures_util::stream::iter([Err(scratchbook::Error::new(ErrorKind::Internal, "broken"))])
    });
    let caught = Parent { child: Arc::new(failing), keep: |_| true };
    let last = FunctionAgent::new("last", |_| {
        futures_util::stream::iter([Err(scratchbook::Error::new(ErrorKind::Internal, "broken again"))])
    });
    let runner = runner(SequentialAgent::new("top", vec![Arc::new(caught), Arc::new(last)]));
    let items: Vec<_> = runner.run("user", "s", "go").collect().await;
    let told: Vec<_> = items.iter().flatten().filter_map(|event| event.error_message.as_deref()).collect();
    assert_eq!(told, ["broken", "broken again"]);
    assert!(items.last().unwrap().is_err());
}

#[tokio::test]
async fn a_panic_of_an_agent_or_callback_ends_the_run_with_an_event_that_tells_of_it() {
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Hi."]))
        .before_agent(|_| async { panic!("a defect in a callback") })
        .build()
        .unwrap();
    for runner in [runner(agent.clone()), runner(ParallelAgent::new("par", vec![Arc::new(agent)]))] {
        let items: Vec<_> = runner.run("user", "s", "go").collect().await;
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].as_ref().unwrap().error_code.as_deref(), Some("INTERNAL"));
        run(&runner, "again").await.unwrap_err();
    }
}

#[tokio::test]
async fn a_context_that_outlives_its_event_refuses_to_write() {
    let slot: Arc<std::sync::Mutex<Option<scratchbook::agent::CallbackContext>>> = Arc::default();
    let kept = Arc::clone(&slot);
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["Hi."]))
        .before_agent(move |context| {
            *kept.lock().unwrap() = Some(context.clone());
            async move {
                context.state().set("a", 1)?;
                Ok(None)
            }
        })
        .build()
        .unwrap();
    run(&runner(agent), "go").await.unwrap();
    let context = slot.lock().unwrap().take().unwrap();
    assert_eq!(context.state().set("z", 1).unwrap_err().kind(), ErrorKind::FailedPrecondition);
    assert_eq!(context.state().get("a"), Some(json!(1)), "it can still be read");
    for late in [
        context.escalate(),
        context.transfer_to_agent("agent"),
        context.update_actions(|actions| actions.skip_summarization = Some(true)),
        context.save_artifact("late.txt", Part::text("late")).await.map(|_| ()),
    ] {
        let error = late.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("the event of this context is done"), "{error}");
    }
}

#[tokio::test]
async fn tool_that_goes_on_after_it_has_returned_can_add_no_action() {
    let slot: Arc<std::sync::Mutex<Option<scratchbook::agent::ToolContext>>> = Arc::default();
    let kept = Arc::clone(&slot);
    let tool = FunctionTool::new("act", "Acts.", move |_: Map<String, Value>, context: ToolContext| {
        *kept.lock().unwrap() = Some(context.clone());
        async move {
            context.skip_summarization()?;
            Ok("done")
        }
    });
    let model = ScriptedLlm::new([LlmResponse::call("act", json!({}))]);
    let agent = LlmAgent::builder("agent").model(model).tool(tool).build().unwrap();
    let events = run(&runner(agent), "go").await.unwrap();
    assert_eq!(events.last().unwrap().actions.skip_summarization, Some(true));
    let context = slot.lock().unwrap().take().unwrap();
    for late in [context.skip_summarization(), context.request_confirmation("Sure?", None), context.escalate()] {
        assert_eq!(late.unwrap_err().kind(), ErrorKind::FailedPrecondition);
    }
}

#[tokio::test]
async fn an_unbounded_loop_over_silent_agents_can_be_dropped() {
    let silent = FunctionAgent::new("silent", |_| futures_util::stream::empty());
    let runner = runner(LoopAgent::new("loop", vec![Arc::new(silent)]));
    let outcome = tokio::time::timeout(std::time::Duration::from_millis(50), run(&runner, "go")).await;
    assert!(outcome.is_err());
}

#[tokio::test]
async fn a_parallel_child_that_escalates_ends_its_siblings() {
    let ends = FunctionAgent::new("ends", |context: InvocationContext| {
        let mut event = context.event();
        event.actions.escalate = Some(true);
        futures_util::stream::iter([Ok(event)])
    });
    let forever = FunctionAgent::new("forever", |_| futures_util::stream::pending());
    let runner = runner(ParallelAgent::new("par", vec![Arc::new(ends), Arc::new(forever)]));
    assert_eq!(run(&runner, "go").await.unwrap().len(), 1);
}

#[tokio::test]
async fn text_beside_a_call_or_an_error_is_no_output() {
    let text_and_call = {
        let mut response = LlmResponse::call("later", json!({}));
        response.content.as_mut().unwrap().parts.as_mut().unwrap().insert(0, Part::text("I will ask."));
        response
    };
    let cut = LlmResponse { error_code: Some("MAX_TOKENS".to_owned()), ..LlmResponse::text("{\"name\": \"Be") };
    for response in [text_and_call, cut] {
        let later = scratchbook::agent::FunctionTool::new(
            "later",
            "Answers later.",
            |_: serde_json::Map<String, serde_json::Value>, _| async { Ok(()) },
        );
        let agent = LlmAgent::builder("a")
            .model(ScriptedLlm::new([response]))
            .tool(later.long_running())
            .output_key("city")
            .output_type::<City>()
            .build()
            .unwrap();
        let runner = runner(agent);
        run(&runner, "go").await.unwrap();
        assert!(stored(&runner).await.state().is_empty());
    }
}

#[tokio::test]
async fn many_pieces_with_a_callback_on_each_take_time_in_proportion() {
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(["word ".repeat(3000)]))
        .after_model(|context, response| async move {
            let count = context.state().get_as::<u64>("pieces")?.unwrap_or(0);
            context.state().set("pieces", count + 1)?;
            Ok(response)
        })
        .build()
        .unwrap();
    let config = scratchbook::agent::RunConfig::default().with_streaming();
    let runner = runner(agent);
    let started = std::time::Instant::now();
    run(&runner, scratchbook::RunRequest::message("go").with_config(config)).await.unwrap();
    assert_eq!(stored(&runner).await.state().get("pieces"), Some(&json!(3001)));
    // Cubic work would take minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn what_an_agent_was_built_from_can_be_read() {
    let helper = LlmAgent::builder("helper").model(ScriptedLlm::new(["Hi."])).build().unwrap();
    let instruction = "You are scripted. cart={cart?} {{literally}}";
    let agent = LlmAgent::builder("demo")
        .description("Scripted")
        .model(ScriptedLlm::new(["Hi."]))
        .instruction(instruction)
        .output_key("said")
        .sub_agent(helper)
        .build()
        .unwrap();
    assert_eq!((agent.name(), agent.description(), agent.model().unwrap().name()), ("demo", "Scripted", "scripted"));
    assert_eq!(agent.instruction().unwrap().source(), Some(instruction));
    assert_eq!(agent.output_key(), Some("said"));
    assert!(agent.tools().is_empty());
    let runner = runner(agent);
    let root = runner.agent().as_llm_agent().unwrap();
    let helper = root.sub_agents()[0].as_llm_agent().unwrap();
    assert!(helper.instruction().is_none() && helper.output_key().is_none());
    let provided = scratchbook::agent::Instruction::provider(|_| async { Ok("hidden".to_owned()) });
    assert_eq!(provided.source(), None);
}

#[tokio::test]
async fn a_piece_of_an_answer_that_escalates_ends_no_sibling_before_the_whole_is_there() {
    let child = LlmAgent::builder("child")
        .model(ScriptedLlm::new(["One two three"]))
        .output_key("said")
        .before_model(|context, request| async move {
            context.escalate()?;
            Ok(ControlFlow::Continue(request))
        })
        .build()
        .unwrap();
    let runner = runner(ParallelAgent::new("top", vec![Arc::new(child)]));
    let config = scratchbook::agent::RunConfig::default().with_streaming();
    let events = run(&runner, scratchbook::RunRequest::message("go").with_config(config)).await.unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(stored(&runner).await.state().get("said"), Some(&json!("One two three")));
}

/// The agent yields one event twice, and the second one cannot be stored.
#[tokio::test]
async fn an_event_that_cannot_be_stored_is_told_of_by_another() {
    let agent = FunctionAgent::new("twice", |context: InvocationContext| {
        let mut event = context.event();
        event.id = "once".to_owned();
        event.content = Some(Content::new("model", vec![Part::text("Hello.")]));
        futures_util::stream::iter([Ok(event.clone()), Ok(event)])
    });
    let runner = runner(agent);
    assert_eq!(run(&runner, "hi").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let session = stored(&runner).await;
    let last = session.events().last().unwrap();
    assert_eq!(session.events().len(), 3);
    assert_eq!((last.author.as_str(), last.error_code.is_some()), ("twice", true), "{last:?}");
    assert!(last.error_message.as_ref().unwrap().contains("yield each event once"), "{last:?}");
}
