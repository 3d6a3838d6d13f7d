//! What callbacks and tools are given of the run they are in: state they can write, artifacts, actions.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::board::Seen;
use super::context::{InvocationContext, ReadonlyContext};
use super::draft::{EventDraft, Page, note_version};
use super::state::ContextState;
use crate::tool::ToolConfirmation;
use scratchbook_core::artifact::ArtifactVersion;
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;

/// A run as a callback sees it: what a [`ReadonlyContext`] shows, with state it can write.
///
/// The context is an owned handle: clone it, move it into async blocks. Writes and actions go into the event
/// this callback contributes to.
#[derive(Clone, Debug)]
pub struct CallbackContext {
    readonly: ReadonlyContext,
    page: Arc<Page>,
    state: ContextState,
}

impl CallbackContext {
    pub(crate) fn new(draft: &EventDraft, invocation: &InvocationContext) -> Self {
        Self::with_page(draft.page(Seen::ByAll), invocation)
    }

    pub(super) fn with_page(page: Arc<Page>, invocation: &InvocationContext) -> Self {
        let state = ContextState::new(Arc::clone(invocation.shared()), page.layer);
        Self { readonly: invocation.readonly(), page, state }
    }

    /// The state, to be read and written.
    #[must_use]
    pub fn state(&self) -> &ContextState {
        &self.state
    }

    /// Saves an artifact, notes its version in the event, and gives it. Of several saves of one artifact the event has the
    /// largest version.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the runner has no artifact service; and as
    /// [`save_artifact`](scratchbook_core::artifact::ArtifactService::save_artifact) of the service.
    pub async fn save_artifact(&self, filename: &str, artifact: Part) -> Result<u64> {
        let artifacts = self.readonly.invocation.artifacts()?;
        let version = artifacts.save_artifact(self.session_key(), filename, artifact, Map::new()).await?;
        note_version(&mut self.page.actions().artifact_delta, filename.to_owned(), version);
        Ok(version)
    }

    /// The newest version of an artifact, or `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn load_artifact(&self, filename: &str) -> Result<Option<Part>> {
        self.readonly.invocation.load_artifact(filename).await
    }

    /// The names of all artifacts the session sees.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn list_artifacts(&self) -> Result<Vec<String>> {
        self.readonly.invocation.artifacts()?.list_artifacts(self.session_key()).await
    }

    /// The versions of an artifact.
    ///
    /// # Errors
    ///
    /// As [`save_artifact`](Self::save_artifact).
    pub async fn list_artifact_versions(&self, filename: &str) -> Result<Vec<ArtifactVersion>> {
        self.readonly.invocation.artifacts()?.list_artifact_versions(self.session_key(), filename).await
    }

    /// Ends the loop around the agent after this round.
    pub fn escalate(&self) {
        self.page.actions().escalate = Some(true);
    }
}

impl Deref for CallbackContext {
    type Target = ReadonlyContext;

    fn deref(&self) -> &ReadonlyContext {
        &self.readonly
    }
}

/// A run as one tool call sees it: a callback's context, and the call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    context: CallbackContext,
    function_call_id: Arc<str>,
    confirmation: Option<ToolConfirmation>,
}

impl ToolContext {
    pub(crate) fn new(page: Arc<Page>, invocation: &InvocationContext, function_call_id: &str) -> Self {
        let context = CallbackContext::with_page(page, invocation);
        Self { context, function_call_id: function_call_id.into(), confirmation: None }
    }

    pub(super) fn with_confirmation(mut self, confirmation: Option<ToolConfirmation>) -> Self {
        self.confirmation = confirmation;
        self
    }

    /// The call that is answered.
    #[must_use]
    pub fn function_call_id(&self) -> &str {
        &self.function_call_id
    }

    /// What the user has said to this call; `None` while nothing was asked or answered.
    #[must_use]
    pub fn tool_confirmation(&self) -> Option<&ToolConfirmation> {
        self.confirmation.as_ref()
    }

    /// Asks the user about this call when the tool has returned: what it returns is told to the model meanwhile, and when the
    /// user has answered it is run again, with the answer in [`tool_confirmation`](Self::tool_confirmation). The payload is
    /// what else is to be known, for the user to fill in.
    ///
    /// ```
    /// use scratchbook::{FunctionTool, ToolContext};
    /// use serde_json::{Map, Value, json};
    ///
    /// let leave = FunctionTool::new("leave", "Asks for leave.", |args: Map<String, Value>, context: ToolContext| async move {
    ///     match context.tool_confirmation() {
    ///         None => {
    ///             context.request_confirmation("How many days may it be?", Some(json!({"days": args.get("days")})));
    ///             Ok(json!({"status": "the manager is asked"}))
    ///         }
    ///         Some(answer) if answer.confirmed => Ok(json!({"status": "granted", "with": answer.payload})),
    ///         Some(_) => Ok(json!({"status": "refused"})),
    ///     }
    /// });
    /// ```
    pub fn request_confirmation(&self, hint: impl Into<String>, payload: Option<Value>) {
        let request = ToolConfirmation { hint: hint.into(), confirmed: false, payload };
        let id = self.function_call_id.to_string();
        self.context.page.actions().requested_tool_confirmations.insert(id, json!(request));
    }

    /// Hands the conversation to another agent when the tool has returned.
    pub fn transfer_to_agent(&self, agent_name: impl Into<String>) {
        self.context.page.actions().transfer_to_agent = Some(agent_name.into());
    }

    /// Takes the agent's answer, which ends its turn when the tool has returned.
    pub(crate) fn set_model_response(&self, answer: Value) {
        self.context.page.actions().set_model_response = Some(answer.into());
    }

    /// Shows the tool's answer as it is: the model does not sum it up.
    pub fn skip_summarization(&self) {
        self.context.page.actions().skip_summarization = Some(true);
    }
}

impl Deref for ToolContext {
    type Target = CallbackContext;

    fn deref(&self) -> &CallbackContext {
        &self.context
    }
}
