//! The contexts of a run that callbacks and tools receive: writable state, artifacts and actions.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::context::{InvocationContext, ReadonlyContext};
use super::invocation_state::Visibility;
use super::pending_event::{EventLayer, PendingEvent, note_version};
use super::state::ContextState;
use crate::tool::ToolConfirmation;
use scratchbook_core::artifact::{ArtifactVersion, ListVersionsConfig, describe_version};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::event::EventActions;

/// A run, as a callback receives it: a [`ReadonlyContext`] with writable state.
///
/// The context is an owned handle that can be cloned and moved into async blocks. Changes and actions go into the event
/// to which this callback contributes.
#[derive(Clone, Debug)]
pub struct CallbackContext {
    readonly: ReadonlyContext,
    layer: Arc<EventLayer>,
    state: ContextState,
}

impl CallbackContext {
    pub(crate) fn new(pending: &PendingEvent, invocation: &InvocationContext) -> Self {
        Self::with_layer(pending.layer(Visibility::Everyone), invocation)
    }

    pub(super) fn with_layer(layer: Arc<EventLayer>, invocation: &InvocationContext) -> Self {
        let state = ContextState::new(Arc::clone(invocation.shared()), layer.id);
        Self { readonly: invocation.readonly(), layer, state }
    }

    /// Returns the state, for reading and writing.
    #[must_use]
    pub fn state(&self) -> &ContextState {
        &self.state
    }

    /// Saves an artifact, records its version in the event, and returns the version. If one artifact is saved several
    /// times, the event records the largest version.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the runner has no artifact service, or if the event of this context is done already. If
    /// the event ends while the artifact is saved, the artifact stays. Otherwise as for
    /// [`save_artifact`](scratchbook_core::artifact::ArtifactService::save_artifact) of the service.
    pub async fn save_artifact(&self, filename: &str, artifact: Part) -> Result<u64> {
        self.save_artifact_with_metadata(filename, artifact, Map::new()).await
    }

    /// Saves an artifact like [`save_artifact`](Self::save_artifact), with custom metadata, which
    /// [`get_artifact_version`](Self::get_artifact_version) returns.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    /// use serde_json::{Map, Value, json};
    ///
    /// # async fn example(context: ToolContext) -> Result<()> {
    /// let metadata: Map<String, Value> = [("source".to_owned(), json!("scan"))].into_iter().collect();
    /// let version = context.save_artifact_with_metadata("invoice.txt", Part::text("12.50"), metadata).await?;
    /// let saved = context.get_artifact_version("invoice.txt", Some(version)).await?;
    /// assert_eq!(saved.map(|saved| saved.custom_metadata["source"].clone()), Some(json!("scan")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn save_artifact_with_metadata(
        &self,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let invocation = self.invocation();
        invocation.invocation_state().check_open(self.layer.id)?;
        let version =
            invocation.artifacts()?.save_artifact(self.session_key(), filename, artifact, custom_metadata).await?;
        let noted = self.change(|actions| note_version(&mut actions.artifact_delta, filename.to_owned(), version));
        noted.map_err(|error| error.context(format!("version {version} of '{filename}' was saved")).not_retryable())?;
        Ok(version)
    }

    /// Returns the newest version of an artifact, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn load_artifact(&self, filename: &str) -> Result<Option<Part>> {
        self.invocation().load_artifact(filename, None).await
    }

    /// Returns one version of an artifact, counted from 0, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn load_artifact_version(&self, filename: &str, version: u64) -> Result<Option<Part>> {
        self.invocation().load_artifact(filename, Some(version)).await
    }

    /// Returns the metadata of one version of an artifact, by default of the newest; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn get_artifact_version(&self, filename: &str, version: Option<u64>) -> Result<Option<ArtifactVersion>> {
        describe_version(self.invocation().artifacts()?, self.session_key(), filename, version).await
    }

    /// Returns the names of all artifacts that the session can load.
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn list_artifacts(&self) -> Result<Vec<String>> {
        self.invocation().artifacts()?.list_artifacts(self.session_key()).await
    }

    /// Returns a page of the versions of an artifact.
    ///
    /// # Errors
    ///
    /// As for [`save_artifact`](Self::save_artifact).
    pub async fn list_artifact_versions(
        &self,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        self.invocation().artifacts()?.list_artifact_versions(self.session_key(), filename, config).await
    }

    /// Ends the loop that runs the agent, after this iteration.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the event of this context is done already.
    pub fn escalate(&self) -> Result<()> {
        self.change(|actions| actions.escalate = Some(true))
    }

    /// Hands the conversation to another agent. If a tool calls this, the other agent continues after the tool has
    /// returned. If a callback around a model call does, the other agent continues after this step. If a callback
    /// before an agent's turn does, the other agent's turn replaces that turn; after a callback at the end of a turn,
    /// it follows that turn.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the event of this context is done already.
    pub fn transfer_to_agent(&self, agent_name: impl Into<String>) -> Result<()> {
        self.change(|actions| actions.transfer_to_agent = Some(agent_name.into()))
    }

    /// Returns the changes and actions that this callback or tool call has added to its event so far.
    ///
    /// # Errors
    ///
    /// None in practice: the changes were checked when they were written.
    pub fn actions(&self) -> Result<EventActions> {
        let mut actions = self.layer.actions().clone();
        actions.state_delta = self.state.delta()?;
        Ok(actions)
    }

    /// Changes the actions that this callback or tool call adds to its event, including actions for which there is no
    /// other method. The function receives an empty state delta; what it adds is applied as by
    /// [`ContextState::update`].
    ///
    /// ```
    /// use scratchbook::prelude::*;
    ///
    /// # fn example(context: CallbackContext) -> Result<()> {
    /// context.update_actions(|actions| actions.transfer_reason = Some("billing".to_owned()))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`ContextState::update`], and `FailedPrecondition` if the event of this context is done already; the
    /// actions are then unchanged.
    pub fn update_actions(&self, change: impl FnOnce(&mut EventActions)) -> Result<()> {
        let mut actions = self.layer.actions().clone();
        change(&mut actions);
        let delta = std::mem::take(&mut actions.state_delta);
        if !delta.is_empty() {
            self.state.update(&delta)?;
        }
        self.change(|own| *own = actions)
    }

    fn change(&self, change: impl FnOnce(&mut EventActions)) -> Result<()> {
        self.layer.change(self.invocation().invocation_state(), change)
    }

    pub(crate) fn invocation(&self) -> &InvocationContext {
        &self.readonly.invocation
    }
}

impl Deref for CallbackContext {
    type Target = ReadonlyContext;

    fn deref(&self) -> &ReadonlyContext {
        &self.readonly
    }
}

/// A run, as one tool call receives it: a callback's context, and the call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    context: CallbackContext,
    function_call_id: Arc<str>,
    confirmation: Option<ToolConfirmation>,
}

impl ToolContext {
    pub(crate) fn new(layer: Arc<EventLayer>, invocation: &InvocationContext, function_call_id: &str) -> Self {
        let context = CallbackContext::with_layer(layer, invocation);
        Self { context, function_call_id: function_call_id.into(), confirmation: None }
    }

    pub(super) fn with_confirmation(mut self, confirmation: Option<ToolConfirmation>) -> Self {
        self.confirmation = confirmation;
        self
    }

    /// Returns the id of the tool call.
    #[must_use]
    pub fn function_call_id(&self) -> &str {
        &self.function_call_id
    }

    /// Returns the user's answer to this call; `None` if the user was not asked or has not answered.
    #[must_use]
    pub fn tool_confirmation(&self) -> Option<&ToolConfirmation> {
        self.confirmation.as_ref()
    }

    /// Asks the user, once the tool has returned, to confirm this call. Until the user answers, the model works with
    /// the returned value. Then the tool runs again, with the answer in [`tool_confirmation`](Self::tool_confirmation).
    /// The payload has further fields for the user to fill in.
    ///
    /// ```
    /// use scratchbook::agent::{FunctionTool, ToolContext};
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
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the event of this context is done already.
    pub fn request_confirmation(&self, hint: impl Into<String>, payload: Option<Value>) -> Result<()> {
        let request = json!(ToolConfirmation { hint: hint.into(), confirmed: false, payload });
        let id = self.function_call_id.to_string();
        self.context.change(|actions| drop(actions.requested_tool_confirmations.insert(id, request)))
    }

    /// Returns the names of all agents of the tree.
    pub(crate) fn agent_names(&self) -> Vec<String> {
        self.context.readonly.invocation.tree().names()
    }

    /// Sets the agent's answer, which ends the agent's turn after the tool has returned.
    pub(crate) fn set_model_response(&self, answer: Value) -> Result<()> {
        self.context.change(|actions| actions.set_model_response = Some(answer.into()))
    }

    /// Undoes [`skip_summarization`](Self::skip_summarization).
    pub(crate) fn summarize(&self) -> Result<()> {
        self.context.change(|actions| actions.skip_summarization = Some(false))
    }

    /// Leaves the tool's response as it is: the model is not called to summarize it.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the event of this context is done already.
    pub fn skip_summarization(&self) -> Result<()> {
        self.context.change(|actions| actions.skip_summarization = Some(true))
    }
}

impl Deref for ToolContext {
    type Target = CallbackContext;

    fn deref(&self) -> &CallbackContext {
        &self.context
    }
}
