//! The Runner: takes a message, lets an agent act on it, and appends what it yields. It is the only place
//! that appends an agent's events.

mod answered;
mod compaction;
mod options;
mod reading;
mod turns;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures_util::StreamExt;
use serde_json::{Map, Value};

use crate::agent::{
    Agent, AgentTree, Board, Compacting, Compactor, EventStream, EventsCompactionConfig, Invocation, InvocationContext,
    NodeTurns, catch_panics, failure_event,
};
use crate::artifact::ArtifactService;
use crate::content::Content;
use crate::environment::{Environment, SystemEnvironment};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, Committed, CreateSessionConfig, GetSessionConfig, Outcome, Session, SessionKey, SessionService,
    check_id, no_session, temp_changes,
};
use crate::state::Scope;

pub use options::{RunConfig, RunRequest, WhenBusy};

pub(crate) use turns::inherit_run;

use answered::answered_run;
use compaction::is_summary;
use reading::{Needed, from_last_summary, is_unlimited};
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
    /// in its [`compaction`](crate::EventActions::compaction), which is not among those that a run yields. Where none can be
    /// had, a warning is logged and the run goes on.
    ///
    /// With a rule [by tokens](EventsCompactionConfig::by_tokens) a run reads of its session what the last summary leaves
    /// over, and agents see no more of it, unless [`RunConfig::get_session_config`] says how much.
    #[must_use]
    pub fn events_compaction(mut self, config: EventsCompactionConfig) -> Self {
        self.events_compaction = Some(config);
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
    /// `InvalidArgument` where the app's name is none, where two agents of the tree have one name, or one is
    /// called `user`, and where it is not said when events are summed up, or by whom.
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
    /// The stream ends with an error where the session is missing (`NotFound`), where another run of the
    /// session is going on and waiting is not wanted (`Conflict`), where the run was started inside a run of
    /// its own session (`FailedPrecondition`), where the message answers a call that the session does not have, calls of
    /// several runs, or calls tools itself (`InvalidArgument`), and where the agent or its model fails; the event before
    /// such a failure tells of it.
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
            let run = inner.start(key.clone(), request, &turn).await?;
            let events = in_run(Arc::clone(&turn), run.agent.run(run.context.clone()));
            let mut events = Box::pin(catch_panics(events));
            while let Some(item) = events.next().await {
                let (event, failure) = match item {
                    Ok(event) => (Some(event), None),
                    // An agent of the caller's own that failed, or one that panicked, has not told of it.
                    Err(error) => ((!error.is_told()).then(|| failure_event(&run.context, &error)), Some(error)),
                };
                match event {
                    Some(event) if is_summary(&event) => inner.commit_summary(&run.context, event, Some(&turn)).await,
                    Some(event) => yield inner.commit(&run.context, event, &turn).await?,
                    None => {}
                }
                if let Some(error) = failure {
                    Err(error)?;
                }
            }
            // The run is over; what is summed up of it keeps nobody waiting but whoever reads to the end.
            drop(events);
            drop(turn);
            if let Some(compacting) = run.context.compacting()
                && let Some(summary) = compacting.after_run(&run.context).await
            {
                inner.commit_summary(&run.context, summary, None).await;
            }
        })
    }
}

/// A run under way.
struct Run {
    agent: Arc<dyn Agent>,
    context: InvocationContext,
}

impl Inner {
    /// Reads the session, appends what the user says, and picks the agent.
    async fn start(&self, key: SessionKey, request: RunRequest, turn: &Arc<Turn>) -> Result<Run> {
        let RunRequest { message, state_delta, invocation_id, config } = request;
        // An answer may be to a call from anywhere, and without a message anything may be left to do.
        let is_said = message.as_ref().is_some_and(|message| message.function_responses().next().is_none());
        let overlap = self.compactor.as_ref().and_then(|compactor| compactor.overlap()).filter(|_| is_said);
        let session = self.session(&key, &config.get_session_config, overlap).await?;
        let answered = message.as_ref().map(|message| answered_run(message, session.events())).transpose()?.flatten();
        let given = || invocation_id.filter(|id| !id.is_empty());
        let id = answered.or_else(given).unwrap_or_else(|| format!("e-{}", self.environment.new_id()));
        let invocation = Invocation {
            id,
            board: Board::new(session),
            key,
            tree: Arc::clone(&self.tree),
            artifacts: self.artifacts.clone(),
            environment: Arc::clone(&self.environment),
            user_content: message.clone(),
            config,
            llm_calls: AtomicUsize::new(0),
            compacting: self.compactor.clone().map(Compacting::new),
            turns: NodeTurns::default(),
        };
        let context = InvocationContext::new(Arc::new(invocation), "user");
        // Without either, the run goes on from what the session holds.
        if message.is_some() || !state_delta.is_empty() {
            let mut event = context.event().with_state_delta(state_delta);
            event.content = message.map(|message| Content { role: Some("user".to_owned()), ..message });
            self.commit(&context, event, turn).await?;
        }
        let agent = Arc::clone(self.tree.next_agent(context.session().events()));
        let context = context.for_first_agent(agent.name());
        Ok(Run { agent, context })
    }

    /// The session; where an overlap is given, as far as its last summary leaves over.
    async fn session(&self, key: &SessionKey, config: &GetSessionConfig, overlap: Option<usize>) -> Result<Session> {
        let found = match overlap.filter(|_| is_unlimited(config)) {
            Some(overlap) => {
                let needed = Needed { overlap, tree: &self.tree };
                from_last_summary(self.sessions.as_ref(), key, config, needed).await?
            }
            None => self.sessions.get_session(key, config).await?,
        };
        if let Some(session) = found {
            return Ok(session);
        }
        if !self.auto_create_session {
            return Err(no_session(key));
        }
        let create = CreateSessionConfig::default().with_session_id(key.session_id());
        match self.sessions.create_session(key.app_name(), key.user_id(), create).await {
            // Another process, or another runner, was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.sessions.get_session(key, config).await?.ok_or_else(|| no_session(key))
            }
            created => created,
        }
    }

    /// Appends an event and gives it as it is stored. A piece of a stream is given back, without `temp:`.
    async fn commit(&self, context: &InvocationContext, mut event: Event, turn: &Arc<Turn>) -> Result<Event> {
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
        let options = AppendOptions::default();
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
    metadata.extend(event.custom_metadata.take().unwrap_or_default());
    event.custom_metadata = Some(metadata);
}
