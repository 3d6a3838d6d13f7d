//! Contexts: what agents, callbacks, tools and instruction providers are given of the run they are in.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Map, Value};

use super::AgentTree;
use super::board::{Board, Seen};
use super::draft::{EventDraft, Page};
use super::state::ContextState;
use crate::artifact::{ArtifactService, ArtifactVersion};
use crate::content::{Content, Part};
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::runner::RunConfig;
use crate::session::{Session, SessionKey};
use crate::state::StateMap;

/// What all agents of one invocation share.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) id: String,
    pub(crate) key: SessionKey,
    pub(crate) board: Board,
    pub(crate) tree: Arc<AgentTree>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactService>>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) user_content: Option<Content>,
    pub(crate) config: RunConfig,
    pub(crate) llm_calls: AtomicUsize,
    /// Whether an event already tells of the failure that ends the run.
    pub(crate) failure_told: AtomicBool,
}

/// A run as one agent is given it: cheap to clone, shared with every other agent of the run.
#[derive(Clone, Debug)]
pub struct InvocationContext {
    invocation: Arc<Invocation>,
    agent_name: Arc<str>,
    branch: Option<Arc<str>>,
}

impl InvocationContext {
    pub(crate) fn new(invocation: Arc<Invocation>, agent_name: &str) -> Self {
        Self { invocation, agent_name: agent_name.into(), branch: None }
    }

    /// The same run for another agent.
    #[must_use]
    pub fn for_agent(&self, agent_name: &str) -> Self {
        Self { agent_name: agent_name.into(), ..self.clone() }
    }

    /// The same run for another agent on a branch of its own, `[outer.]PARALLEL.CHILD`.
    #[must_use]
    pub fn for_branch(&self, agent_name: &str) -> Self {
        let outer = self.branch.as_ref().map(|outer| format!("{outer}.")).unwrap_or_default();
        let branch = format!("{outer}{}.{agent_name}", self.agent_name);
        Self { branch: Some(branch.into()), ..self.for_agent(agent_name) }
    }

    /// The run's id, shared by all its agents and on all its events.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        &self.invocation.id
    }

    /// The agent this context was made for.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        &self.agent_name
    }

    /// The branch, within a [`ParallelAgent`](crate::ParallelAgent).
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The full address of the session.
    #[must_use]
    pub fn session_key(&self) -> &SessionKey {
        &self.invocation.key
    }

    /// The session as it is committed so far in this run.
    #[must_use]
    pub fn session(&self) -> Session {
        self.invocation.board.session()
    }

    /// The state as it is seen now by everybody in this run, with writes that are not committed yet.
    #[must_use]
    pub fn state(&self) -> StateMap {
        self.invocation.board.snapshot()
    }

    /// The message that started the run.
    #[must_use]
    pub fn user_content(&self) -> Option<&Content> {
        self.invocation.user_content.as_ref()
    }

    /// How the run was asked to be done.
    #[must_use]
    pub fn run_config(&self) -> &RunConfig {
        &self.invocation.config
    }

    /// An event of this agent in this run, to be filled and yielded.
    #[must_use]
    pub fn event(&self) -> Event {
        let mut event = Event::default();
        self.address(&mut event);
        event
    }

    /// A context that only reads, as instruction providers get it.
    #[must_use]
    pub fn readonly(&self) -> ReadonlyContext {
        ReadonlyContext { invocation: self.clone() }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.invocation.board
    }

    pub(crate) fn environment(&self) -> &dyn Environment {
        self.invocation.environment.as_ref()
    }

    pub(crate) fn tree(&self) -> &AgentTree {
        &self.invocation.tree
    }

    pub(crate) fn draft(&self) -> EventDraft {
        EventDraft::new(self)
    }

    /// Says whose event it is, of which run and branch, and when.
    pub(crate) fn address(&self, event: &mut Event) {
        event.invocation_id.clone_from(&self.invocation.id);
        event.author = self.agent_name.to_string();
        event.branch = self.branch.as_ref().map(ToString::to_string);
        event.timestamp = Some(self.environment().now());
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

    /// Whether the failure that ends the run still has to be told by an event; true once.
    pub(crate) fn tell_failure(&self) -> bool {
        !self.invocation.failure_told.swap(true, Ordering::Relaxed)
    }

    async fn load_artifact(&self, filename: &str) -> Result<Option<Part>> {
        self.artifacts()?.load_artifact(self.session_key(), filename, None).await
    }

    fn artifacts(&self) -> Result<&dyn ArtifactService> {
        self.invocation.artifacts.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::FailedPrecondition,
                "the runner has no artifact service; give it one when building it",
            )
        })
    }
}

/// A run as instruction providers see it: to be read, never written, nested values included.
#[derive(Clone, Debug)]
pub struct ReadonlyContext {
    invocation: InvocationContext,
}

impl ReadonlyContext {
    /// The run's id.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        self.invocation.invocation_id()
    }

    /// The agent.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        self.invocation.agent_name()
    }

    /// The full address of the session.
    #[must_use]
    pub fn session_key(&self) -> &SessionKey {
        self.invocation.session_key()
    }

    /// The message that started the run.
    #[must_use]
    pub fn user_content(&self) -> Option<&Content> {
        self.invocation.user_content()
    }

    /// The state as it is seen now.
    #[must_use]
    pub fn state(&self) -> StateMap {
        self.invocation.state()
    }

    /// Texts of artifacts by name; `None` where there is no artifact service.
    pub(crate) async fn artifact_texts(
        &self,
        names: impl Iterator<Item = &str>,
    ) -> Result<Option<BTreeMap<String, String>>> {
        if self.invocation.invocation.artifacts.is_none() {
            return Ok(None);
        }
        let mut texts = BTreeMap::new();
        for name in names {
            if let Some(part) = self.invocation.load_artifact(name).await? {
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

/// A run as a callback sees it, with state it can write.
///
/// The context is an owned handle: clone it, move it into async blocks. Writes and actions go into the event
/// this callback contributes to.
#[derive(Clone, Debug)]
pub struct CallbackContext {
    invocation: InvocationContext,
    page: Arc<Page>,
    state: ContextState,
}

impl CallbackContext {
    pub(crate) fn new(draft: &EventDraft, invocation: &InvocationContext) -> Self {
        Self::with_page(draft.page(Seen::ByAll), invocation)
    }

    fn with_page(page: Arc<Page>, invocation: &InvocationContext) -> Self {
        let state = ContextState::new(Arc::clone(&invocation.invocation), page.layer);
        Self { invocation: invocation.clone(), page, state }
    }

    /// The state, to be read and written.
    #[must_use]
    pub fn state(&self) -> &ContextState {
        &self.state
    }

    /// The run's id.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        self.invocation.invocation_id()
    }

    /// The agent.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        self.invocation.agent_name()
    }

    /// The full address of the session.
    #[must_use]
    pub fn session_key(&self) -> &SessionKey {
        self.invocation.session_key()
    }

    /// The session as it is committed so far in this run.
    #[must_use]
    pub fn session(&self) -> Session {
        self.invocation.session()
    }

    /// The message that started the run.
    #[must_use]
    pub fn user_content(&self) -> Option<&Content> {
        self.invocation.user_content()
    }

    /// Saves an artifact, notes its version in the event, and gives it.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the runner has no artifact service; and as
    /// [`ArtifactService::save_artifact`].
    pub async fn save_artifact(&self, filename: &str, artifact: Part) -> Result<u64> {
        let artifacts = self.invocation.artifacts()?;
        let version = artifacts.save_artifact(self.session_key(), filename, artifact, Map::new()).await?;
        self.page.actions().artifact_delta.insert(filename.to_owned(), version);
        Ok(version)
    }

    /// The newest version of an artifact, or `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn load_artifact(&self, filename: &str) -> Result<Option<Part>> {
        self.invocation.load_artifact(filename).await
    }

    /// The names of all artifacts the session sees.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn list_artifacts(&self) -> Result<Vec<String>> {
        self.invocation.artifacts()?.list_artifacts(self.session_key()).await
    }

    /// The versions of an artifact.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn list_artifact_versions(&self, filename: &str) -> Result<Vec<ArtifactVersion>> {
        self.invocation.artifacts()?.list_artifact_versions(self.session_key(), filename).await
    }

    /// Ends the loop around the agent after this round.
    pub fn escalate(&self) {
        self.page.actions().escalate = Some(true);
    }
}

/// A run as one tool call sees it: a callback's context, and the call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    context: CallbackContext,
    function_call_id: Arc<str>,
}

impl ToolContext {
    pub(crate) fn new(page: Arc<Page>, invocation: &InvocationContext, function_call_id: &str) -> Self {
        Self { context: CallbackContext::with_page(page, invocation), function_call_id: function_call_id.into() }
    }

    /// The call that is answered.
    #[must_use]
    pub fn function_call_id(&self) -> &str {
        &self.function_call_id
    }

    /// Hands the conversation to another agent when the tool has returned.
    pub fn transfer_to_agent(&self, agent_name: impl Into<String>) {
        self.context.page.actions().transfer_to_agent = Some(agent_name.into());
    }

    /// Shows the tool's answer as it is: the model does not sum it up.
    pub fn skip_summarization(&self) {
        self.context.page.actions().skip_summarization = Some(true);
    }

    /// Asks the user to confirm the call; the request travels in the event.
    pub fn request_confirmation(&self, confirmation: Value) {
        let id = self.function_call_id.to_string();
        self.context.page.actions().requested_tool_confirmations.insert(id, confirmation);
    }
}

impl Deref for ToolContext {
    type Target = CallbackContext;

    fn deref(&self) -> &CallbackContext {
        &self.context
    }
}
