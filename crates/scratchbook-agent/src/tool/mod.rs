//! Tools that models may call.

mod agent_tool;
mod confirmation;
mod exit_loop;
mod function_tool;
mod google_search;
mod load_artifacts;
mod set_model_response;
mod toolset;
mod transfer;
mod user_choice;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::agent::{CallbackContext, ToolContext};
use crate::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::error::Result;

pub use agent_tool::AgentTool;
pub use confirmation::ToolConfirmation;
pub use exit_loop::exit_loop;
pub use function_tool::FunctionTool;
pub use google_search::GoogleSearchTool;
pub use load_artifacts::LoadArtifactsTool;
pub use toolset::Toolset;
pub use transfer::transfer_to_agent;
pub use user_choice::get_user_choice;

pub(crate) use set_model_response::SetModelResponseTool;
pub(crate) use transfer::{TransferTool, is_transfer_tool};

/// Added to the description of a long-running tool, in ADK's words.
const LONG_RUNNING: &str = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned \
    some intermediate or pending status.";

/// A tool that a model can call by name, with arguments.
///
/// If a tool fails, the model receives the error, the tool's changes to the state are dropped, and the run continues.
/// The calls of one model answer run concurrently. Each call sees its own changes at once, and another call's changes
/// once that call has succeeded.
#[async_trait]
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// Returns the tool's declaration for the model.
    fn declaration(&self) -> &FunctionDeclaration;

    /// Returns whether the answer comes later, as a function response in another message.
    fn is_long_running(&self) -> bool;

    /// Runs the tool. An object is returned to the model unchanged; any other value becomes `{"result": value}`. If a
    /// long-running tool returns `null`, there is no answer yet.
    ///
    /// # Errors
    ///
    /// Any error; the model receives its message.
    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value>;

    /// Returns whether a call with these arguments needs the user's consent; by default, no call does. This method is
    /// called again after the user has answered.
    ///
    /// # Errors
    ///
    /// Any error; the model receives its message, and the tool does not run.
    async fn requires_confirmation(&self, _args: &Map<String, Value>, _context: &ToolContext) -> Result<bool> {
        Ok(false)
    }

    /// Returns whether the tool runs an agent. A replay does not run it, and an answer that ends the turn is shown as
    /// text.
    #[doc(hidden)]
    fn runs_agent(&self) -> bool {
        false
    }

    /// Adds the tool to a request to the model; by default, this adds its declaration. A tool can add more, such as an
    /// instruction. Changes to the state through the context are committed with the model's answer.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn process_llm_request(&self, request: &mut LlmRequest, _context: &CallbackContext) -> Result<()> {
        let mut declaration = self.declaration().clone();
        if self.is_long_running() {
            let separator = if declaration.description.is_empty() { "" } else { "\n\n" };
            declaration.description.push_str(separator);
            declaration.description.push_str(LONG_RUNNING);
        }
        request.tools.push(declaration);
        Ok(())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn declaration(&self) -> &FunctionDeclaration {
        (**self).declaration()
    }

    fn is_long_running(&self) -> bool {
        (**self).is_long_running()
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        (**self).run(args, context).await
    }

    async fn requires_confirmation(&self, args: &Map<String, Value>, context: &ToolContext) -> Result<bool> {
        (**self).requires_confirmation(args, context).await
    }

    fn runs_agent(&self) -> bool {
        (**self).runs_agent()
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, context: &CallbackContext) -> Result<()> {
        (**self).process_llm_request(request, context).await
    }
}
