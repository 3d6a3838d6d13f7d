//! Toolsets: tools that are listed when an agent's turn begins.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::Tool;
use crate::agent::ReadonlyContext;
use scratchbook_core::error::Result;

/// A source of tools, such as a server. An agent with this toolset lists the tools at the beginning of each turn, and
/// keeps them for the turn.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use scratchbook::agent::{FunctionTool, LlmAgent, ReadonlyContext, Tool, ToolContext, Toolset};
/// use serde_json::{Map, Value};
///
/// #[derive(Debug)]
/// struct ForMembers;
///
/// #[async_trait]
/// impl Toolset for ForMembers {
///     async fn get_tools(&self, context: &ReadonlyContext) -> scratchbook::Result<Vec<Arc<dyn Tool>>> {
///         if context.state().get("user:member").is_none() {
///             return Ok(Vec::new());
///         }
///         let discount = |_: Map<String, Value>, _: ToolContext| async move { Ok(10) };
///         Ok(vec![Arc::new(FunctionTool::new("discount", "Returns the member's discount.", discount))])
///     }
/// }
///
/// let agent = LlmAgent::builder("clerk").toolset(ForMembers).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[async_trait]
pub trait Toolset: fmt::Debug + Send + Sync + 'static {
    /// Returns the tools. They may depend on the state, such as the user's keys.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn get_tools(&self, context: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<T: Toolset + ?Sized> Toolset for Arc<T> {
    async fn get_tools(&self, context: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>> {
        (**self).get_tools(context).await
    }
}
