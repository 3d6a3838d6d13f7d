//! Summaries of events: which events stay, what a request shows, and what a summary must not do.

mod recorded;
mod stores;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt;
use scratchbook::agent::{
    EventsCompactionConfig, EventsSummarizer, EventsSummary, FunctionAgent, FunctionTool, InvocationContext,
    ParallelAgent, RunConfig, SequentialAgent, WhenBusy,
};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{
    AppendOptions, Content, Error, ErrorKind, Event, LlmAgent, Result, RunRequest, Runner, SessionKey, SessionService,
};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::runner::{app, run, stored};

/// Returns the summaries `summary 0`, `summary 1` and so on, and remembers what each summarizes.
#[derive(Clone, Debug, Default)]
struct NumberedSummaries(Arc<Mutex<Vec<Vec<String>>>>);

impl NumberedSummaries {
    fn taken(&self) -> Vec<Vec<String>> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl EventsSummarizer for NumberedSummaries {
    async fn summarize_events(&self, events: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        let mut taken = self.0.lock().unwrap();
        taken.push(events.iter().map(|event| said(event.content.as_ref())).collect());
        Ok(Some(EventsSummary::new(Content::model(format!("summary {}", taken.len() - 1)))))
    }
}

/// Returns the text of a content, or one word for a call or a response.
fn said(content: Option<&Content>) -> String {
    let Some(content) = content else {
        return String::new();
    };
    match (content.function_calls().next(), content.function_responses().next()) {
        (Some(_), _) => "call".to_owned(),
        (_, Some(_)) => "response".to_owned(),
        _ => content.text(),
    }
}

fn last_request(model: &ScriptedLlm) -> Vec<String> {
    model.requests().last().unwrap().contents.iter().map(|content| said(Some(content))).collect()
}

/// A model that answers `1` to `1` and so on.
fn echo() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request| {
        let said = request.contents.last().map(Content::text).unwrap_or_default();
        Ok(LlmResponse::text(format!("re {said}")))
    })
}

fn agent(model: &ScriptedLlm) -> LlmAgent {
    LlmAgent::builder("agent").model(model.clone()).build().unwrap()
}

fn runner(agent: impl scratchbook::Agent, config: EventsCompactionConfig) -> Runner {
    Runner::builder("app", agent, app()).auto_create_session().events_compaction(config).build().unwrap()
}

async fn say(runner: &Runner, words: &[&str]) {
    for word in words {
        run(runner, *word).await.unwrap();
    }
}

fn config_with(summarizer: impl EventsSummarizer) -> EventsCompactionConfig {
    EventsCompactionConfig::by_invocations(1, 0).with_summarizer(summarizer)
}

#[tokio::test]
async fn a_summary_is_no_event_of_the_run_but_of_the_session() {
    let runner = runner(agent(&echo()), config_with(NumberedSummaries::default()));
    let events = run(&runner, "a").await.unwrap();
    assert_eq!(events.len(), 1);
    let session = stored(&runner).await;
    let summary = session.events().last().unwrap();
    let times: Vec<_> = session.events().iter().map(|event| event.timestamp.unwrap()).collect();
    let shown = json!({
        "startTimestamp": times[0],
        "endTimestamp": times[1],
        "compactedContent": {"role": "model", "parts": [{"text": "summary 0"}]},
    });
    assert_eq!(json!(summary.actions.compaction), shown);
    assert_eq!((summary.author.as_str(), &summary.content, summary.seq), ("user", &None, Some(3)));
    assert_ne!(summary.invocation_id, events[0].invocation_id);
    assert_eq!(summary.node_info.path, "");
}

#[tokio::test]
async fn a_rewind_makes_a_summary_void_and_what_was_taken_back_is_not_summed_up() {
    let (model, notes) = (echo(), NumberedSummaries::default());
    let config = EventsCompactionConfig::by_invocations(2, 0).with_summarizer(notes.clone());
    let runner = runner(agent(&model), config);
    say(&runner, &["a", "b"]).await;
    let second = stored(&runner).await.events().get(2).unwrap().invocation_id.clone();
    let mut rewind = Event::new("user");
    rewind.actions.rewind_before_invocation_id = Some(second);
    append(&runner, rewind).await;
    say(&runner, &["c"]).await;
    assert_eq!(last_request(&model), ["a", "re a", "c"]);
    assert_eq!(notes.taken(), [vec!["a", "re a", "b", "re b"], vec!["a", "re a", "c", "re c"]]);
    say(&runner, &["d"]).await;
    assert_eq!(last_request(&model), ["summary 1", "d"]);
}

async fn append(runner: &Runner, event: Event) {
    let key = SessionKey::new("app", "user", "s").unwrap();
    runner.session_service().append(&key, event, AppendOptions::default()).await.unwrap();
}

/// A summarizer that fails in one of several ways.
#[derive(Clone, Debug)]
struct Failing(&'static str, Arc<AtomicUsize>);

#[async_trait]
impl EventsSummarizer for Failing {
    async fn summarize_events(&self, _: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        match self.0 {
            "error" => Err(Error::new(ErrorKind::Unavailable, "no model today")),
            "panic" => panic!("a summarizer's own fault"),
            "blank" => Ok(Some(EventsSummary::new(Content::model(" \n")))),
            _ => Ok(None),
        }
    }
}

#[tokio::test]
async fn a_failed_summary_never_fails_the_run_and_is_asked_for_once_a_run() {
    for way in ["error", "panic", "blank", "nothing"] {
        let asked = Arc::new(AtomicUsize::new(0));
        let tool = FunctionTool::new("tool", "Helps.", |_: Map<String, Value>, _| async { Ok("done") });
        let model = ScriptedLlm::new([LlmResponse::call("tool", json!({})), "x".into(), "y".into()]);
        let agent = LlmAgent::builder("agent").model(model.clone()).tool(tool).build().unwrap();
        let config = EventsCompactionConfig::by_tokens(1, 0).with_summarizer(Failing(way, Arc::clone(&asked)));
        let runner = runner(agent, config);
        append_all(&runner, &["before", "and before"]).await;
        assert_eq!(run(&runner, "a").await.unwrap().len(), 3, "{way}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{way}");
        assert_eq!(run(&runner, "b").await.unwrap().len(), 1);
        let whole = ["before", "and before", "a", "call", "response", "x", "b"];
        assert_eq!(last_request(&model), whole);
    }
}

async fn append_all(runner: &Runner, words: &[&str]) {
    let sessions = runner.session_service();
    let config = scratchbook::CreateSessionConfig::default().with_session_id("s");
    sessions.create_session("app", "user", config).await.unwrap();
    for word in words {
        append(runner, Event::new("user").with_content(*word).with_invocation_id(*word)).await;
    }
}

#[tokio::test]
async fn a_model_that_fails_to_sum_up_does_not_fail_the_run() {
    let model = ScriptedLlm::new([
        LlmResponse::text("Hi."),
        LlmResponse { error_code: Some("SAFETY".into()), ..LlmResponse::default() },
        LlmResponse::text("Hi again."),
        LlmResponse::text("They greeted each other."),
        LlmResponse::text("Bye."),
    ]);
    let runner = runner(agent(&model), EventsCompactionConfig::by_invocations(1, 0));
    say(&runner, &["a", "b", "c"]).await;
    let requests = model.requests();
    let prompt = requests[3].contents[0].text();
    assert!(prompt.ends_with("\n\nuser: a\nagent: Hi.\nuser: b\nagent: Hi again."), "{prompt}");
    assert_eq!(said(requests[4].contents.first()), "They greeted each other.");
}

#[tokio::test]
async fn what_a_model_is_asked_is_not_summed_up_before_it_answers() {
    let (model, notes) = (echo(), NumberedSummaries::default());
    let config = EventsCompactionConfig::by_tokens(1, 0).with_summarizer(notes.clone());
    let runner = runner(agent(&model), config);
    append_all(&runner, &["before", "and before"]).await;
    run(&runner, "a").await.unwrap();
    assert_eq!(last_request(&model), ["summary 0", "a"]);
    assert_eq!(notes.taken(), [vec!["before", "and before"], vec!["summary 0", "a", "re a"]]);
}

#[tokio::test]
async fn a_call_that_waits_is_not_summed_up_and_a_late_answer_finds_its_call() {
    let notes = NumberedSummaries::default();
    let ask = FunctionTool::new("ask", "Asks.", |_: Map<String, Value>, _| async { Ok(Value::Null) });
    let model = ScriptedLlm::new([
        LlmResponse::text("Hi."),
        LlmResponse::call("ask", json!({})),
        LlmResponse::text("Later."),
        LlmResponse::text("Thanks."),
    ]);
    let agent = LlmAgent::builder("agent").model(model.clone()).tool(ask.long_running()).build().unwrap();
    let runner = runner(agent, config_with(notes.clone()));
    let longer = "b, and more than a summary";
    say(&runner, &["a", longer, "c"]).await;
    // Only the events before the call can be summarized.
    assert_eq!(notes.taken(), [vec!["a", "Hi."], vec![longer]]);
    let session = stored(&runner).await;
    let id = session.events().iter().find_map(|event| event.function_calls().next()?.id.clone()).unwrap();
    let answer = json!({"parts": [{"functionResponse": {"id": id, "name": "ask", "response": {"ok": true}}}]});
    run(&runner, serde_json::from_value::<Content>(answer).unwrap()).await.unwrap();
    let request = last_request(&model);
    assert_eq!(request[request.len() - 2..], ["call", "response"]);
}

#[tokio::test]
async fn a_confirmation_that_is_asked_for_is_not_summed_up() {
    let notes = NumberedSummaries::default();
    let asks = FunctionAgent::new("agent", |context: InvocationContext| {
        async_stream::try_stream! {
            let call = json!({"functionCall": {"id": "one", "name": "tool", "args": {}}});
            let response = json!({"functionResponse": {"id": "one", "name": "tool", "response": {"error": "not yet"}}});
            for part in [call, response] {
                let mut event = context.event();
                if part.get("functionResponse").is_some() {
                    event.actions.requested_tool_confirmations.insert("one".into(), json!({"hint": "Sure?"}));
                }
                event.content = Some(serde_json::from_value(json!({"role": "model", "parts": [part]})).unwrap());
                yield event;
            }
        }
    });
    let runner = runner(asks, config_with(notes.clone()));
    run(&runner, "a").await.unwrap();
    assert_eq!(notes.taken(), [vec!["a"]]);
}

/// A summarizer that lets another writer act before it summarizes.
#[derive(Clone)]
struct Meanwhile {
    act: Arc<dyn Fn() -> futures_util::future::BoxFuture<'static, ()> + Send + Sync>,
    notes: NumberedSummaries,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

#[async_trait]
impl EventsSummarizer for Meanwhile {
    async fn summarize_events(&self, events: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        (self.act)().await;
        self.notes.summarize_events(events).await
    }
}

/// Returns a runner whose summaries take so long that another writer's event comes first.
fn interrupted(model: &ScriptedLlm, event: Event) -> Runner {
    let service = app();
    let others = Arc::clone(&service);
    let act = move || -> futures_util::future::BoxFuture<'static, ()> {
        let (others, event) = (Arc::clone(&others), event.clone());
        Box::pin(async move {
            let key = SessionKey::new("app", "user", "s").unwrap();
            others.append(&key, event, AppendOptions::default()).await.unwrap();
        })
    };
    let config = config_with(Meanwhile { act: Arc::new(act), notes: NumberedSummaries::default() });
    Runner::builder("app", agent(model), service).auto_create_session().events_compaction(config).build().unwrap()
}

#[tokio::test]
async fn what_others_append_while_events_are_summed_up_stays() {
    let model = echo();
    let runner = interrupted(&model, Event::new("user").with_content("by somebody").with_timestamp(1.0));
    say(&runner, &["a", "b"]).await;
    assert_eq!(last_request(&model), ["summary 0", "by somebody", "b"]);
}

#[tokio::test]
async fn a_summary_of_what_was_taken_back_meanwhile_is_dropped() {
    let model = echo();
    let mut rewind = Event::new("user");
    rewind.actions.rewind_before_invocation_id = Some("first".into());
    let runner = interrupted(&model, rewind);
    let first = RunRequest::message("a").with_invocation_id("first");
    run(&runner, first).await.unwrap();
    assert!(stored(&runner).await.events().iter().all(|event| event.actions.compaction.is_none()));
    run(&runner, "b").await.unwrap();
    assert_eq!(last_request(&model), ["b"]);
}

#[tokio::test]
async fn the_next_run_does_not_wait_until_events_are_summed_up() {
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (has_begun, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let act = move || -> futures_util::future::BoxFuture<'static, ()> {
        let (has_begun, wait) = (Arc::clone(&has_begun), Arc::clone(&wait));
        Box::pin(async move {
            has_begun.add_permits(1);
            wait.acquire().await.unwrap().forget();
        })
    };
    let model = echo();
    let config = config_with(Meanwhile { act: Arc::new(act), notes: NumberedSummaries::default() });
    let runner = runner(agent(&model), config);
    let mut first = runner.run("user", "s", "a");
    first.next().await.unwrap().unwrap();
    let rest = tokio::spawn(first.count());
    begun.acquire().await.unwrap().forget();
    let second = RunRequest::message("b").with_config(RunConfig::default().with_when_busy(WhenBusy::Refuse));
    let mut second = runner.run("user", "s", second);
    second.next().await.unwrap().unwrap();
    drop(second);
    go.add_permits(1);
    assert_eq!(rest.await.unwrap(), 0);
    go.add_permits(1);
    run(&runner, "c").await.unwrap();
    assert_eq!(last_request(&model), ["summary 0", "b", "re b", "c"]);
}

#[tokio::test]
async fn branches_of_one_run_do_not_sum_up_the_same_twice() {
    let notes = NumberedSummaries::default();
    let children = ["one", "two"].map(|name| {
        let agent = LlmAgent::builder(name).model(echo()).build().unwrap();
        Arc::new(agent) as Arc<dyn scratchbook::Agent>
    });
    let config = EventsCompactionConfig::by_tokens(1, 1).with_summarizer(notes.clone());
    let runner = runner(ParallelAgent::new("both", children.to_vec()), config);
    append_all(&runner, &["before", "and before"]).await;
    assert_eq!(run(&runner, "a").await.unwrap().len(), 2);
    let taken = notes.taken();
    assert_eq!(taken[0], ["before", "and before"]);
    assert!(taken[1..].iter().all(|events| events[0] == "summary 0"), "{taken:?}");
}

#[tokio::test]
async fn an_agent_that_is_shown_no_history_is_shown_no_summary_of_it() {
    let model = echo();
    let hermit =
        LlmAgent::builder("hermit").model(model.clone()).include_contents(scratchbook::agent::IncludeContents::None);
    let config = EventsCompactionConfig::by_tokens(1, 1).with_summarizer(NumberedSummaries::default());
    let runner = runner(hermit.build().unwrap(), config);
    append_all(&runner, &["before", "and before"]).await;
    run(&runner, "a").await.unwrap();
    assert_eq!(last_request(&model), ["a"]);
    assert!(stored(&runner).await.events().iter().any(|event| event.actions.compaction.is_some()));
}

#[tokio::test]
async fn a_configuration_that_says_nothing_or_half_is_refused() {
    let refused = |change: fn(&mut EventsCompactionConfig)| {
        let mut config = EventsCompactionConfig::default();
        change(&mut config);
        let built = Runner::builder("app", agent(&echo()), app()).events_compaction(config).build();
        let error = built.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    assert!(refused(|_| {}).contains("when to sum up"));
    assert!(refused(|config| config.token_threshold = Some(1)).contains("event_retention_size"));
    assert!(refused(|config| config.overlap_size = Some(1)).contains("compaction_interval"));
    assert!(refused(|config| *config = EventsCompactionConfig::by_tokens(0, 1)).contains("at least 1"));
    assert!(refused(|config| *config = EventsCompactionConfig::by_invocations(0, 1)).contains("at least 1"));
    let nobody = SequentialAgent::new("steps", vec![Arc::new(agent(&echo()))]);
    let config = EventsCompactionConfig::by_invocations(1, 0);
    let error = Runner::builder("app", nobody, app()).events_compaction(config).build().unwrap_err();
    assert!(error.to_string().contains("set a summarizer"), "{error}");
}
