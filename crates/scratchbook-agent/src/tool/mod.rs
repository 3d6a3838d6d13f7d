//! Tools that models may call.

mod agent_tool;
mod confirmation;
mod function_tool;
mod set_model_response;
mod transfer;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::agent::ToolContext;
use crate::model::FunctionDeclaration;
use scratchbook_core::error::Result;

pub use agent_tool::AgentTool;
pub use confirmation::ToolConfirmation;
pub use function_tool::FunctionTool;

pub(crate) use set_model_response::SetModelResponseTool;
pub(crate) use transfer::TransferTool;

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
}
