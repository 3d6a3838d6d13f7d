//! Plugins, and callbacks for failures: their order, and the effect of their writes.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt;
use scratchbook::agent::{FunctionAgent, InvocationContext, LoggingPlugin, RunConfig, ToolCall};
use scratchbook::model::{LlmRequest, ScriptedLlm};
use scratchbook::prelude::*;
use serde_json::{Value, json};

use crate::logged::LoggedFields;
use crate::runner::ToolArgs;

type Notes = Arc<Mutex<Vec<String>>>;

/// A plugin that records every call, and fails in one kind of callback.
#[derive(Debug)]
struct Noting {
    name: &'static str,
    notes: Notes,
    fails_in: Option<&'static str>,
}

impl Noting {
    fn new(name: &'static str, notes: &Notes) -> Self {
        Self { name, notes: Arc::clone(notes), fails_in: None }
    }

    fn failing(name: &'static str, notes: &Notes, fails_in: &'static str) -> Self {
        Self { fails_in: Some(fails_in), ..Self::new(name, notes) }
    }

    fn note(&self, kind: &str) -> Result<()> {
        self.notes.lock().unwrap().push(format!("{} {kind}", self.name));
        match self.fails_in {
            Some(fails) if fails == kind => Err(Error::new(ErrorKind::Unavailable, "not now")),
            _ => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Plugin for Noting {
    fn name(&self) -> &str {
        self.name
    }

    async fn on_user_message(&self, _: InvocationContext, message: Content) -> Result<ControlFlow<Content, Content>> {
        self.note("on_user_message").map(|()| ControlFlow::Continue(message))
    }

    async fn before_run(&self, _: InvocationContext) -> Result<Option<Content>> {
        self.note("before_run").map(|()| None)
    }

    async fn on_event(&self, _: InvocationContext, event: Event) -> Result<ControlFlow<Event, Event>> {
        self.note("on_event").map(|()| ControlFlow::Continue(event))
    }

    async fn after_run(&self, _: InvocationContext) -> Result<()> {
        self.note("after_run")
    }

    async fn before_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        self.note(&format!("before_agent {}", context.agent_name())).map(|()| None)
    }

    async fn after_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        self.note(&format!("after_agent {}", context.agent_name())).map(|()| None)
    }

    async fn before_model(
        &self,
        _: CallbackContext,
        request: LlmRequest,
    ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
        self.note("before_model").map(|()| ControlFlow::Continue(request))
    }

    async fn after_model(
        &self,
        _: CallbackContext,
        response: LlmResponse,
    ) -> Result<ControlFlow<LlmResponse, LlmResponse>> {
        self.note("after_model").map(|()| ControlFlow::Continue(response))
    }

    async fn on_model_error(&self, _: CallbackContext, _: &LlmRequest, _: &Error) -> Result<Option<LlmResponse>> {
        self.note("on_model_error").map(|()| None)
    }

    async fn before_tool(&self, _: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        self.note("before_tool").map(|()| ControlFlow::Continue(call))
    }

    async fn after_tool(&self, _: ToolContext, _: &ToolCall, answer: Value) -> Result<ControlFlow<Value, Value>> {
        self.note("after_tool").map(|()| ControlFlow::Continue(answer))
    }

    async fn on_tool_error(&self, _: ToolContext, _: &ToolCall, _: &Error) -> Result<Option<Value>> {
        self.note("on_tool_error").map(|()| None)
    }

    async fn on_agent_error(&self, context: InvocationContext, _: &Error) {
        let _ = self.note(&format!("on_agent_error {}", context.agent_name()));
    }

    async fn on_run_error(&self, _: InvocationContext, _: &Error) {
        let _ = self.note("on_run_error");
    }
}

fn failing_tool() -> FunctionTool {
    FunctionTool::new("act", "Fails.", |_: ToolArgs, context: ToolContext| async move {
        context.state().set("written", true)?;
        context.state().set("temp:written", true)?;
        context.escalate()?;
        Err::<(), _>(Error::new(ErrorKind::Unavailable, "not now"))
    })
}

fn calls_once() -> ScriptedLlm {
    ScriptedLlm::new([LlmResponse::call("act", json!({})), "done".into()])
}

fn failing_model() -> ScriptedLlm {
    ScriptedLlm::from_fn(|_| Err(Error::new(ErrorKind::Unavailable, "no model today")))
}

async fn run_with(agent: impl Agent, plugins: Vec<Noting>) -> (Vec<Event>, Result<()>) {
    let mut runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session();
    for plugin in plugins {
        runner = runner.plugin(plugin);
    }
    let mut stream = runner.build().unwrap().run("u", "s", "go");
    let mut events = Vec::new();
    loop {
        match stream.try_next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(())),
            Err(error) => return (events, Err(error)),
        }
    }
}

#[tokio::test]
async fn plugins_are_called_in_their_order_and_before_the_agents_own_callbacks() {
    let notes = Notes::default();
    let own = Arc::clone(&notes);
    let agent = LlmAgent::builder("root")
        .model(ScriptedLlm::new(["hi"]))
        .before_model(move |_, request| {
            own.lock().unwrap().push("own before_model".to_owned());
            async move { Ok(ControlFlow::Continue(request)) }
        })
        .build()
        .unwrap();
    let (_, outcome) = run_with(agent, vec![Noting::new("a", &notes), Noting::new("b", &notes)]).await;
    outcome.unwrap();
    let kinds = ["on_user_message", "before_run", "before_agent root", "before_model"];
    let mut expected: Vec<_> = kinds.iter().flat_map(|kind| [format!("a {kind}"), format!("b {kind}")]).collect();
    expected.push("own before_model".to_owned());
    let kinds = ["after_model", "on_event", "after_agent root", "after_run"];
    expected.extend(kinds.iter().flat_map(|kind| [format!("a {kind}"), format!("b {kind}")]));
    assert_eq!(*notes.lock().unwrap(), expected);
}

#[tokio::test]
async fn plugins_are_called_around_every_kind_of_agent_once() {
    let notes = Notes::default();
    let inner =
        FunctionAgent::new("inner", |context: InvocationContext| futures_util::stream::iter([Ok(context.event())]));
    let custom = Custom;
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(inner), Arc::new(custom)];
    let (_, outcome) = run_with(SequentialAgent::new("root", agents), vec![Noting::new("a", &notes)]).await;
    outcome.unwrap();
    let around: Vec<_> = notes.lock().unwrap().iter().filter(|note| note.contains("_agent ")).cloned().collect();
    let expected = [
        "a before_agent root",
        "a before_agent inner",
        "a after_agent inner",
        "a before_agent custom",
        "a after_agent custom",
        "a after_agent root",
    ];
    assert_eq!(around, expected);
}

/// An agent that does not know of callbacks.
#[derive(Debug)]
struct Custom;

impl Agent for Custom {
    fn name(&self) -> &str {
        "custom"
    }

    fn run(&self, context: InvocationContext) -> scratchbook::agent::EventStream {
        Box::pin(futures_util::stream::iter([Ok(context.event())]))
    }
}

#[tokio::test]
async fn an_error_of_a_plugin_names_it_and_ends_the_run_except_around_a_tool() {
    let kinds = [
        "on_user_message",
        "before_run",
        "on_event",
        "after_run",
        "before_agent root",
        "after_agent root",
        "before_model",
        "after_model",
    ];
    for kind in kinds {
        let notes = Notes::default();
        let agent = LlmAgent::builder("root").model(ScriptedLlm::new(["hi"])).build().unwrap();
        let (_, outcome) = run_with(agent, vec![Noting::failing("a", &notes, kind)]).await;
        let error = outcome.unwrap_err();
        let method = kind.split(' ').next().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind}");
        assert_eq!(error.to_string(), format!("the plugin 'a' in {method}: not now"));
        assert_eq!(notes.lock().unwrap().iter().filter(|note| *note == "a on_run_error").count(), 1, "{kind}");
    }
    for kind in ["before_tool", "after_tool"] {
        let notes = Notes::default();
        let tool = FunctionTool::new("act", "Acts.", |_: ToolArgs, _| async { Ok(()) });
        let agent = LlmAgent::builder("root").model(calls_once()).tool(tool).build().unwrap();
        let (events, outcome) = run_with(agent, vec![Noting::failing("a", &notes, kind)]).await;
        outcome.unwrap();
        let answer = json!(events[1].function_responses().next().unwrap().response);
        assert_eq!(answer, json!({"error": format!("the plugin 'a' in {kind}: not now")}));
    }
}

#[tokio::test]
async fn a_failed_run_is_reported_to_plugins_from_the_inside_out() {
    let notes = Notes::default();
    let inner = LlmAgent::builder("inner").model(failing_model()).build().unwrap();
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(inner)];
    let (events, outcome) = run_with(SequentialAgent::new("root", agents), vec![Noting::new("a", &notes)]).await;
    outcome.unwrap_err();
    assert_eq!(events.len(), 1);
    let errors: Vec<_> = notes.lock().unwrap().iter().filter(|note| note.contains("error")).cloned().collect();
    assert_eq!(errors, ["a on_model_error", "a on_agent_error inner", "a on_agent_error root", "a on_run_error"]);
    assert!(!notes.lock().unwrap().contains(&"a after_run".to_owned()));
}

#[test]
fn two_plugins_with_one_name_are_refused() {
    let notes = Notes::default();
    let agent = LlmAgent::builder("root").model(ScriptedLlm::new(["hi"])).build().unwrap();
    let runner = Runner::builder("app", agent, InMemorySessionService::new());
    let error = runner.plugin(Noting::new("a", &notes)).plugin(Noting::new("a", &notes)).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'a'"), "{error}");
}

#[tokio::test]
async fn an_answer_in_place_of_a_failed_model_is_stored_with_what_the_callbacks_wrote() {
    let agent = LlmAgent::builder("root")
        .model(failing_model())
        .output_key("said")
        .on_model_error(|context, _, _| async move {
            context.state().set("first", true)?;
            Ok(None)
        })
        .on_model_error(|context, request, error| async move {
            let seen = json!([context.state().get("first"), request.contents.len(), error.kind().as_str()]);
            context.state().set("second", seen)?;
            Ok(Some(LlmResponse::text("sorry")))
        })
        .after_model(|context, response| async move {
            context.state().set("after", true)?;
            Ok(response)
        })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    outcome.unwrap();
    assert_eq!(events.len(), 1);
    let delta = json!({"first": true, "second": [true, 1, "unavailable"], "after": true, "said": "sorry"});
    assert_eq!(json!(events[0].actions.state_delta), delta);
}

#[tokio::test]
async fn what_callbacks_write_about_a_failed_model_is_stored_with_its_failure() {
    let agent = LlmAgent::builder("root")
        .model(failing_model())
        .on_model_error(|context, _, _| async move {
            context.state().increment("app:failures", 1)?;
            Ok(None)
        })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(events[0].error_code.as_deref(), Some("UNAVAILABLE"));
    assert_eq!(json!(events[0].actions.state_delta), json!({"app:failures": 1}));
}

#[tokio::test]
async fn a_piece_before_a_failed_model_stays_a_piece_and_the_answer_in_its_place_is_whole() {
    let model = ScriptedLlm::from_stream(|_| {
        let broken = Error::new(ErrorKind::Unavailable, "the stream broke");
        futures_util::stream::iter([Ok(LlmResponse::piece("Hel")), Err(broken)])
    });
    let agent = LlmAgent::builder("root")
        .model(model)
        .on_model_error(|_, _, _| async { Ok(Some(LlmResponse::text("sorry"))) })
        .build()
        .unwrap();
    let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session().build().unwrap();
    let request = RunRequest::message("go").with_config(RunConfig::default().with_streaming());
    let events: Vec<_> = runner.run("u", "s", request).try_collect().await.unwrap();
    let said: Vec<_> =
        events.iter().map(|event| (event.is_partial(), event.content.as_ref().unwrap().text())).collect();
    assert_eq!(said, [(true, "Hel".to_owned()), (false, "sorry".to_owned())]);
}

#[tokio::test]
async fn nothing_of_a_failed_tool_remains_beside_what_callbacks_write_about_it() {
    for answers in [true, false] {
        let agent = LlmAgent::builder("root")
            .model(calls_once())
            .tool(failing_tool())
            .before_tool(|context, call| async move {
                context.state().set("before", true)?;
                Ok(ControlFlow::Continue(call))
            })
            .on_tool_error(move |context, call, error| async move {
                let written = context.state().get("written").or_else(|| context.state().get("temp:written"));
                context.state().set("seen", json!([written, call.name, error.kind().as_str()]))?;
                context.state().set("temp:failed", &call.name)?;
                Ok(answers.then(|| json!({"status": "later"})))
            })
            .build()
            .unwrap();
        let (events, outcome) = run_with(agent, Vec::new()).await;
        outcome.unwrap();
        assert_eq!(json!(events[1].actions.state_delta), json!({"seen": [null, "act", "unavailable"]}));
        assert_eq!(events[1].actions.escalate, None);
        let answer = json!(events[1].function_responses().next().unwrap().response);
        let expected = if answers { json!({"status": "later"}) } else { json!({"error": "not now"}) };
        assert_eq!(answer, expected);
        assert!(!json!(events).to_string().contains("temp:"));
    }
}

/// A plugin that writes in each callback around a call, and answers in place of a failed tool.
#[derive(Debug)]
struct Writing;

impl Writing {
    fn write(context: &ToolContext, call: &ToolCall, kind: &str) -> Result<()> {
        let state = context.state();
        state.set(format!("{kind} {}", call.args["k"]), true)?;
        state.set(format!("temp:{kind}"), true)?;
        state.set("last", kind)
    }
}

#[async_trait::async_trait]
impl Plugin for Writing {
    fn name(&self) -> &str {
        "writing"
    }

    async fn before_tool(&self, context: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        Self::write(&context, &call, "before")?;
        Ok(ControlFlow::Continue(call))
    }

    async fn after_tool(
        &self,
        context: ToolContext,
        call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        Self::write(&context, call, "after")?;
        Ok(ControlFlow::Continue(answer))
    }

    async fn on_tool_error(&self, context: ToolContext, call: &ToolCall, _: &Error) -> Result<Option<Value>> {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        Self::write(&context, call, "error")?;
        Ok((call.args["k"] == 1).then(|| json!("answered")))
    }

    async fn on_event(&self, _: InvocationContext, mut event: Event) -> Result<ControlFlow<Event, Event>> {
        event.actions.state_delta = event.actions.state_delta.with("temp:event", true)?;
        Ok(ControlFlow::Continue(event))
    }
}

#[tokio::test]
async fn the_state_rules_hold_for_what_plugins_write_around_calls() {
    let tool = FunctionTool::new("act", "Acts.", |args: ToolArgs, context: ToolContext| async move {
        context.state().set(format!("tool {}", args["k"]), true)?;
        match args["k"] == 3 {
            true => Ok(json!("ok")),
            false => Err(Error::internal("no")),
        }
    });
    // The plugin answers for the first call, the second call fails, and the third succeeds before the other two end.
    let calls = LlmResponse::calls([1, 2, 3].map(|k| ("act", json!({"k": k}))));
    let agent = LlmAgent::builder("root").model(ScriptedLlm::new([calls, "done".into()])).tool(tool).build().unwrap();
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder("app", agent, Arc::clone(&sessions)).plugin(Writing).auto_create_session();
    let events: Vec<_> = runner.build().unwrap().run("u", "s", "go").try_collect().await.unwrap();
    let kept = json!({"error 1": true, "after 1": true, "error 2": true,
        "before 3": true, "tool 3": true, "after 3": true, "last": "after"});
    assert_eq!(json!(events[1].actions.state_delta), kept);
    let key = SessionKey::new("app", "u", "s").unwrap();
    let stored = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(json!(stored.state()), kept);
    let stored: Vec<_> = stored.events().iter().map(|event| json!(event.as_ref())).collect();
    assert!(!json!([json!(events), json!(stored)]).to_string().contains("temp:"));
}

#[tokio::test]
async fn a_failed_tool_can_no_longer_write_while_callbacks_answer_for_it() {
    let late: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let kept = Arc::clone(&late);
    let tool = FunctionTool::new("act", "Fails.", move |_: ToolArgs, context: ToolContext| {
        *kept.lock().unwrap() = Some(context);
        async { Err::<(), _>(Error::internal("no")) }
    });
    let agent = LlmAgent::builder("root")
        .model(calls_once())
        .tool(tool)
        .on_tool_error(move |_, _, _| {
            let late = late.lock().unwrap().take().unwrap();
            async move {
                assert_eq!(late.state().set("late", 1).unwrap_err().kind(), ErrorKind::FailedPrecondition);
                assert_eq!(late.escalate().unwrap_err().kind(), ErrorKind::FailedPrecondition);
                Ok(Some(json!("ok")))
            }
        })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    outcome.unwrap();
    assert!(events[1].actions.state_delta.is_empty());
}

/// Writes with the context of a call after the call's event was completed.
#[derive(Debug)]
struct Late(Arc<Mutex<Option<ToolContext>>>);

#[async_trait::async_trait]
impl Plugin for Late {
    fn name(&self) -> &str {
        "late"
    }

    async fn on_event(&self, _: InvocationContext, event: Event) -> Result<ControlFlow<Event, Event>> {
        if let Some(context) = self.0.lock().unwrap().take() {
            assert_eq!(context.state().set("late", 1).unwrap_err().kind(), ErrorKind::FailedPrecondition);
        }
        Ok(ControlFlow::Continue(event))
    }
}

#[tokio::test]
async fn a_write_that_comes_too_late_for_its_event_is_refused() {
    let late: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let kept = Arc::clone(&late);
    let tool = FunctionTool::new("act", "Acts.", move |_: ToolArgs, context: ToolContext| {
        let kept = Arc::clone(&kept);
        async move {
            context.state().set("in time", 1)?;
            *kept.lock().unwrap() = Some(context);
            Ok::<_, Error>(json!("ok"))
        }
    });
    let agent = LlmAgent::builder("root").model(calls_once()).tool(tool).build().unwrap();
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder("app", agent, sessions).plugin(Late(Arc::clone(&late))).auto_create_session();
    let events: Vec<_> = runner.build().unwrap().run("u", "s", "go").try_collect().await.unwrap();
    assert!(late.lock().unwrap().is_none(), "the plugin saw the event of the call");
    assert_eq!(json!(events[1].actions.state_delta), json!({"in time": 1}));
}

#[tokio::test]
async fn the_writes_of_calls_keep_their_order_if_callbacks_answer_for_one_of_them() {
    let tool = FunctionTool::new("act", "Acts.", |args: ToolArgs, context: ToolContext| async move {
        context.state().set("k", &args["k"])?;
        match args["k"] == 1 {
            true => Err(Error::internal("no")),
            false => Ok(json!("ok")),
        }
    });
    let calls = LlmResponse::calls([("act", json!({"k": 1})), ("act", json!({"k": 2}))]);
    let agent = LlmAgent::builder("root")
        .model(ScriptedLlm::new([calls, "done".into()]))
        .tool(tool)
        .on_tool_error(|context, _, _| async move {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            context.state().set("k", "callback")?;
            Ok(Some(json!("answered")))
        })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    outcome.unwrap();
    assert_eq!(json!(events[1].actions.state_delta), json!({"k": 2}));
}

#[tokio::test]
async fn callbacks_hear_of_a_tool_that_panics() {
    let tool = FunctionTool::new("act", "Panics.", |_: ToolArgs, _| async {
        assert!(std::hint::black_box(false), "a bug");
        Ok(())
    });
    let agent = LlmAgent::builder("root")
        .model(calls_once())
        .tool(tool)
        .on_tool_error(|_, _, error| async move { Ok(Some(json!(error.public_message()))) })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    outcome.unwrap();
    let answer = json!(events[1].function_responses().next().unwrap().response);
    assert_eq!(answer, json!({"result": "the tool 'act' panicked"}));
}

#[tokio::test]
async fn a_callbacks_actions_are_in_its_event() {
    let agent = LlmAgent::builder("root")
        .model(ScriptedLlm::new(["hi"]))
        .after_model(|context, response| async move {
            context.update_actions(|actions| {
                actions.transfer_reason = Some("billing".to_owned());
                actions.state_delta = StateDelta::new().with("a", 1).unwrap();
            })?;
            context.state().set("b", 2)?;
            let actions = context.actions()?;
            assert_eq!(json!(actions.state_delta), json!({"a": 1, "b": 2}));
            let invalid = context.update_actions(|actions| {
                actions.escalate = Some(true);
                actions.state_delta = StateDelta::new().with_expect("a", 7).unwrap();
            });
            assert_eq!(invalid.unwrap_err().kind(), ErrorKind::Conflict);
            Ok(response)
        })
        .build()
        .unwrap();
    let (events, outcome) = run_with(agent, Vec::new()).await;
    outcome.unwrap();
    let actions = &events[0].actions;
    assert_eq!(json!(actions.state_delta), json!({"a": 1, "b": 2}));
    assert_eq!((actions.transfer_reason.as_deref(), actions.escalate), (Some("billing"), None));
}

#[tokio::test]
async fn the_logging_plugin_logs_no_values_texts_or_messages() {
    let log = LoggedFields::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let tool = FunctionTool::new("act", "Fails.", |args: ToolArgs, context: ToolContext| async move {
        context.state().set("user:pin", &args["pin"])?;
        match args["pin"] == "hush-4" {
            true => Ok(json!("hush-1")),
            false => Err(Error::internal("hush-2")),
        }
    });
    let call = |pin: &str| LlmResponse::call("act", json!({"pin": pin}));
    let model = ScriptedLlm::new([call("hush-3"), call("hush-4"), "hush-5".into()]);
    let agent = LlmAgent::builder("root").model(model).tool(tool).build().unwrap();
    let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session();
    let runner = runner.plugin(LoggingPlugin).build().unwrap();
    let delta = StateDelta::new().with("key", "hush-6").unwrap();
    let request = RunRequest::message("hush-7").with_state_delta(delta);
    let _: Vec<_> = runner.run("u", "s", request).try_collect().await.unwrap();
    drop(guard);
    let log = log.text();
    assert!(!log.contains("hush"), "{log}");
    for step in ["user message", "run begins", "model request", "tool failed", "tool ends", "user:pin", "run ends"] {
        assert!(log.contains(step), "no line with '{step}': {log}");
    }
}
