//! The Runner: takes a message, lets an agent act on it, and appends what it yields. It is the only place
//! that appends an agent's events.

mod answered;
mod begin;
mod compaction;
mod confirming;
mod options;
mod reading;
mod turns;

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Map, Value};

use crate::agent::{
    Agent, AgentTree, Compactor, EventStream, EventsCompactionConfig, InvocationContext, catch_panics, failure_event,
};
use scratchbook_core::artifact::ArtifactService;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Committed, Outcome, SessionKey, SessionService, check_id, temp_changes,
};
use scratchbook_core::state::Scope;

pub use options::{RunConfig, RunRequest, WhenBusy};

pub(crate) use turns::inherit_run;

use compaction::is_summary;
use turns::{Turn, Turns, in_run};

/// Runs agents on sessions.
///
/// An invocation reads its session once, appends the user's message, and then every event the agent yields:
/// each is committed before the caller sees it and before the agent goes on. Dropping the stream ends the run
/// and leaves the session as its last committed event left it.
///
/// ```
/// use futures_util::TryStreamExt;
/// use scratchbook::*;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let agent = LlmAgent::builder("assistant").model(ScriptedLlm::new(["Noted."])).build()?;
/// let runner = Runner::builder("shop", agent, InMemorySessionService::new()).auto_create_session().build()?;
///
/// let delta = StateDelta::new().with("cart", ["book"])?.with("user:visits", 1)?;
/// let request = RunRequest::message("Add a book").with_state_delta(delta);
/// let events: Vec<_> = runner.run("alice", "s1", request).try_collect().await?;
/// assert_eq!(events.len(), 1);
///
/// let key = SessionKey::new("shop", "alice", "s1")?;
/// let session = runner.session_service().get_session(&key, &GetSessionConfig::default()).await?.unwrap();
/// assert_eq!(session.state().get("cart"), Some(&json!(["book"])));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Runner {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    app_name: String,
    tree: Arc<AgentTree>,
    sessions: Arc<dyn SessionService>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    environment: Arc<dyn Environment>,
    auto_create_session: bool,
    compactor: Option<Arc<Compactor>>,
    resumable: bool,
    turns: Turns,
}

/// Builds a [`Runner`].
#[derive(Debug)]
pub struct RunnerBuilder {
    app_name: String,
    agent: Arc<dyn Agent>,
    sessions: Arc<dyn SessionService>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    environment: Arc<dyn Environment>,
    auto_create_session: bool,
    events_compaction: Option<EventsCompactionConfig>,
    resumable: bool,
}

impl RunnerBuilder {
    /// Where artifacts are kept; without it, saving one is an error.
    #[must_use]
    pub fn artifacts(mut self, artifacts: impl ArtifactService) -> Self {
        self.artifacts = Some(Arc::new(artifacts));
        self
    }

    /// Makes a session that is missing instead of refusing the run.
    #[must_use]
    pub fn auto_create_session(mut self) -> Self {
        self.auto_create_session = true;
        self
    }

    /// Sums up the events of sessions that have become long, so that requests do not.
    ///
    /// A summary is made before a model call, or after the last event of a run: the stream of a run ends when it is stored,
    /// while the next run of the session may begin already. It is an event of the session like any other, with the summary
    /// in its [`compaction`](scratchbook_core::event::EventActions::compaction), which is not among those that a run yields. Where none can be
    /// had, a warning is logged and the run goes on.
    ///
    /// With a rule [by tokens](EventsCompactionConfig::by_tokens) a run reads of its session what the last summary leaves
    /// over, and agents see no more of it, unless [`RunConfig::get_session_config`] says how much.
    #[must_use]
    pub fn events_compaction(mut self, config: EventsCompactionConfig) -> Self {
        self.events_compaction = Some(config);
        self
    }

    /// Runs can be taken up again: ADK's `ResumabilityConfig`. Agents then tell in events where they stand
    /// ([`agent_state`](scratchbook_core::event::EventActions::agent_state), [`end_of_agent`](scratchbook_core::event::EventActions::end_of_agent)), and two
    /// requests go on with a run: one with its id and no message, which goes on where the events end, in whatever process;
    /// and one that answers its calls, which goes on with the whole of it, such as the rest of a
    /// [`SequentialAgent`](crate::agent::SequentialAgent). While calls of an agent wait for answers, its model is not asked.
    ///
    /// A tool whose call has no answer among the events is run again: **at least once**, so it has to bear that. So are
    /// callbacks before an agent's turn. `temp:` state is gone. What ended is not done again.
    #[must_use]
    pub fn resumable(mut self) -> Self {
        self.resumable = true;
        self
    }

    /// A clock and ids of your own.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// The runner.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the app's name is invalid, if two agents of the tree have one name, if the name of one is no
    /// identifier or is `user`, and if compaction has no trigger or no summarizer.
    pub fn build(self) -> Result<Runner> {
        check_id("app name", &self.app_name)?;
        let compactor = self.events_compaction.map(|config| Compactor::new(config, self.agent.as_ref())).transpose()?;
        let inner = Inner {
            app_name: self.app_name,
            tree: Arc::new(AgentTree::new(self.agent)?),
            sessions: self.sessions,
            artifacts: self.artifacts,
            environment: self.environment,
            auto_create_session: self.auto_create_session,
            compactor: compactor.map(Arc::new),
            resumable: self.resumable,
            turns: Turns::default(),
        };
        Ok(Runner { inner: Arc::new(inner) })
    }
}

impl Runner {
    /// Begins a runner of an app: its root agent, and where its sessions are kept.
    #[must_use]
    pub fn builder(app_name: impl Into<String>, agent: impl Agent, sessions: impl SessionService) -> RunnerBuilder {
        RunnerBuilder {
            app_name: app_name.into(),
            agent: Arc::new(agent),
            sessions: Arc::new(sessions),
            artifacts: None,
            environment: Arc::new(SystemEnvironment),
            auto_create_session: false,
            events_compaction: None,
            resumable: false,
        }
    }

    /// The app.
    #[must_use]
    pub fn app_name(&self) -> &str {
        &self.inner.app_name
    }

    /// The agent at the root of its tree.
    #[must_use]
    pub fn agent(&self) -> &Arc<dyn Agent> {
        self.inner.tree.root()
    }

    /// Where sessions are kept.
    #[must_use]
    pub fn session_service(&self) -> &Arc<dyn SessionService> {
        &self.inner.sessions
    }

    /// Where artifacts are kept, if they are.
    #[must_use]
    pub fn artifact_service(&self) -> Option<&Arc<dyn ArtifactService>> {
        self.inner.artifacts.as_ref()
    }

    /// Runs the agent on a session: a message, a state delta, or both; without either, on what the session holds. The
    /// stream yields the agent's events, committed, as they arise; nothing happens until it is polled. Needs a Tokio
    /// runtime.
    ///
    /// The stream ends with an error where the session is missing, or the run that is to be taken up again (`NotFound`),
    /// where another run of the session is going on and waiting is not wanted (`Conflict`), where the run was started inside
    /// a run of its own session (`FailedPrecondition`), where the message answers a call that the session does not have,
    /// calls of several runs, or calls tools itself (`InvalidArgument`), and where the agent or its model fails; the event
    /// before such a failure tells of it.
    ///
    /// A [confirmation](crate::tool::ToolConfirmation) is taken once, in whatever process, and what it allows is run for it once.
    /// When that has been answered, the same again leads to nothing: nothing is stored, and the stream is empty. Before, it
    /// is refused (`Conflict`), since it is not known here whether the tool is still running elsewhere; where it is not, a
    /// run without a message runs it again.
    ///
    /// A run waits for the run of its session before it. Code inside a run that starts another of the same
    /// session in a task of its own and waits for it, or that keeps a stream unread while waiting for the next,
    /// waits for itself: use [`WhenBusy::Refuse`] there.
    #[must_use]
    pub fn run(&self, user_id: &str, session_id: &str, request: impl Into<RunRequest>) -> EventStream {
        let inner = Arc::clone(&self.inner);
        let key = SessionKey::new(&inner.app_name, user_id, session_id);
        let request = request.into();
        Box::pin(async_stream::try_stream! {
            let key = key?;
            let turn = inner.turns.begin(&key, request.config.when_busy).await?;
            let begun = inner.start(key, request, &turn).await?;
            let last = begun.last().map(|(_, context)| context.clone());
            for (agent, context) in begun {
                let events = in_run(Arc::clone(&turn), agent.run(context.clone()));
                let mut events = pin!(catch_panics(events));
                while let Some(item) = events.next().await {
                    let (event, failure) = match item {
                        Ok(event) => (Some(event), None),
                        // An agent of the caller's own that failed, or one that panicked, has not told of it.
                        Err(error) => ((!error.is_reported()).then(|| failure_event(&context, &error)), Some(error)),
                    };
                    match event {
                        Some(event) if is_summary(&event) => inner.commit_summary(&context, event, Some(&turn)).await,
                        Some(event) => match inner.commit(&context, event, &turn).await {
                            Ok(event) => yield event,
                            Err(error) => {
                                // The agent cannot tell of it; where not even that can be stored, the error alone does.
                                let told = failure_event(&context, &error);
                                if let Ok(told) = inner.commit(&context, told, &turn).await {
                                    yield told;
                                }
                                Err(error)?;
                            }
                        },
                        None => {}
                    }
                    if let Some(error) = failure {
                        Err(error)?;
                    }
                }
            }
            // The run is over; what is summed up of it keeps nobody waiting but whoever reads to the end.
            drop(turn);
            if let Some((context, compacting)) = last.as_ref().and_then(|last| Some((last, last.compacting()?)))
                && let Some(summary) = compacting.after_run(context).await
            {
                inner.commit_summary(context, summary, None).await;
            }
        })
    }
}

impl Inner {
    /// Appends an event and gives it as it is stored. A piece of a stream is given back, without `temp:`.
    async fn commit(&self, context: &InvocationContext, event: Event, turn: &Arc<Turn>) -> Result<Event> {
        self.commit_with(context, event, turn, AppendOptions::default()).await
    }

    async fn commit_with(
        &self,
        context: &InvocationContext,
        mut event: Event,
        turn: &Arc<Turn>,
        options: AppendOptions,
    ) -> Result<Event> {
        add_metadata(&mut event, &context.run_config().custom_metadata);
        // With an id and a time of its own the append can be tried again.
        if event.id.is_empty() {
            event.id = self.environment.new_id();
        }
        event.timestamp.get_or_insert_with(|| self.environment.now());
        if event.author.is_empty() {
            context.agent_name().clone_into(&mut event.author);
        }
        if event.invocation_id.is_empty() {
            context.invocation_id().clone_into(&mut event.invocation_id);
        }
        if event.is_partial() {
            let delta = &mut event.actions.state_delta;
            delta.retain(|key| Scope::split(key).0 != Scope::Temp);
            *delta = context.board().shown(delta)?;
            return Ok(event);
        }
        let temp = temp_changes(&event, &context.session())?;
        let committed = self.append(context.session_key().clone(), event, options, Some(Arc::clone(turn))).await?;
        context.board().committed(&committed, &temp);
        Ok(Event::clone(&committed.event))
    }

    /// Appends in a task of its own: a run that is dropped meanwhile neither cancels it nor lets the next run
    /// of the session begin before it is done.
    async fn append(
        &self,
        key: SessionKey,
        event: Event,
        options: AppendOptions,
        turn: Option<Arc<Turn>>,
    ) -> Result<Committed> {
        let sessions = Arc::clone(&self.sessions);
        let append = tokio::spawn(async move {
            let committed = sessions.append(&key, event, options).await;
            drop(turn);
            committed
        });
        let committed = append.await.map_err(|e| Error::internal("the append panicked").with_source(e))??;
        match committed.outcome {
            Outcome::Stored => Ok(committed),
            Outcome::Replayed | Outcome::Partial => {
                let id = &committed.event.id;
                Err(Error::invalid(format!("the event {id} is in the session already; yield each event once")))
            }
        }
    }
}

/// Puts a run's metadata beside an event; where both say something, the event has it right.
fn add_metadata(event: &mut Event, of_run: &Map<String, Value>) {
    if of_run.is_empty() {
        return;
    }
    let mut metadata = of_run.clone();
    metadata.extend(event.custom_metadata.take().map(|own| *own).unwrap_or_default());
    event.custom_metadata = Some(metadata.into());
}
