//! The Runner: what is committed when, and what a run leaves behind.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use scratchbook::agent::{FunctionAgent, InvocationContext, RunConfig, WhenBusy};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, InMemorySessionService, LlmAgent,
    RunRequest, Runner, Session, SessionKey, SessionService, StateDelta,
};
use serde_json::{Map, Value, json};

/// The arguments of a tool, which are not read into a type.
pub(crate) type ToolArgs = Map<String, Value>;

pub(crate) fn app() -> Arc<InMemorySessionService> {
    Arc::new(InMemorySessionService::new())
}

pub(crate) async fn session_with(service: &Arc<InMemorySessionService>, state: Value) -> SessionKey {
    let config = CreateSessionConfig::default().with_session_id("s").with_state(state);
    service.create_session("app", "user", config).await.unwrap().key().clone()
}

pub(crate) async fn run(runner: &Runner, request: impl Into<RunRequest>) -> Result<Vec<Event>, Error> {
    runner.run("user", "s", request).try_collect().await
}

pub(crate) async fn stored(runner: &Runner) -> Session {
    let key = SessionKey::new("app", "user", "s").unwrap();
    runner.session_service().get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap()
}

pub(crate) fn runner(agent: impl scratchbook::Agent) -> Runner {
    Runner::builder("app", agent, app()).auto_create_session().build().unwrap()
}

fn says(text: &str) -> LlmAgent {
    LlmAgent::builder("agent").model(ScriptedLlm::new(vec![text; 100])).build().unwrap()
}

fn delta(state: Value) -> StateDelta {
    state.try_into().unwrap()
}

#[tokio::test]
async fn the_users_message_is_an_event_that_carries_the_state_delta() {
    let runner = runner(says("Hi."));
    let request = RunRequest::message("Hello").with_state_delta(delta(json!({"a": 1, "user:b": 2, "temp:c": 3})));
    let events = run(&runner, request).await.unwrap();
    assert_eq!(events.len(), 1, "the user's own event is not yielded");
    let session = stored(&runner).await;
    let first = session.events().get(0).unwrap();
    assert_eq!(first.author, "user");
    assert_eq!(first.content.as_ref().unwrap().text(), "Hello");
    assert_eq!(first.actions.state_delta, delta(json!({"a": 1, "user:b": 2})));
    assert_eq!(first.invocation_id, events[0].invocation_id);
    assert!(first.invocation_id.starts_with("e-"));
    assert_eq!(json!(session.state()), json!({"a": 1, "user:b": 2}));
}

#[tokio::test]
async fn a_state_delta_without_a_message_is_a_contentless_user_event() {
    let runner = runner(says("Hi."));
    run(&runner, RunRequest::state_delta(delta(json!({"a": 1})))).await.unwrap();
    let session = stored(&runner).await;
    assert_eq!(session.events().get(0).unwrap().content, None);
    assert_eq!(session.state().get("a"), Some(&json!(1)));
}

#[tokio::test]
async fn a_run_without_message_and_changes_goes_on_from_what_the_session_holds() {
    let model = ScriptedLlm::new(["Hi.", "Again."]);
    let runner = runner(LlmAgent::builder("agent").model(model.clone()).build().unwrap());
    run(&runner, "Hello").await.unwrap();
    let events = run(&runner, RunRequest::default()).await.unwrap();
    assert_eq!(events.len(), 1);
    let said = |contents: &[scratchbook::Content]| contents.iter().map(scratchbook::Content::text).collect::<Vec<_>>();
    assert_eq!(said(&model.requests()[1].contents), ["Hello", "Hi."]);
    let authors: Vec<_> = stored(&runner).await.events().iter().map(|event| event.author.clone()).collect();
    assert_eq!(authors, ["user", "agent", "agent"], "no event of the user was made");
}

#[tokio::test]
async fn a_message_without_parts_or_without_a_role_is_the_users() {
    for (given, shown) in [
        (json!({"parts": []}), json!({"parts": [], "role": "user"})),
        (json!({"parts": [{"text": "no role"}]}), json!({"parts": [{"text": "no role"}], "role": "user"})),
        (json!({"parts": [{"text": "other"}], "role": "model"}), json!({"parts": [{"text": "other"}], "role": "user"})),
    ] {
        let runner = runner(says("Hi."));
        let message: scratchbook::Content = serde_json::from_value(given).unwrap();
        run(&runner, message).await.unwrap();
        assert_eq!(json!(stored(&runner).await.events().get(0).unwrap().content), shown);
    }
}

/// Returns the instruction of a request, without the sentences about the agent's name and description.
pub(crate) fn own_instruction(request: &scratchbook::model::LlmRequest) -> &str {
    let told = request.system_instruction.as_deref().unwrap();
    told.split_once("\n\nYou are an agent. Your internal name is ").unwrap().0
}

pub(crate) fn metadata(state: Value) -> Map<String, Value> {
    state.as_object().unwrap().clone()
}

#[tokio::test]
async fn the_metadata_of_a_run_is_beside_all_its_events_and_theirs_wins() {
    let whole = LlmResponse { custom_metadata: Some(metadata(json!({"m": "event", "own": 1}))), .."x".into() };
    let model = ScriptedLlm::from_stream(move |_| stream::iter([LlmResponse::piece("x"), whole.clone()].map(Ok)));
    let runner = runner(LlmAgent::builder("agent").model(model).build().unwrap());
    let config = RunConfig::default().with_streaming().with_custom_metadata(metadata(json!({"m": "run", "r": 2})));
    let events = run(&runner, RunRequest::message("Hi").with_config(config)).await.unwrap();
    let shown: Vec<_> = events.iter().map(|event| json!(event.custom_metadata)).collect();
    assert_eq!(shown, [json!({"m": "run", "r": 2}), json!({"m": "event", "r": 2, "own": 1})]);
    let kept: Vec<_> = stored(&runner).await.events().iter().map(|event| json!(event.custom_metadata)).collect();
    assert_eq!(kept, [json!({"m": "run", "r": 2}), json!({"m": "event", "r": 2, "own": 1})]);
    let plain = runner_of_failing();
    run(&plain, "Hi").await.unwrap_err();
    let kept: Vec<_> = stored(&plain).await.events().iter().map(|event| event.custom_metadata.clone()).collect();
    assert_eq!(kept, [None, None]);
    let config = RunConfig::default().with_custom_metadata(metadata(json!({"m": 1})));
    run(&plain, RunRequest::message("Hi").with_config(config)).await.unwrap_err();
    let failure = stored(&plain).await.events().last().unwrap().clone();
    assert_eq!(failure.error_code.as_deref(), Some("INTERNAL"));
    assert_eq!(json!(failure.custom_metadata), json!({"m": 1}), "an event that tells of a failure has it too");
}

fn runner_of_failing() -> Runner {
    let model = ScriptedLlm::from_fn(|_| Err(Error::new(ErrorKind::Internal, "scripted model failure")));
    runner(LlmAgent::builder("agent").model(model).build().unwrap())
}

fn response(id: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": "ask", "response": {"ok": true}}})
}

fn parts(parts: &[Value]) -> scratchbook::Content {
    serde_json::from_value(json!({"role": "user", "parts": parts})).unwrap()
}

#[tokio::test]
async fn a_message_that_answers_a_call_goes_on_with_the_run_of_the_call() {
    let ask = || LlmResponse::call("ask", json!({}));
    let tool = scratchbook::agent::FunctionTool::new("ask", "Asks.", |_: ToolArgs, _| async { Ok(()) });
    let model = ScriptedLlm::new([ask(), ask(), "Thanks.".into()]);
    let runner = runner(LlmAgent::builder("agent").model(model).tool(tool.long_running()).build().unwrap());
    let mut asked = Vec::new();
    for invocation in ["one", ""] {
        let events = run(&runner, RunRequest::message("go").with_invocation_id(invocation)).await.unwrap();
        let id = events[0].function_calls().next().unwrap().id.clone().unwrap();
        asked.push((id, events[0].invocation_id.clone()));
    }
    assert_eq!(asked[0].1, "one");
    assert!(asked[1].1.starts_with("e-"), "an empty id is none");
    let length = stored(&runner).await.events().len();
    let call = json!({"functionCall": {"id": "x", "name": "ask", "args": {}}});
    for (bad, word) in [
        (vec![response("nobody's")], "'nobody's'"),
        (vec![response(&asked[0].0), response(&asked[1].0)], "the run one"),
        (vec![call], "'ask'"),
    ] {
        let error = run(&runner, parts(&bad)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(stored(&runner).await.events().len(), length, "nothing is stored of what is refused");
    let answer = RunRequest::message(parts(&[response(&asked[0].0)])).with_invocation_id("ignored");
    let events = run(&runner, answer).await.unwrap();
    assert_eq!(events[0].invocation_id, "one");
    assert_eq!(stored(&runner).await.events().iter().rev().nth(1).unwrap().invocation_id, "one");
}

#[tokio::test]
async fn temp_keys_live_one_invocation_and_leave_no_trace() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        async_stream::try_stream! {
            let seen = context.state().get("temp:given").cloned();
            let delta = StateDelta::new().with("seen", &seen)?.with("temp:own", "x")?;
            yield context.event().with_state_delta(delta);
            assert_eq!(context.state().get("temp:own"), Some(&json!("x")));
            yield context.event().with_state_delta(StateDelta::new().with("own_seen", context.state().contains("temp:own"))?);
        }
    });
    let runner = runner(agent);
    let request = RunRequest::message("go").with_state_delta(delta(json!({"temp:given": 7})));
    let events = run(&runner, request).await.unwrap();
    let session = stored(&runner).await;
    assert_eq!(json!(session.state()), json!({"seen": 7, "own_seen": true}));
    let everything = format!("{}{}", serde_json::to_string(&session).unwrap(), serde_json::to_string(&events).unwrap());
    assert!(!everything.contains("temp:"), "{everything}");
    run(&runner, "again").await.unwrap();
    assert_eq!(stored(&runner).await.state().get("seen"), Some(&Value::Null));
}

#[tokio::test]
async fn an_agents_code_after_its_yield_sees_committed_state() {
    let service = app();
    let spy = Arc::clone(&service);
    let agent = FunctionAgent::new("agent", move |context: InvocationContext| {
        let spy = Arc::clone(&spy);
        async_stream::try_stream! {
            yield context.event().with_state_delta(StateDelta::new().with("step", 1)?);
            let stored = spy.get_session(context.session_key(), &GetSessionConfig::default()).await?.unwrap();
            assert_eq!(stored.state().get("step"), Some(&json!(1)));
            assert_eq!(context.session().state().get("step"), Some(&json!(1)));
            assert_eq!(context.session().events().len(), 2);
        }
    });
    let runner = Runner::builder("app", agent, service).auto_create_session().build().unwrap();
    run(&runner, "go").await.unwrap();
}

#[tokio::test]
async fn every_event_is_committed_before_it_is_yielded() {
    let runner = runner(says("Hi."));
    let mut events = runner.run("user", "s", "Hello");
    let event = events.next().await.unwrap().unwrap();
    let session = stored(&runner).await;
    assert_eq!(session.events().last().unwrap().as_ref(), &event);
    assert_eq!(event.seq, Some(2));
}

#[tokio::test]
async fn a_missing_session_is_not_found_unless_it_may_be_made() {
    let strict = Runner::builder("app", says("Hi."), app()).build().unwrap();
    assert_eq!(run(&strict, "Hello").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(run(&runner(says("Hi.")), "Hello").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_failing_model_ends_the_run_with_an_event_that_tells_of_it() {
    let model = ScriptedLlm::from_fn(|_| Err::<LlmResponse, _>(Error::new(ErrorKind::Unavailable, "no model today")));
    let agent = LlmAgent::builder("agent")
        .model(model)
        .before_model(|context, request| async move {
            context.state().set("calls", 1)?;
            Ok(std::ops::ControlFlow::Continue(request))
        })
        .build()
        .unwrap();
    let runner = runner(agent);
    let items: Vec<_> = runner.run("user", "s", "Hello").collect().await;
    assert_eq!(items.len(), 2);
    let event = items[0].as_ref().unwrap();
    assert_eq!(event.author, "agent");
    assert_eq!(event.error_code.as_deref(), Some("UNAVAILABLE"));
    assert!(event.error_message.as_deref().unwrap().contains("no model today"));
    assert_eq!(items[1].as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
    let session = stored(&runner).await;
    assert_eq!(session.events().last().unwrap().error_code.as_deref(), Some("UNAVAILABLE"));
    assert_eq!(session.state().get("calls"), Some(&json!(1)), "what the callback wrote travels with the event");
}

#[tokio::test]
async fn a_failing_agent_ends_the_run_with_one_event_of_its_own() {
    let failing = FunctionAgent::new("inner", |_| stream::iter([Err(Error::new(ErrorKind::Internal, "broken"))]));
    let outer = scratchbook::agent::SequentialAgent::new("outer", vec![Arc::new(failing)]);
    let runner = runner(outer);
    let items: Vec<_> = runner.run("user", "s", "Hello").collect().await;
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].as_ref().unwrap().author, "inner");
    assert!(items[1].is_err());
}

#[tokio::test]
async fn runs_of_one_session_take_turns() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        async_stream::try_stream! {
            let n = context.state().get_as::<u64>("n")?.unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(2)).await;
            yield context.event().with_state_delta(StateDelta::new().with("n", n + 1)?);
        }
    });
    let runner = runner(agent);
    let runs = (0..20).map(|_| {
        let runner = runner.clone();
        tokio::spawn(async move { run(&runner, "go").await })
    });
    for outcome in futures_util::future::join_all(runs).await {
        outcome.unwrap().unwrap();
    }
    assert_eq!(stored(&runner).await.state().get("n"), Some(&json!(20)));
}

#[tokio::test]
async fn a_run_can_be_refused_while_another_goes_on() {
    let runner = runner(says("Hi."));
    let mut first = runner.run("user", "s", "Hello");
    first.next().await.unwrap().unwrap();
    let refusing = RunConfig::default().with_when_busy(WhenBusy::Refuse);
    let error = run(&runner, RunRequest::message("Hello").with_config(refusing.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let elsewhere: Vec<_> = runner.run("user", "other", "Hello").try_collect().await.unwrap();
    assert_eq!(elsewhere.len(), 1, "another session is free");
    drop(first);
    run(&runner, RunRequest::message("Hello").with_config(refusing)).await.unwrap();
}

#[tokio::test]
async fn a_run_inside_a_run_of_its_own_session_is_refused() {
    let slot: Arc<std::sync::OnceLock<Runner>> = Arc::default();
    let inner = Arc::clone(&slot);
    let agent = FunctionAgent::new("agent", move |context: InvocationContext| {
        let runner = inner.get().unwrap().clone();
        async_stream::try_stream! {
            let session = context.session_key().session_id().to_owned();
            if session == "s" {
                let error = run(&runner, "inside").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
                let elsewhere: Vec<_> = runner.run("user", "other", "inside").try_collect().await?;
                assert_eq!(elsewhere.len(), 1);
            }
            yield context.event();
        }
    });
    let parallel = scratchbook::agent::ParallelAgent::new("parallel", vec![Arc::new(agent)]);
    let runner = runner(parallel);
    slot.set(runner.clone()).unwrap();
    assert_eq!(run(&runner, "go").await.unwrap().len(), 1);
}

#[tokio::test]
async fn dropping_the_stream_leaves_the_session_as_its_last_event_left_it() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        async_stream::try_stream! {
            for n in 1..=10 {
                yield context.event().with_state_delta(StateDelta::new().with("n", n)?);
            }
        }
    });
    let runner = runner(agent);
    let mut events = runner.run("user", "s", "go");
    for _ in 0..3 {
        events.next().await.unwrap().unwrap();
    }
    drop(events);
    let session = stored(&runner).await;
    assert_eq!(session.events().len(), 4);
    assert_eq!(session.state().get("n"), Some(&json!(3)));
    run(&runner, "again").await.unwrap();
    assert_eq!(stored(&runner).await.events().len(), 15);
}

#[tokio::test]
async fn streamed_pieces_reach_the_caller_and_are_not_stored() {
    let runner = runner(
        LlmAgent::builder("agent").model(ScriptedLlm::new(["Hello there friend"])).output_key("said").build().unwrap(),
    );
    let request = RunRequest::message("Hi").with_config(RunConfig::default().with_streaming());
    let events = run(&runner, request).await.unwrap();
    let pieces: Vec<_> = events.iter().filter(|event| event.is_partial()).collect();
    assert_eq!(pieces.len(), 3);
    assert_eq!(
        pieces.iter().map(|piece| piece.content.as_ref().unwrap().text()).collect::<String>(),
        "Hello there friend"
    );
    assert!(events.iter().all(|event| event.id == events[0].id), "all pieces of one answer share its id");
    assert_eq!(stored(&runner).await.events().len(), 2);
    assert_eq!(stored(&runner).await.state().get("said"), Some(&json!("Hello there friend")));
}

#[tokio::test]
async fn another_writer_on_the_session_does_not_fail_a_run() {
    let service = app();
    let other = Arc::clone(&service);
    let agent = FunctionAgent::new("agent", move |context: InvocationContext| {
        let other = Arc::clone(&other);
        async_stream::try_stream! {
            let event = Event::new("outside").with_state_delta(StateDelta::new().with("theirs", 1)?);
            other.append(context.session_key(), event, AppendOptions::default()).await?;
            yield context.event().with_state_delta(StateDelta::new().with("ours", 1)?);
        }
    });
    let runner = Runner::builder("app", agent, service).auto_create_session().build().unwrap();
    run(&runner, "go").await.unwrap();
    assert_eq!(json!(stored(&runner).await.state()), json!({"ours": 1, "theirs": 1}));
}

#[tokio::test]
async fn a_run_reads_as_much_of_the_session_as_it_is_told() {
    let model = ScriptedLlm::new(vec!["Hi."; 3]);
    let runner = runner(LlmAgent::builder("agent").model(model.clone()).build().unwrap());
    run(&runner, "one").await.unwrap();
    run(&runner, "two").await.unwrap();
    let config = RunConfig::default().with_get_session_config(GetSessionConfig::default().with_num_recent_events(1));
    run(&runner, RunRequest::message("three").with_config(config)).await.unwrap();
    let shown: Vec<_> = model.requests()[2].contents.iter().map(|content| content.text()).collect();
    assert_eq!(shown, ["Hi.", "three"]);
    assert_eq!(stored(&runner).await.events().len(), 6);
}

#[tokio::test]
async fn two_agents_of_one_name_are_refused() {
    let twins = scratchbook::agent::SequentialAgent::new("top", vec![Arc::new(says("a")), Arc::new(says("b"))]);
    let error = Runner::builder("app", twins, app()).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'agent'"), "{error}");
}

#[tokio::test]
async fn first_runs_of_one_session_from_two_runners_both_go_well() {
    for _ in 0..20 {
        let service = app();
        let make = || {
            let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(["Hi."])).build().unwrap();
            Runner::builder("app", agent, Arc::clone(&service)).auto_create_session().build().unwrap()
        };
        let (one, two) = (make(), make());
        let runs = [one, two].map(|runner| tokio::spawn(async move { run(&runner, "Hello").await }));
        for outcome in futures_util::future::join_all(runs).await {
            outcome.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn an_event_without_author_or_run_gets_those_of_its_agent() {
    let agent = FunctionAgent::new("agent", |_| stream::iter([Ok(Event::default())]));
    let events = run(&runner(agent), "go").await.unwrap();
    assert_eq!(events[0].author, "agent");
    assert!(events[0].invocation_id.starts_with("e-"));
}

#[tokio::test]
async fn a_bad_app_name_is_refused_when_the_runner_is_built() {
    let error = Runner::builder("a\nb", says("Hi."), app()).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
