//! Tools: their arguments, their writes, their failures.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::content::Part;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Error, ErrorKind, Event, LlmAgent, Runner};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::runner::{app, run, runner, stored};

#[derive(Deserialize, JsonSchema)]
struct AddArgs {
    /// What to add.
    item: String,
    #[serde(default)]
    wait_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

/// A tool that adds an item, and returns which items of other calls it saw.
fn add_tool() -> FunctionTool {
    FunctionTool::new("add", "Adds an item.", |args: AddArgs, context: ToolContext| async move {
        let state = context.state();
        state.set(format!("item:{}", args.item), true)?;
        state.set("last", &args.item)?;
        state.set("user:adds", 1)?;
        state.set("temp:scratch", 1)?;
        assert!(state.contains(&format!("item:{}", args.item)), "a tool sees its own writes at once");
        tokio::time::sleep(Duration::from_millis(args.wait_ms)).await;
        let seen: Vec<String> = state.to_map().keys().filter(|key| key.starts_with("item:")).cloned().collect();
        if args.item == "bad" {
            return Err(Error::new(ErrorKind::Unavailable, "out of stock"));
        }
        if args.item == "panic" {
            panic!("a defect in the tool");
        }
        Ok(json!({"seen": seen}))
    })
}

fn agent(turns: Vec<LlmResponse>) -> LlmAgent {
    LlmAgent::builder("agent").model(ScriptedLlm::new(turns)).tool(add_tool()).build().unwrap()
}

fn answers(event: &Event) -> Vec<Value> {
    event.function_responses().map(|answer| json!(answer.response)).collect()
}

#[tokio::test]
async fn a_tool_call_is_answered_by_an_event_that_carries_its_writes() {
    let runner = runner(agent(vec![LlmResponse::call("add", json!({"item": "book"})), "Done.".into()]));
    let events = run(&runner, "add a book").await.unwrap();
    assert_eq!(events.len(), 3);
    let call = events[0].function_calls().next().unwrap();
    assert!(call.id.as_deref().unwrap().starts_with("adk-"));
    assert_eq!(events[0].long_running_tool_ids, Some(Default::default()));
    let answer = events[1].function_responses().next().unwrap();
    assert_eq!((answer.id.as_ref(), answer.name.as_deref()), (call.id.as_ref(), Some("add")));
    assert_eq!(events[1].author, "agent");
    assert_eq!(events[1].content.as_ref().unwrap().role.as_deref(), Some("user"));
    assert!(events[2].is_final_response() && !events[1].is_final_response());
    assert_eq!(json!(stored(&runner).await.state()), json!({"item:book": true, "last": "book", "user:adds": 1}));
}

#[tokio::test]
async fn the_schema_shown_to_the_model_comes_from_the_type() {
    let model = ScriptedLlm::new(["ok"]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(add_tool()).build().unwrap();
    run(&runner(agent), "go").await.unwrap();
    let tools = &model.requests()[0].tools;
    assert_eq!(tools[0].name, "add");
    let schema = &tools[0].parameters_json_schema;
    assert_eq!(schema["properties"]["item"]["type"], "string");
    assert_eq!(schema["properties"]["item"]["description"], "What to add.");
    assert_eq!(schema["required"], json!(["item"]));
}

#[tokio::test]
async fn a_schema_written_by_hand_is_shown_as_it_is_written() {
    let written = json!({
        "properties": {"item": {"title": "Item", "type": "string"}},
        "required": ["item"],
        "title": "addParams",
        "type": "object",
    });
    let tool = add_tool().with_parameters_json_schema(written.clone());
    let turns = ScriptedLlm::new([LlmResponse::call("add", json!({"item": "book"})), "Done.".into()]);
    let agent = LlmAgent::builder("agent").model(turns.clone()).tool(tool).build().unwrap();
    assert_eq!(agent.tools()[0].declaration().parameters_json_schema, written);
    run(&runner(agent), "go").await.unwrap();
    let shown = &turns.requests()[0].tools[0].parameters_json_schema;
    assert_eq!(serde_json::to_string(shown).unwrap(), written.to_string(), "in the order written");
}

#[tokio::test]
async fn parallel_calls_merge_in_call_order_and_see_others_writes_when_they_have_returned() {
    let calls = LlmResponse::calls([
        ("add", json!({"item": "slow", "wait_ms": 40})),
        ("add", json!({"item": "fast"})),
        ("add", json!({"item": "never", "wait_ms": 20})),
    ]);
    let runner = runner(agent(vec![calls, "Done.".into()]));
    let events = run(&runner, "go").await.unwrap();
    let answers = answers(&events[1]);
    assert_eq!(answers[0], json!({"seen": ["item:fast", "item:never", "item:slow"]}), "both others had returned");
    assert_eq!(answers[1], json!({"seen": ["item:fast"]}), "nobody had returned");
    assert_eq!(answers[2], json!({"seen": ["item:fast", "item:never"]}));
    assert_eq!(stored(&runner).await.state().get("last"), Some(&json!("never")), "the last call in order wins");
}

#[tokio::test]
async fn a_failed_tools_writes_vanish_and_the_model_is_told() {
    for (item, told) in [("bad", "out of stock"), ("panic", "panicked")] {
        let calls = LlmResponse::calls([("add", json!({"item": item})), ("add", json!({"item": "good"}))]);
        let runner = runner(agent(vec![calls, "Sorry.".into()]));
        let events = run(&runner, "go").await.unwrap();
        let answers = answers(&events[1]);
        assert!(answers[0]["error"].as_str().unwrap().contains(told), "{answers:?}");
        assert_eq!(json!(stored(&runner).await.state()), json!({"item:good": true, "last": "good", "user:adds": 1}));
    }
}

#[tokio::test]
async fn bad_arguments_and_unknown_tools_are_told_to_the_model() {
    let calls = LlmResponse::calls([("add", json!({"item": 7})), ("nope", json!({}))]);
    let runner = runner(agent(vec![calls, "Sorry.".into()]));
    let events = run(&runner, "go").await.unwrap();
    let answers = answers(&events[1]);
    assert!(answers[0]["error"].as_str().unwrap().contains("arguments of 'add'"), "{answers:?}");
    assert_eq!(
        answers[1],
        json!({"error": "Invoking `nope()` failed as no tool with that name is available. The tools you can call are: add. \
                         You could retry, but it is IMPORTANT that you only call a tool from that list."}),
        "in ADK's words"
    );
}

#[tokio::test]
async fn a_call_that_does_not_say_whom_to_hand_over_to_is_told_in_adks_words() {
    let other = LlmAgent::builder("other").model(ScriptedLlm::new(["Hi."])).build().unwrap();
    let turns = [LlmResponse::call("transfer_to_agent", json!({})), "Then I do it.".into()];
    let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(turns)).sub_agent(other).build().unwrap();
    let events = run(&runner(agent), "go").await.unwrap();
    let told = "Invoking `transfer_to_agent()` failed as the following mandatory input parameters are not present:\n\
                agent_name\nYou could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory \
                parameters.";
    assert_eq!(answers(&events[1]), [json!({"error": told})]);
    assert_eq!(events.len(), 3, "the agent goes on");
}

#[tokio::test]
async fn what_a_long_running_tool_wrote_of_temp_keys_alone_makes_no_event_and_is_seen() {
    let later = FunctionTool::new("later", "Answers later.", |_: NoArgs, context: ToolContext| async move {
        context.state().set("temp:ticket", 7)?;
        Ok(())
    });
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([LlmResponse::call("later", json!({}))]))
        .tool(later.long_running())
        .after_agent(|context| async move {
            context.state().set("seen", context.state().require("temp:ticket")?)?;
            Ok(None)
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(events.len(), 2, "the call, and what after_agent wrote");
    assert_eq!(json!(events[1].actions.state_delta), json!({"seen": 7}));
    assert_eq!(json!(stored(&runner).await.state()), json!({"seen": 7}));
}

#[tokio::test]
async fn a_long_running_tools_writes_travel_in_an_event_of_their_own() {
    let later = FunctionTool::new("later", "Answers later.", |_: NoArgs, context: ToolContext| async move {
        context.state().set("ticket", context.function_call_id())?;
        Ok(())
    });
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([LlmResponse::call("later", json!({}))]))
        .tool(later.long_running())
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(events.len(), 2, "the run waits for the answer; the model is not asked again");
    let id = events[0].function_calls().next().unwrap().id.clone().unwrap();
    assert!(events[0].long_running_tool_ids.as_ref().unwrap().contains(&id));
    assert!(events[0].is_final_response());
    assert_eq!((events[1].content.as_ref(), events[1].author.as_str()), (None, "agent"));
    assert_eq!(stored(&runner).await.state().get("ticket"), Some(&json!(id)));
}

#[tokio::test]
async fn a_long_running_tool_may_answer_at_once() {
    let pending = FunctionTool::new("pending", "Says pending.", |_: NoArgs, context: ToolContext| async move {
        context.state().set("asked", true)?;
        Ok(json!({"status": "pending"}))
    });
    let turns = [LlmResponse::call("pending", json!({})), "It is on its way.".into()];
    let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(turns)).tool(pending.long_running()).build().unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(answers(&events[1]), [json!({"status": "pending"})]);
    assert_eq!(stored(&runner).await.state().get("asked"), Some(&json!(true)));
    assert_eq!(events.len(), 3);
}

#[tokio::test]
async fn callbacks_around_tools_can_change_the_call_and_the_answer() {
    use std::ops::ControlFlow;
    let turns = vec![
        LlmResponse::calls([("add", json!({"item": "a"})), ("add", json!({"item": "cached"}))]),
        LlmResponse::text("Done."),
    ];
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(turns))
        .tool(add_tool())
        .before_tool(|context, mut call| async move {
            context.state().set("before", &call.name)?;
            if call.args["item"] == "cached" {
                return Ok(ControlFlow::Break(json!({"from": "the cache"})));
            }
            call.args.insert("item".to_owned(), json!("b"));
            Ok(ControlFlow::Continue(call))
        })
        .after_tool(|context, call, mut answer| async move {
            context.state().set("after", &call.args["item"])?;
            answer["checked"] = json!(true);
            Ok(answer)
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(
        answers(&events[1]),
        [json!({"seen": ["item:b"], "checked": true}), json!({"from": "the cache", "checked": true})],
        "callbacks after a tool see what is answered in its place, too"
    );
    let state = stored(&runner).await;
    assert_eq!(state.state().get("after"), Some(&json!("cached")));
    assert_eq!(state.state().get("before"), Some(&json!("add")));
}

#[tokio::test]
async fn a_tool_can_end_the_turn_with_its_answer() {
    let tool = FunctionTool::new("show", "Shows.", |_: NoArgs, context: ToolContext| async move {
        context.skip_summarization()?;
        Ok("shown")
    });
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([LlmResponse::call("show", json!({}))]))
        .tool(tool)
        .build()
        .unwrap();
    let events = run(&runner(agent), "go").await.unwrap();
    assert_eq!(events.len(), 2);
    assert!(events[1].is_final_response());
}

#[tokio::test]
async fn tools_save_artifacts_and_the_event_notes_the_version() {
    let tool = FunctionTool::new("note", "Saves a note.", |_: NoArgs, context: ToolContext| async move {
        let first = context.save_artifact("note.txt", Part::text("one")).await?;
        let second = context.save_artifact("note.txt", Part::text("two")).await?;
        assert_eq!(context.load_artifact("note.txt").await?, Some(Part::text("two")));
        assert_eq!(context.list_artifacts().await?, ["note.txt"]);
        Ok(json!([first, second]))
    });
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new([LlmResponse::call("note", json!({})), "Saved.".into()]))
        .tool(tool)
        .build()
        .unwrap();
    let service = app();
    let with = Runner::builder("app", agent.clone(), Arc::clone(&service)).artifacts(service).auto_create_session();
    let events = run(&with.build().unwrap(), "go").await.unwrap();
    assert_eq!(answers(&events[1]), [json!({"result": [0, 1]})]);
    assert_eq!(json!(events[1].actions.artifact_delta), json!({"note.txt": 1}));
}

#[tokio::test]
async fn model_calls_are_bounded() {
    let model = ScriptedLlm::from_fn(|_| Ok(LlmResponse::call("add", json!({"item": "x"}))));
    let agent = LlmAgent::builder("agent").model(model).tool(add_tool()).build().unwrap();
    let config = scratchbook::agent::RunConfig::default().with_max_llm_calls(3);
    let request = scratchbook::RunRequest::message("go").with_config(config);
    let error = run(&runner(agent), request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
}

#[tokio::test]
async fn a_long_running_call_beside_others_does_not_keep_the_model_from_their_answers() {
    for writes in [false, true] {
        let later = FunctionTool::new("later", "Answers later.", move |_: NoArgs, context: ToolContext| async move {
            if writes {
                context.state().set("ticket", 1)?;
            }
            Ok(())
        });
        let model = ScriptedLlm::new([
            LlmResponse::calls([("later", json!({})), ("add", json!({"item": "book"}))]),
            "The book is in; I will tell you the rest.".into(),
        ]);
        let agent = LlmAgent::builder("agent")
            .model(model.clone())
            .tool(later.long_running())
            .tool(add_tool())
            .build()
            .unwrap();
        let runner = runner(agent);
        run(&runner, "go").await.unwrap();
        assert_eq!(model.requests().len(), 2);
        assert_eq!(stored(&runner).await.state().get("ticket").is_some(), writes);
    }
}

/// A model that gives two whole answers in one stream.
#[derive(Debug)]
struct TwoAnswers;

impl scratchbook::model::Llm for TwoAnswers {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn generate(&self, request: scratchbook::model::LlmRequest) -> scratchbook::model::LlmStream {
        let answered = request.contents.iter().flat_map(|content| content.function_responses()).count();
        let responses = match answered {
            0 => vec![LlmResponse::call("add", json!({"item": "a"})), LlmResponse::call("add", json!({"item": "b"}))],
            _ => vec![LlmResponse::text("Done.")],
        };
        Box::pin(futures_util::stream::iter(responses.into_iter().map(Ok)))
    }
}

#[tokio::test]
async fn every_call_of_a_stream_with_several_answers_is_answered() {
    let agent = LlmAgent::builder("agent").model(TwoAnswers).tool(add_tool()).build().unwrap();
    let runner = runner(agent);
    let events = run(&runner, "go").await.unwrap();
    assert_eq!(events.iter().flat_map(Event::function_calls).count(), 2);
    assert_eq!(events.iter().flat_map(Event::function_responses).count(), 2);
    assert!(stored(&runner).await.state().contains("item:a"));
}

#[tokio::test]
async fn a_panic_of_a_callback_around_a_tool_is_the_calls_error() {
    let turns = vec![LlmResponse::call("add", json!({"item": "a"})), "Sorry.".into()];
    let agent = LlmAgent::builder("agent")
        .model(ScriptedLlm::new(turns))
        .tool(add_tool())
        .before_tool(|_, _| async { panic!("a defect in a callback") })
        .build()
        .unwrap();
    let events = run(&runner(agent), "go").await.unwrap();
    assert!(answers(&events[1])[0]["error"].as_str().unwrap().contains("panicked"));
}

#[tokio::test]
async fn the_name_of_the_transfer_tool_is_taken() {
    let tool = FunctionTool::new("transfer_to_agent", "Mine.", |_: NoArgs, _| async { Ok(()) });
    let error = LlmAgent::builder("agent").model(ScriptedLlm::new(["x"])).tool(tool).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
