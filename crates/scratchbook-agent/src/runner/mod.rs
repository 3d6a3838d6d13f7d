//! The Runner takes a message, lets an agent act on it, and appends the events that the agent yields. It is the only
//! code that appends an agent's events.

mod answered_calls;
mod begin;
mod compaction;
mod confirming;
mod nested;
mod options;
mod overrides;
mod reading;
mod session_lock;
mod sync;

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Map, Value};

use crate::agent::{
    Agent, AgentTree, Compactor, EventStream, EventsCompactionConfig, InvocationContext, catch_panics, failure_event,
};
use crate::plugin::{Plugin, Plugins};
use crate::trace::{self, TraceConfig};
use scratchbook_core::artifact::ArtifactService;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Committed, Outcome, SessionKey, SessionService, check_id, temp_changes,
};
use scratchbook_core::state::Scope;

pub use options::{RunConfig, RunRequest, WhenBusy};
#[doc(hidden)]
pub use overrides::{RunOverride, RunOverrides, TurnParts};

pub(crate) use session_lock::inherit_run;

pub(crate) use nested::{NestedRun, OuterRun};

use begin::StartedAgents;
use compaction::is_summary;
use session_lock::{RunPermit, SessionLocks, in_run};

/// Runs agents on sessions.
///
/// An invocation reads its session once, appends the user's message, and then appends every event that the agent
/// yields. Each event is committed before the caller sees it and before the agent continues. Dropping the stream ends
/// the run. The session then ends with the last event that was committed.
///
/// ```
/// use futures_util::TryStreamExt;
/// use scratchbook::prelude::*;
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
    inner: Arc<RunnerCore>,
}

#[derive(Debug)]
struct RunnerCore {
    app_name: String,
    tree: Arc<AgentTree>,
    sessions: Arc<dyn SessionService>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    environment: Arc<dyn Environment>,
    auto_create_session: bool,
    compactor: Option<Arc<Compactor>>,
    resumable: bool,
    overrides: Option<Arc<dyn RunOverrides>>,
    tracing: TraceConfig,
    plugins: Arc<Plugins>,
    /// The run whose tool runs this runner's agent.
    outer: Option<OuterRun>,
    locks: SessionLocks,
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
    overrides: Option<Arc<dyn RunOverrides>>,
    tracing: TraceConfig,
    plugins: Vec<Arc<dyn Plugin>>,
}

impl RunnerBuilder {
    /// Sets the service that stores artifacts. Without a service, saving an artifact is an error.
    #[must_use]
    pub fn artifacts(mut self, artifacts: impl ArtifactService) -> Self {
        self.artifacts = Some(Arc::new(artifacts));
        self
    }

    /// Creates the session of a run if it does not exist. Without this, the run is refused.
    #[must_use]
    pub fn auto_create_session(mut self) -> Self {
        self.auto_create_session = true;
        self
    }

    /// Summarizes the events of long sessions, so that requests stay short.
    ///
    /// A summary is made before a model call or after the last event of a run. In the latter case, the run's stream
    /// ends only when the summary is stored, but the session's next run may begin before that. A summary is an event of
    /// the session with its text in [`compaction`](scratchbook_core::event::EventActions::compaction); a run does not
    /// yield it. If no summary can be made, a warning is logged and the run continues.
    ///
    /// With a rule [by tokens](EventsCompactionConfig::by_tokens), a run reads only the events that the last summary
    /// does not cover, and its agents see no others. [`RunConfig::get_session_config`] can set how much is read
    /// instead.
    #[must_use]
    pub fn events_compaction(mut self, config: EventsCompactionConfig) -> Self {
        self.events_compaction = Some(config);
        self
    }

    /// Makes runs resumable, like ADK's `ResumabilityConfig`. Agents then record their progress in events
    /// ([`agent_state`](scratchbook_core::event::EventActions::agent_state),
    /// [`end_of_agent`](scratchbook_core::event::EventActions::end_of_agent)). Two kinds of requests resume a run. A
    /// request with the run's id and no message continues where the run's events end, in any process. A request that
    /// answers calls of the run continues the whole run, for example the rest of a
    /// [`SequentialAgent`](crate::agent::SequentialAgent). While an agent waits for responses to its calls, its model
    /// is not called.
    ///
    /// A tool runs again if its call has no response among the events. Tools therefore run **at least once** and must
    /// tolerate running again; the same holds for callbacks before an agent's turn. `temp:` state is lost. Agents that
    /// have ended do not run again.
    #[must_use]
    pub fn resumable(mut self) -> Self {
        self.resumable = true;
        self
    }

    /// Adds a [plugin](Plugin): callbacks for all agents, which run before the agents' own.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Sets what may replace the models and tools of runs.
    #[doc(hidden)]
    #[must_use]
    pub fn overrides(mut self, overrides: Arc<dyn RunOverrides>) -> Self {
        self.overrides = Some(overrides);
        self
    }

    /// Sets where the spans of runs are sent and what exported spans contain.
    #[must_use]
    pub fn tracing(mut self, tracing: TraceConfig) -> Self {
        self.tracing = tracing;
        self
    }

    /// Sets the clock and the source of ids.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Builds the runner.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the app name is invalid, if two agents of the tree have the same name, if an agent's name
    /// is not an identifier or is `user`, if two plugins have the same name, or if compaction has no trigger or no
    /// summarizer.
    pub fn build(self) -> Result<Runner> {
        check_id("app name", &self.app_name)?;
        let compactor = self.events_compaction.map(|config| Compactor::new(config, self.agent.as_ref())).transpose()?;
        let inner = RunnerCore {
            app_name: self.app_name,
            tree: Arc::new(AgentTree::new(self.agent)?),
            sessions: self.sessions,
            artifacts: self.artifacts,
            environment: self.environment,
            auto_create_session: self.auto_create_session,
            compactor: compactor.map(Arc::new),
            resumable: self.resumable,
            overrides: self.overrides,
            tracing: self.tracing,
            plugins: Arc::new(Plugins::new(self.plugins)?),
            outer: None,
            locks: SessionLocks::default(),
        };
        Ok(Runner { inner: Arc::new(inner) })
    }
}

impl Runner {
    /// Creates a builder for a runner of an app, with its root agent and its session service.
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
            overrides: None,
            tracing: TraceConfig::default(),
            plugins: Vec::new(),
        }
    }

    /// Returns the app's name.
    #[must_use]
    pub fn app_name(&self) -> &str {
        &self.inner.app_name
    }

    /// Returns the root agent.
    #[must_use]
    pub fn agent(&self) -> &Arc<dyn Agent> {
        self.inner.tree.root()
    }

    /// Returns the session service.
    #[must_use]
    pub fn session_service(&self) -> &Arc<dyn SessionService> {
        &self.inner.sessions
    }

    /// Returns the artifact service, if there is one.
    #[must_use]
    pub fn artifact_service(&self) -> Option<&Arc<dyn ArtifactService>> {
        self.inner.artifacts.as_ref()
    }

    /// Runs the agent on a session, with a message, a state delta, or both. Without either, the run continues from the
    /// session as it is. The stream yields the agent's events as they are committed. Nothing happens until the stream
    /// is polled. Needs a Tokio runtime.
    ///
    /// The stream ends with an error
    ///
    /// - if the session does not exist, or a run to be resumed does not exist (`NotFound`);
    /// - if another run of the session is active and the request does not allow waiting (`Conflict`);
    /// - if the run was started inside a run of its own session (`FailedPrecondition`);
    /// - if the message answers a call that the session does not have, answers calls of several runs, or makes calls
    ///   itself (`InvalidArgument`);
    /// - if the agent or its model fails. The event before the error then reports the failure.
    ///
    /// A [confirmation](crate::tool::ToolConfirmation) is accepted once across all processes, and the confirmed call
    /// runs once for it. If the confirmation is sent again after that call has its response, nothing happens: no event
    /// is stored, and the stream is empty. Before the response, a repeated confirmation is refused (`Conflict`), since
    /// the tool may still be running in another process. If no process runs the tool any more, a run without a message
    /// runs it again.
    ///
    /// A run waits for the previous run of its session. So code inside a run waits for ever if it starts another run of
    /// the same session in its own task and awaits it. Code that holds an unread stream of a run and waits for the next
    /// run also waits for ever. Use [`WhenBusy::Refuse`] in such code.
    #[must_use]
    pub fn run(&self, user_id: &str, session_id: &str, request: impl Into<RunRequest>) -> EventStream {
        let inner = Arc::clone(&self.inner);
        let key = SessionKey::new(&inner.app_name, user_id, session_id);
        let request = request.into();
        Box::pin(async_stream::try_stream! {
            let key = key?;
            let permit = inner.locks.begin(&key, request.config.when_busy).await?;
            let begun = inner.start(key, request, &permit).await?;
            if let Some((_, context)) = begun.last() {
                let context = context.clone();
                let mut events = Box::pin(catch_panics(in_run(Arc::clone(&permit), inner.events(begun, &permit))));
                while let Some(item) = events.next().await {
                    match item {
                        Ok(event) => yield event,
                        Err(error) => {
                            inner.plugins.on_run_error(&context, &error).await;
                            Err(error)?;
                        }
                    }
                }
                drop(events);
                // The run is over, so the next one may begin. A reader waits for the summary only if it reads the
                // stream to its end.
                drop(permit);
                if let Some(summary) = match context.compacting() {
                    Some(compacting) => compacting.after_run(&context).await,
                    None => None,
                } {
                    inner.commit_summary(&context, summary, None).await;
                }
            }
        })
    }
}

impl RunnerCore {
    /// Runs the agents of a run, and the plugins' callbacks around it.
    fn events(self: &Arc<Self>, begun: StartedAgents, permit: &Arc<RunPermit>) -> EventStream {
        let (inner, permit) = (Arc::clone(self), Arc::clone(permit));
        Box::pin(async_stream::try_stream! {
            let Some((_, of_run)) = begun.first().cloned() else {
                return;
            };
            if let Some(content) = inner.plugins.before_run(&of_run).await? {
                let answer = Event { author: "model".to_owned(), content: Some(content), ..Event::default() };
                yield inner.commit_output(&of_run, answer, &permit).await?;
                inner.plugins.after_run(&of_run).await?;
                return;
            }
            for (agent, context) in begun {
                let mut events = pin!(catch_panics(trace::run(&agent, &context)));
                while let Some(item) = events.next().await {
                    let (event, failure) = match item {
                        Ok(event) => (Some(event), None),
                        // The failure still has to be reported if an agent of the application failed or if any agent
                        // panicked.
                        Err(error) => ((!error.is_reported()).then(|| failure_event(&context, &error)), Some(error)),
                    };
                    match event {
                        Some(event) if is_summary(&event) => inner.commit_summary(&context, event, Some(&permit)).await,
                        Some(event) => match inner.commit_output(&context, event, &permit).await {
                            Ok(event) => yield event,
                            Err(error) => {
                                // The agent cannot report this error, so it is reported here. If the report cannot be
                                // stored, only the error is returned.
                                let report = failure_event(&context, &error);
                                if let Ok(report) = inner.commit(&context, report, &permit).await {
                                    yield report;
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
            inner.plugins.after_run(&of_run).await?;
        })
    }

    /// Appends an event of the run's output, after the plugins have processed it.
    async fn commit_output(
        &self,
        context: &InvocationContext,
        mut event: Event,
        permit: &Arc<RunPermit>,
    ) -> Result<Event> {
        if !self.plugins.is_empty() {
            self.complete(&mut event, context);
            event = self.plugins.on_event(context, event).await?;
        }
        self.commit(context, event, permit).await
    }

    /// Appends an event and returns it as stored. A piece of a streamed answer is returned without `temp:` changes.
    async fn commit(&self, context: &InvocationContext, event: Event, permit: &Arc<RunPermit>) -> Result<Event> {
        self.commit_with(context, event, permit, AppendOptions::default()).await
    }

    async fn commit_with(
        &self,
        context: &InvocationContext,
        mut event: Event,
        permit: &Arc<RunPermit>,
        options: AppendOptions,
    ) -> Result<Event> {
        self.complete(&mut event, context);
        if event.is_partial() {
            let delta = &mut event.actions.state_delta;
            delta.retain(|key| Scope::split(key).0 != Scope::Temp);
            *delta = context.invocation_state().shown(delta)?;
            return Ok(event);
        }
        let temp = temp_changes(&event, &context.session())?;
        let committed = self.append(context.session_key().clone(), event, options, Some(Arc::clone(permit))).await?;
        // A store that has lost the answer to its commit and tries again also returns this outcome. In that case, the
        // run's copy of the session does not have the event yet.
        if committed.outcome == Outcome::Replayed && context.session().has_event(&committed.event) {
            let id = &committed.event.id;
            return Err(Error::invalid(format!("the event {id} is in the session already; yield each event once")));
        }
        context.invocation_state().committed(&committed, &temp);
        Ok(Event::clone(&committed.event))
    }

    /// Sets what an event of a run lacks: its id, time, author, run, and the run's metadata. The append can then be
    /// retried.
    fn complete(&self, event: &mut Event, context: &InvocationContext) {
        add_metadata(event, &context.run_config().custom_metadata);
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
    }

    /// Appends an event in a separate task. If the run is dropped, the append is therefore completed, and the session's
    /// next run begins after it.
    async fn append(
        &self,
        key: SessionKey,
        event: Event,
        options: AppendOptions,
        permit: Option<Arc<RunPermit>>,
    ) -> Result<Committed> {
        let sessions = Arc::clone(&self.sessions);
        let append = tokio::spawn(async move {
            let committed = sessions.append(&key, event, options).await;
            drop(permit);
            committed
        });
        append.await.map_err(|e| Error::internal("the append panicked").with_source(e))?
    }
}

/// Adds a run's metadata to an event. If both have the same key, the event's value is kept.
fn add_metadata(event: &mut Event, of_run: &Map<String, Value>) {
    if of_run.is_empty() {
        return;
    }
    let mut metadata = of_run.clone();
    metadata.extend(event.custom_metadata.take().map(|own| *own).unwrap_or_default());
    event.custom_metadata = Some(metadata.into());
}
