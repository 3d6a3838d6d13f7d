//! Tools: what a model may call.

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

pub use confirmation::ToolConfirmation;
pub use function_tool::FunctionTool;

pub(crate) use set_model_response::SetModelResponseTool;
pub(crate) use transfer::TransferTool;

/// Something a model can call by name, with arguments.
///
/// A tool that fails answers the model with its error, and what it wrote to the state vanishes; the run goes
/// on. Calls of one model turn run at the same time; each sees its own writes at once, the others' when they
/// have returned well.
#[async_trait]
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The tool as the model is told of it.
    fn declaration(&self) -> &FunctionDeclaration;

    /// Whether the answer comes later, by a function response in a message to come.
    fn is_long_running(&self) -> bool;

    /// Does it. An object is the answer as it is, any other value becomes `{"result": value}`; `null` from a
    /// long-running tool means that there is no answer yet.
    ///
    /// # Errors
    ///
    /// Any error; the model is told its message.
    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value>;

    /// Whether the user has to agree before it is run with these arguments; never by default. It is asked again when the
    /// user has answered.
    ///
    /// # Errors
    ///
    /// Any error; the model is told its message, and the tool is not run.
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
