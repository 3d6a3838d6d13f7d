//! Starts a run: stores the user's message and chooses the agents that act on it.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::answered_calls::{AnsweredCalls, CallingAgent};
use super::reading::{Needed, from_last_summary, is_unlimited};
use super::session_lock::{RunPermit, within_run};
use super::{RunConfig, RunRequest, RunnerCore};
use crate::agent::{
    Agent, Invocation, InvocationContext, InvocationState, PastEvents, RunCompaction, TurnCounts, catch_panic,
    live_backward,
};
use crate::trace::RunTrace;
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{CreateSessionConfig, Events, Session, SessionKey, no_session, retry_pauses};

/// The agents of a run with their contexts; empty if there is nothing to do.
pub(super) type StartedAgents = Vec<(Arc<dyn Agent>, InvocationContext)>;

/// A run that is resumed.
struct ResumedRun {
    /// The session's events up to the message with which the run began.
    begin: Events,
    message: Option<Content>,
}

impl RunnerCore {
    /// Reads the session, appends the user's message and chooses the agents.
    pub(super) async fn start(
        &self,
        key: SessionKey,
        mut request: RunRequest,
        permit: &Arc<RunPermit>,
    ) -> Result<StartedAgents> {
        let mut pauses = retry_pauses();
        let mut seen = None;
        let mut is_new = true;
        loop {
            let session = self.session(&key, &request).await?;
            let seq = session.seq();
            if std::mem::take(&mut is_new) && !self.plugins.is_empty() {
                within_run(permit, self.pass_message(&session, &mut request)).await?;
            }
            let shown = (!self.plugins.is_empty()).then(|| session.clone());
            match self.try_start(session, &key, &request, permit).await {
                // Another process may have answered the same call in the meantime, so the session is read again.
                Err(error) if error.kind() == ErrorKind::Conflict && seen != Some(seq) => {
                    seen = Some(seq);
                    let Some(pause) = pauses.next() else {
                        return Err(error);
                    };
                    tokio::time::sleep(pause).await;
                }
                Ok(started) => return Ok(started),
                Err(error) => {
                    if let Some(session) = shown {
                        let RunRequest { invocation_id, message, config, .. } = request;
                        let context = self.context(session, invocation_id, message, &config);
                        self.plugins.on_run_error(&context, &error).await;
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Passes the user's message through the plugins. The run has its id from then on.
    async fn pass_message(&self, session: &Session, request: &mut RunRequest) -> Result<()> {
        let Some(message) = request.message.take() else {
            return Ok(());
        };
        let id = request.invocation_id.take().filter(|id| !id.is_empty()).unwrap_or_else(|| self.new_invocation_id());
        request.invocation_id = Some(id.clone());
        // A message that answers calls belongs to the run that made them.
        let answered = AnsweredCalls::of(&message, &live(session.events())).ok().and_then(|answered| answered.run);
        let context = self.context(session.clone(), answered.or(Some(id)), Some(message.clone()), &request.config);
        let context = context.for_agent(self.tree.root().name());
        match catch_panic("a plugin", self.plugins.on_user_message(&context, message)).await {
            Ok(message) => {
                request.message = Some(message);
                Ok(())
            }
            Err(error) => {
                self.plugins.on_run_error(&context, &error).await;
                Err(error)
            }
        }
    }

    fn new_invocation_id(&self) -> String {
        format!("e-{}", self.environment.new_id())
    }

    /// Returns the context of a run on a session, before an agent is chosen.
    fn context(
        &self,
        session: Session,
        id: Option<String>,
        user_content: Option<Content>,
        config: &RunConfig,
    ) -> InvocationContext {
        let id = id.unwrap_or_else(|| self.new_invocation_id());
        let trace = match &self.outer {
            Some(outer) => Arc::clone(&outer.trace),
            None => Arc::new(RunTrace::new(self.tracing.clone(), session.key().clone(), id.clone())),
        };
        let invocation = Invocation {
            id,
            key: session.key().clone(),
            tree: Arc::clone(&self.tree),
            artifacts: self.artifacts.clone(),
            environment: Arc::clone(&self.environment),
            user_content,
            config: config.clone(),
            llm_calls: AtomicUsize::new(0),
            compacting: self.compactor.clone().map(RunCompaction::new),
            turn_counts: TurnCounts::default(),
            resumable: self.resumable,
            run_override: OnceLock::new(),
            trace,
            plugins: Arc::clone(&self.plugins),
            state: InvocationState::new(session),
        };
        let context = InvocationContext::new(Arc::new(invocation), "user");
        context.within_parent(self.outer.as_ref().and_then(|outer| outer.span.clone()))
    }

    async fn try_start(
        &self,
        session: Session,
        key: &SessionKey,
        request: &RunRequest,
        permit: &Arc<RunPermit>,
    ) -> Result<StartedAgents> {
        let message = request.message.as_ref();
        // Most messages answer no call, so the events are not needed.
        let looks_up = message.is_none_or(|message| message.function_responses().next().is_some());
        let live = |events: &Events| if looks_up { live(events) } else { Vec::new() };
        let events = live(session.events());
        let answered = message.map(|message| AnsweredCalls::of(message, &events)).transpose()?.unwrap_or_default();
        let given = request.invocation_id.as_ref().filter(|id| !id.is_empty());
        let goes_on = answered.run.as_ref().or(given.filter(|_| message.is_none() && !request.is_new));
        let earlier = match goes_on.filter(|_| self.resumable) {
            Some(id) => Some(ResumedRun::find(id, &events, key)?),
            None => None,
        };
        if self.resumable {
            answered.check_branches()?;
        }
        let id = answered.run.as_ref().or(given).cloned();
        let message = earlier.as_ref().and_then(|earlier| earlier.message.clone()).or_else(|| message.cloned());
        let context = self.context(session, id, message, &request.config);
        if answered.is_settled {
            return Ok(Vec::new());
        }
        let ended = earlier.as_ref().is_some_and(|earlier| {
            let agent = self.tree.next_agent(&earlier.begin);
            earlier.past(&events, context.invocation_id()).has_ended(agent.name(), None)
        });
        self.append_message(&context, request, &answered, permit).await?;
        if let Some(overrides) = &self.overrides {
            let (overrides, session) = (Arc::clone(overrides), context.session());
            let decided = tokio::task::spawn_blocking(move || overrides.of_run(&session)).await;
            context.set_override(decided.map_err(|e| Error::internal("a replay panicked").with_source(e))??);
        }
        let events = live(context.session().events());
        Ok(match earlier {
            Some(_) if ended && answered.callers.is_empty() => Vec::new(),
            // The run has not ended, so it continues. After its end, the agent that made the call receives the answer.
            Some(earlier) if !ended => {
                let agent = Arc::clone(self.tree.next_agent(&earlier.begin));
                let past = earlier.past(&events, context.invocation_id());
                let context = context.for_first_agent(agent.name()).with_past(Some(past));
                vec![(agent, context)]
            }
            _ => self.agents_to_run(&context, &answered, &events),
        })
    }

    /// Appends the user's message, as one event for each branch that it answers. If there is neither a message nor a
    /// change, the run continues from the session as it is.
    async fn append_message(
        &self,
        context: &InvocationContext,
        request: &RunRequest,
        answered: &AnsweredCalls,
        permit: &Arc<RunPermit>,
    ) -> Result<()> {
        let mut delta = request.state_delta.clone();
        if request.message.is_none() && delta.is_empty() {
            return Ok(());
        }
        let mut by_branch = Vec::new();
        for CallingAgent { branch, parts, .. } in &answered.callers {
            match by_branch.iter_mut().find(|(of, _): &&mut (_, Vec<_>)| of == branch) {
                Some((_, of_branch)) => of_branch.extend(parts.iter().cloned()),
                None => by_branch.push((branch.clone(), parts.clone())),
            }
        }
        let mut contents: Vec<_> =
            by_branch.into_iter().map(|(branch, parts)| (branch, Some(Content::new("user", parts)))).collect();
        if contents.is_empty() {
            let message = request.message.clone();
            contents.push((None, message.map(|message| Content { role: Some("user".to_owned()), ..message })));
        }
        let events = contents.into_iter().map(|(branch, content)| {
            let mut event = context.event().with_state_delta(std::mem::take(&mut delta));
            event.content = content;
            event.branch = branch;
            event
        });
        if answered.confirms {
            // This path is rare. The box keeps its future from making the future of every run larger.
            return Box::pin(self.confirm(context, events.collect(), answered, permit)).await;
        }
        for event in events {
            self.commit(context, event, permit).await?;
        }
        Ok(())
    }

    /// Returns the agents whose calls are answered, each on the branch of its calls; if there are none, the agent that
    /// receives the next message.
    fn agents_to_run(
        &self,
        context: &InvocationContext,
        answered: &AnsweredCalls,
        events: &[Arc<Event>],
    ) -> StartedAgents {
        let of_last = AnsweredCalls::of_last(events);
        let callers = if answered.callers.is_empty() { &of_last } else { &answered.callers };
        let found =
            callers.iter().filter_map(|caller| Some((self.tree.find(&caller.agent)?, caller.branch.as_deref())));
        let mut found: Vec<_> = found.collect();
        if found.is_empty() {
            found.push((self.tree.next_agent(context.session().events()), None));
        }
        // The root agent is never on a branch.
        let is_root = |agent: &Arc<dyn Agent>| agent.name() == self.tree.root().name();
        let started = |(agent, branch): (&Arc<dyn Agent>, Option<_>)| {
            let context = context.for_first_agent(agent.name());
            (Arc::clone(agent), context.on_branch(branch.filter(|_| !is_root(agent))))
        };
        found.into_iter().map(started).collect()
    }

    /// Reads as much of the session as the run needs.
    async fn session(&self, key: &SessionKey, request: &RunRequest) -> Result<Session> {
        let config = &request.config.get_session_config;
        // An answer may refer to any earlier call, and a run without a message may have to finish any earlier work.
        // Both need all events.
        let is_said = request.message.as_ref().is_some_and(|message| message.function_responses().next().is_none());
        let overlap = self.compactor.as_ref().and_then(|compactor| compactor.overlap());
        let found = match overlap.filter(|_| is_said && is_unlimited(config)) {
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
            // Another process or another runner was faster to create the session.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.sessions.get_session(key, config).await?.ok_or_else(|| no_session(key))
            }
            created => created,
        }
    }
}

impl ResumedRun {
    /// Finds the message with which a run began, or the last such message if the run was started more than once.
    fn find(id: &str, events: &[Arc<Event>], key: &SessionKey) -> Result<Self> {
        let of_run = |event: &Arc<Event>| event.invocation_id == id;
        let first = events.iter().position(of_run);
        let first = first.ok_or_else(|| Error::not_found(format!("the session {key} has no run '{id}'")))?;
        let says = |event: &Arc<Event>| of_run(event) && is_said(event);
        let place = events.iter().rposition(says).unwrap_or(first);
        let begin = events[..=place].iter().cloned().collect();
        Ok(Self { begin, message: events[place].content.clone().filter(|_| is_said(&events[place])) })
    }

    /// Returns the run's events after the message with which it began.
    fn past(&self, events: &[Arc<Event>], id: &str) -> Arc<PastEvents> {
        let since = events.get(self.begin.len()..).unwrap_or_default();
        Arc::new(PastEvents::new(since.iter().filter(|event| event.invocation_id == id).cloned().collect()))
    }
}

/// Returns whether an event is a message of the user that answers no call.
fn is_said(event: &Event) -> bool {
    event.author == "user" && event.content.is_some() && event.function_responses().next().is_none()
}

/// Returns the events that are not rewound, oldest first.
fn live(events: &Events) -> Vec<Arc<Event>> {
    let mut events: Vec<_> = live_backward(events).cloned().collect();
    events.reverse();
    events
}
