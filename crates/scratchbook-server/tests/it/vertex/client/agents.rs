//! Agents over our client: tools that ask first or answer later, resumed runs, and summaries.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use scratchbook::agent::{
    EventsCompactionConfig, FunctionTool, LlmEventsSummarizer, RunnerBuilder, ToolConfirmation, ToolContext,
};
use scratchbook::content::Part;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::event::EventCompaction;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::store::{VertexAiOptions, VertexAiSessionService};
use scratchbook::{
    AppendOptions, Content, ErrorKind, Event, GetSessionConfig, LlmAgent, Result, RunRequest, Runner, Session,
    SessionKey, SessionService,
};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::serve;

type CallArgs = Map<String, Value>;

/// Returns a new client, as a separate process would have it.
async fn client(url: &str) -> VertexAiSessionService {
    VertexAiSessionService::open(VertexAiOptions::new("p1", "l1").with_endpoint(url)).await.unwrap()
}

fn on(client: VertexAiSessionService, agent: LlmAgent) -> RunnerBuilder {
    Runner::builder("shop", agent, client).auto_create_session()
}

async fn run(runner: &Runner, request: impl Into<RunRequest>) -> Result<Vec<Event>> {
    runner.run("alice", "s", request).try_collect().await
}

async fn stored(runner: &Runner) -> Session {
    let key = SessionKey::new("shop", "alice", "s").unwrap();
    runner.session_service().get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap()
}

/// Returns the id of the last call with this name.
fn called(events: &[Event], name: &str) -> String {
    let calls = events.iter().flat_map(Event::function_calls);
    calls.filter(|call| call.name.as_deref() == Some(name)).last().and_then(|call| call.id.clone()).unwrap()
}

fn answer(id: &str, name: &str, response: Value) -> Content {
    Content::new("user", vec![Part::function_response(id, name, response)])
}

/// Returns the answer to the request for a confirmation that is among these events.
fn confirm(asked: &[Event], confirmed: bool) -> Content {
    let name = ToolConfirmation::CALL_NAME;
    answer(&called(asked, name), name, json!({"confirmed": confirmed}))
}

fn said(events: &[Event]) -> String {
    events
        .iter()
        .filter_map(|event| event.content.as_ref())
        .map(Content::text)
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .into()
}

/// Returns an agent that pays after the user has agreed, and counts the payments.
fn payer<const N: usize>(turns: [LlmResponse; N], count: &Arc<AtomicUsize>) -> LlmAgent {
    let count = Arc::clone(count);
    let pay = FunctionTool::new("pay", "Pays.", move |args: CallArgs, context: ToolContext| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            context.state().set("paid", &args["amount"])?;
            Ok(json!({"paid": args["amount"]}))
        }
    });
    let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(turns));
    agent.tool(pay.require_confirmation()).build().unwrap()
}

fn pays() -> LlmResponse {
    LlmResponse::call("pay", json!({"amount": 5}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_user_confirms_is_carried_out_once_and_what_is_rejected_is_not() {
    for (confirmed, resumes) in [(true, false), (false, false), (true, true)] {
        let (url, count) = (serve().await, Arc::default());
        let runner = on(client(&url).await, payer([pays(), LlmResponse::text("Done.")], &count));
        let runner = if resumes { runner.resumable() } else { runner }.build().unwrap();
        let asked = run(&runner, "pay 5").await.unwrap();
        assert_eq!((count.load(Ordering::SeqCst), stored(&runner).await.state().get("paid")), (0, None));
        let events = run(&runner, confirm(&asked, confirmed)).await.unwrap();
        assert_eq!(said(&events), "Done.");
        assert_eq!(count.load(Ordering::SeqCst), usize::from(confirmed));
        let session = stored(&runner).await;
        assert_eq!(session.state().get("paid"), confirmed.then(|| json!(5)).as_ref());
        assert!(events.iter().all(|event| event.invocation_id == asked[0].invocation_id), "it is one run");
        // The same answer again, here or in another process, does nothing.
        let other = on(client(&url).await, payer([], &count)).build().unwrap();
        for runner in [&runner, &other] {
            assert!(run(runner, confirm(&asked, true)).await.unwrap().is_empty());
        }
        assert_eq!(count.load(Ordering::SeqCst), usize::from(confirmed));
        assert_eq!(stored(&runner).await.events().len(), session.events().len());
    }
}

/// A point at which two threads wait for each other. Unlike at a barrier, a thread stops waiting if the other one has
/// failed.
#[derive(Debug, Default)]
struct Meeting {
    came: Mutex<usize>,
    both: Condvar,
}

impl Meeting {
    fn wait_for_the_other(&self) {
        let mut came = self.came.lock().unwrap();
        *came += 1;
        self.both.notify_all();
        let (_came, waited) = self.both.wait_timeout_while(came, Duration::from_secs(60), |came| *came < 2).unwrap();
        assert!(!waited.timed_out(), "the other run did not come");
    }
}

/// Makes a run wait until another run has reached the same point. Then both runs have read the session and neither has
/// appended.
#[derive(Debug)]
struct Together {
    here: Arc<Meeting>,
    waited: AtomicBool,
}

impl Environment for Together {
    fn now(&self) -> f64 {
        SystemEnvironment.now()
    }

    fn new_id(&self) -> String {
        if !self.waited.swap(true, Ordering::SeqCst) {
            self.here.wait_for_the_other();
        }
        SystemEnvironment.new_id()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_processes_that_take_one_confirmation_at_once_one_at_most_carries_it_out() {
    for round in 0..10 {
        let (url, count) = (serve().await, Arc::default());
        let first = on(client(&url).await, payer([pays()], &count)).build().unwrap();
        let asked = run(&first, "pay 5").await.unwrap();
        let here = Arc::new(Meeting::default());
        let mut clicks = JoinSet::new();
        for _ in 0..2 {
            let runner = on(client(&url).await, payer([LlmResponse::text("Done.")], &count));
            let together = Together { here: Arc::clone(&here), waited: false.into() };
            let runner = runner.environment(Arc::new(together)).build().unwrap();
            let message = confirm(&asked, true);
            clicks.spawn(async move { run(&runner, message).await });
        }
        let mut refused = 0;
        for click in clicks.join_all().await {
            if let Err(error) = click {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                refused += 1;
            }
        }
        if refused == 2 {
            assert_eq!(count.load(Ordering::SeqCst), 0, "round {round}");
            let again = on(client(&url).await, payer([LlmResponse::text("Done.")], &count)).build().unwrap();
            run(&again, RunRequest::default()).await.unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_answered_later_in_another_process() {
    for resumes in [false, true] {
        let url = serve().await;
        let ask = || {
            FunctionTool::new("ask", "Asks.", |_: CallArgs, _: ToolContext| async { Ok(json!({"status": "pending"})) })
                .long_running()
        };
        let runner = async |turns: Vec<LlmResponse>| {
            let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(turns)).tool(ask()).build().unwrap();
            let runner = on(client(&url).await, agent);
            if resumes { runner.resumable() } else { runner }.build().unwrap()
        };
        let begun = runner(vec![LlmResponse::call("ask", json!({})), LlmResponse::text("I asked.")]).await;
        let asked = run(&begun, "ask").await.unwrap();
        let later = runner(vec![LlmResponse::text("You may.")]).await;
        let events = run(&later, answer(&called(&asked, "ask"), "ask", json!({"days": 3}))).await.unwrap();
        assert_eq!(said(&events), "You may.");
        assert!(events.iter().all(|event| event.invocation_id == asked[0].invocation_id), "it is one run");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_cut_off_is_taken_up_in_another_process() {
    let (url, begun) = (serve().await, Arc::new(Notify::new()));
    let runner = async |turns: Vec<LlmResponse>, hangs: bool| {
        let begun = Arc::clone(&begun);
        let work = FunctionTool::new("work", "Works.", move |_: CallArgs, context: ToolContext| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                if hangs {
                    std::future::pending::<()>().await;
                }
                context.state().set("user:worked", true)?;
                Ok(json!({"done": true}))
            }
        });
        let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(turns)).tool(work).build().unwrap();
        on(client(&url).await, agent).resumable().build().unwrap()
    };
    let first = runner(vec![LlmResponse::call("work", json!({}))], true).await;
    let request = RunRequest::message("work").with_invocation_id("run-1");
    let cut = tokio::spawn(async move { run(&first, request).await });
    begun.notified().await;
    cut.abort();
    assert!(cut.await.unwrap_err().is_cancelled());
    let second = runner(vec![LlmResponse::text("Done.")], false).await;
    let again = || RunRequest::default().with_invocation_id("run-1");
    assert_eq!(said(&run(&second, again()).await.unwrap()), "Done.");
    assert_eq!(stored(&second).await.state().get("user:worked"), Some(&json!(true)));
    assert!(run(&second, again()).await.unwrap().is_empty(), "what has ended is not done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_conversation_is_summed_up() {
    let url = serve().await;
    let model = ScriptedLlm::from_fn(|_| Ok(LlmResponse::text("Yes.")));
    let runner = async || {
        let agent = LlmAgent::builder("agent").model(model.clone()).build().unwrap();
        let summarizer = LlmEventsSummarizer::new(ScriptedLlm::from_fn(|_| Ok(LlmResponse::text("summary"))));
        let config = EventsCompactionConfig::by_invocations(2, 0).with_summarizer(summarizer);
        on(client(&url).await, agent).events_compaction(config).build().unwrap()
    };
    let runner = [runner().await, runner().await];
    for n in 0..5 {
        run(&runner[n % 2], format!("message {n}")).await.unwrap();
    }
    let summaries = stored(&runner[0]).await.events().iter().filter(|event| event.actions.compaction.is_some()).count();
    assert_eq!(summaries, 2);
    let asked = model.requests();
    let shown: Vec<_> = asked.last().unwrap().contents.iter().map(Content::text).collect();
    assert_eq!(shown, ["summary", "summary", "message 4"]);
}

/// Before a summary is appended, the runner checks whether another summary already covers the same events, or a rewind
/// has removed them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_that_another_process_was_faster_with_is_dropped() {
    let url = serve().await;
    let other = Arc::new(client(&url).await);
    let faster = move || {
        let compaction = EventCompaction::new(1.0, 2.0, Content::model("faster"));
        let mut event = Event::new("user").with_invocation_id("other");
        event.actions.compaction = Some(compaction.into());
        let (other, key) = (Arc::clone(&other), SessionKey::new("shop", "alice", "s").unwrap());
        let append = async move { other.append(&key, event, AppendOptions::default()).await.unwrap() };
        tokio::task::block_in_place(|| Handle::current().block_on(append));
    };
    let summarizer = LlmEventsSummarizer::new(ScriptedLlm::from_fn(move |_| {
        faster();
        Ok(LlmResponse::text("summary"))
    }));
    let agent = LlmAgent::builder("agent").model(ScriptedLlm::new(["Yes."])).build().unwrap();
    let config = EventsCompactionConfig::by_invocations(1, 0).with_summarizer(summarizer);
    let runner = on(client(&url).await, agent).events_compaction(config).build().unwrap();
    run(&runner, "hello").await.unwrap();
    let session = stored(&runner).await;
    let summaries: Vec<_> = session.events().iter().filter_map(|event| event.actions.compaction.as_ref()).collect();
    assert_eq!(summaries.iter().map(|one| one.compacted_content.text()).collect::<Vec<_>>(), ["faster"]);
}
