//! The contexts of a run that agents and instruction providers receive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::AgentTree;
use super::compaction::RunCompaction;
use super::invocation_state::InvocationState;
use super::layer_group::LayerGroup;
use super::node::{TurnCounts, TurnNode};
use super::pending_event::PendingEvent;
use super::resume::PastEvents;
use crate::instruction::InstructionTemplate;
use crate::plugin::Plugins;
use crate::runner::{RunConfig, RunOverride};
use crate::trace::{OpenSpan, RunTrace, SpanParent};
use scratchbook_core::artifact::ArtifactService;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::environment::Environment;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{Session, SessionKey};
use scratchbook_core::state::StateMap;

/// The data that all agents of one invocation share.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) id: String,
    pub(crate) key: SessionKey,
    pub(crate) state: InvocationState,
    pub(crate) tree: Arc<AgentTree>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactService>>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) user_content: Option<Content>,
    pub(crate) config: RunConfig,
    pub(crate) llm_calls: AtomicUsize,
    /// Present if events are summarized.
    pub(crate) compacting: Option<RunCompaction>,
    pub(crate) turn_counts: TurnCounts,
    /// Whether the run records checkpoints, from which it can be resumed.
    pub(crate) resumable: bool,
    /// What replaces the agents' models and tools, once the run has begun.
    pub(crate) run_override: OnceLock<Arc<dyn RunOverride>>,
    pub(crate) trace: Arc<RunTrace>,
    pub(crate) plugins: Arc<Plugins>,
}

/// A run, as one agent receives it. It is cheap to clone, and its data is shared with all other agents of the run.
#[derive(Clone, Debug)]
pub struct InvocationContext {
    invocation: Arc<Invocation>,
    agent_name: Arc<str>,
    branch: Option<Arc<str>>,
    /// This agent's turn, linked to the turn of the agent above it. `None` if the root agent is not an
    /// [`LlmAgent`](super::LlmAgent).
    node: Option<Arc<TurnNode>>,
    /// The group of an agent that runs in parallel with others. When the group ends, this agent's pending changes are
    /// discarded.
    layer_group: Option<Arc<LayerGroup>>,
    /// The events from which this agent continues in a resumed run.
    pub(super) past: Option<Arc<PastEvents>>,
    /// The span of the agent above, or this agent's own span once its turn has begun.
    span: Option<Arc<SpanParent>>,
}

impl InvocationContext {
    pub(crate) fn new(invocation: Arc<Invocation>, agent_name: &str) -> Self {
        Self {
            invocation,
            agent_name: agent_name.into(),
            branch: None,
            node: None,
            layer_group: None,
            past: None,
            span: None,
        }
    }

    /// Returns the same run for another agent.
    #[must_use]
    pub fn for_agent(&self, agent_name: &str) -> Self {
        Self { agent_name: agent_name.into(), ..self.clone() }
    }

    /// Returns the same run for another agent on its own branch, `[outer.]PARALLEL.CHILD`.
    #[must_use]
    pub fn for_branch(&self, agent_name: &str) -> Self {
        let outer = self.branch.as_ref().map(|outer| format!("{outer}.")).unwrap_or_default();
        let branch = format!("{outer}{}.{agent_name}", self.agent_name);
        Self { branch: Some(branch.into()), ..self.for_agent(agent_name) }
    }

    /// Returns the same run for an agent whose pending changes are discarded when a group ends.
    pub(super) fn with_layer_group(&self, group: &Arc<LayerGroup>) -> Self {
        Self { layer_group: Some(Arc::clone(group)), ..self.clone() }
    }

    pub(super) fn layer_group(&self) -> Option<&Arc<LayerGroup>> {
        self.layer_group.as_ref()
    }

    /// Returns the context for the agent with which the run begins.
    pub(crate) fn for_first_agent(&self, agent_name: &str) -> Self {
        let node = self.invocation.turn_counts.begin(self.tree(), agent_name);
        Self { node, ..self.for_agent(agent_name) }
    }

    /// Returns the context for an agent that receives the conversation. Within a workflow agent the node stays the
    /// same.
    pub(super) fn for_next_agent(&self, agent_name: &str) -> Self {
        let node = self.node.as_ref().map(|node| match node.name() == &*self.agent_name {
            true => self.invocation.turn_counts.next(self.tree(), node, agent_name),
            false => Arc::clone(node),
        });
        Self { node, past: None, ..self.for_agent(agent_name) }
    }

    /// Returns the same run on a branch.
    pub(crate) fn on_branch(&self, branch: Option<&str>) -> Self {
        Self { branch: branch.map(Into::into), ..self.clone() }
    }

    /// Returns the run's id, which all its agents and events share.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        &self.invocation.id
    }

    /// Returns the name of the agent that has this context.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        &self.agent_name
    }

    /// Returns the branch that the agent runs on within a [`ParallelAgent`](crate::agent::ParallelAgent).
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// Returns the full address of the session.
    #[must_use]
    pub fn session_key(&self) -> &SessionKey {
        &self.invocation.key
    }

    /// Returns the session as committed so far in this run.
    #[must_use]
    pub fn session(&self) -> Session {
        self.invocation.state.session()
    }

    /// Returns the state as every part of this run sees it now, including changes that are not committed yet.
    #[must_use]
    pub fn state(&self) -> StateMap {
        self.invocation.state.snapshot()
    }

    /// Returns the message that started the run.
    #[must_use]
    pub fn user_content(&self) -> Option<&Content> {
        self.invocation.user_content.as_ref()
    }

    /// Returns the service that stores the run's artifacts, if there is one.
    #[must_use]
    pub fn artifact_service(&self) -> Option<&Arc<dyn ArtifactService>> {
        self.invocation.artifacts.as_ref()
    }

    /// Returns the configuration of the run.
    #[must_use]
    pub fn run_config(&self) -> &RunConfig {
        &self.invocation.config
    }

    /// Creates a new event of this agent in this run. Fill it and yield it.
    #[must_use]
    pub fn event(&self) -> Event {
        let mut event = Event::default();
        self.set_origin(&mut event);
        event
    }

    /// Returns the read-only form of this context, for instruction providers.
    #[must_use]
    pub fn readonly(&self) -> ReadonlyContext {
        ReadonlyContext { invocation: self.clone() }
    }

    /// Returns the node path of the agent's turn.
    pub(super) fn node_path(&self) -> Option<&str> {
        self.node.as_ref().map(|node| node.path())
    }

    pub(super) fn shared(&self) -> &Arc<Invocation> {
        &self.invocation
    }

    pub(crate) fn invocation_state(&self) -> &InvocationState {
        &self.invocation.state
    }

    pub(crate) fn environment(&self) -> &dyn Environment {
        self.invocation.environment.as_ref()
    }

    pub(crate) fn shared_environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.invocation.environment)
    }

    pub(crate) fn set_override(&self, run_override: Option<Arc<dyn RunOverride>>) {
        if let Some(run_override) = run_override {
            self.invocation.run_override.get_or_init(|| run_override);
        }
    }

    pub(super) fn run_override(&self) -> Option<&Arc<dyn RunOverride>> {
        self.invocation.run_override.get()
    }

    pub(crate) fn trace(&self) -> &Arc<RunTrace> {
        &self.invocation.trace
    }

    pub(crate) fn plugins(&self) -> &Arc<Plugins> {
        &self.invocation.plugins
    }

    pub(crate) fn span_parent(&self) -> Option<&Arc<SpanParent>> {
        self.span.as_ref()
    }

    /// Returns the same run, with this span as the parent of all spans that begin from now on.
    pub(crate) fn within(&self, span: &OpenSpan) -> Self {
        self.within_parent(Some(Arc::new(span.as_parent())))
    }

    pub(crate) fn within_parent(&self, span: Option<Arc<SpanParent>>) -> Self {
        Self { span, ..self.clone() }
    }

    pub(crate) fn tree(&self) -> &AgentTree {
        &self.invocation.tree
    }

    pub(crate) fn compacting(&self) -> Option<&RunCompaction> {
        self.invocation.compacting.as_ref()
    }

    pub(crate) fn pending_event(&self) -> PendingEvent {
        PendingEvent::new(self)
    }

    /// Sets the event's author, run, branch, time and node path.
    pub(crate) fn set_origin(&self, event: &mut Event) {
        event.invocation_id.clone_from(&self.invocation.id);
        event.author = self.agent_name.to_string();
        event.branch = self.branch.as_ref().map(ToString::to_string);
        event.timestamp = Some(self.environment().now());
        event.node_info.path.clear();
        self.set_node_path(event);
    }

    /// Sets the event's node path, unless it has one.
    pub(super) fn set_node_path(&self, event: &mut Event) {
        if let Some(node) = self.node.as_ref().filter(|_| event.node_info.path.is_empty()) {
            node.path().clone_into(&mut event.node_info.path);
        }
    }

    /// Counts a model call.
    pub(crate) fn count_llm_call(&self) -> Result<()> {
        let limit = self.run_config().max_llm_calls;
        if self.invocation.llm_calls.fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(());
        }
        let message = format!("the run made {limit} model calls, RunConfig::max_llm_calls; raise it, or end the loop");
        Err(Error::new(ErrorKind::ResourceExhausted, message))
    }

    pub(super) async fn load_artifact(&self, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        self.artifacts()?.load_artifact(self.session_key(), filename, version).await
    }

    pub(crate) fn artifacts(&self) -> Result<&dyn ArtifactService> {
        self.invocation.artifacts.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::FailedPrecondition,
                "the runner has no artifact service; give it one when building it",
            )
        })
    }
}

/// The read-only form of a run that instruction providers receive.
#[derive(Clone, Debug)]
pub struct ReadonlyContext {
    pub(super) invocation: InvocationContext,
}

impl ReadonlyContext {
    /// Returns the run's id.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        self.invocation.invocation_id()
    }

    /// Returns the agent's name.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        self.invocation.agent_name()
    }

    /// Returns the full address of the session.
    #[must_use]
    pub fn session_key(&self) -> &SessionKey {
        self.invocation.session_key()
    }

    /// Returns the message that started the run.
    #[must_use]
    pub fn user_content(&self) -> Option<&Content> {
        self.invocation.user_content()
    }

    /// Returns the state as it is now.
    #[must_use]
    pub fn state(&self) -> StateMap {
        self.invocation.state()
    }

    /// Returns the session as committed so far in this run.
    #[must_use]
    pub fn session(&self) -> Session {
        self.invocation.session()
    }

    /// Refuses a template that would show a secret key.
    pub(super) fn check_template(&self, template: &InstructionTemplate) -> Result<()> {
        if self.invocation.run_config().secrets_in_templates {
            return Ok(());
        }
        let session = self.session();
        template.refuse_keys(|key| session.secret_keys().contains(key))
    }

    /// Returns the texts of artifacts, by name; `None` if there is no artifact service.
    pub(crate) async fn artifact_texts(
        &self,
        names: impl Iterator<Item = &str>,
    ) -> Result<Option<BTreeMap<String, String>>> {
        if self.invocation.invocation.artifacts.is_none() {
            return Ok(None);
        }
        let mut texts = BTreeMap::new();
        for name in names {
            if texts.contains_key(name) {
                continue;
            }
            if let Some(part) = self.invocation.load_artifact(name, None).await? {
                texts.insert(name.to_owned(), text_of(name, part)?);
            }
        }
        Ok(Some(texts))
    }
}

fn text_of(name: &str, part: Part) -> Result<String> {
    let bytes = part.inline_data.and_then(|blob| blob.data);
    match (part.text, bytes.map(String::from_utf8)) {
        (Some(text), _) | (None, Some(Ok(text))) => Ok(text),
        _ => Err(Error::invalid(format!("the artifact '{name}' is no text and cannot go into an instruction"))),
    }
}
