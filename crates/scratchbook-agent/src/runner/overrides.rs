//! Models and tools that take the place of an agent's own in a run, such as those of a replay.

use std::fmt;
use std::sync::Arc;

use crate::model::Llm;
use crate::tool::Tool;
use scratchbook_core::error::Result;
use scratchbook_core::session::Session;

/// The model and the tools of an agent's turn.
#[derive(Clone, Debug)]
pub struct TurnParts {
    /// The agent's model.
    pub model: Arc<dyn Llm>,
    /// All tools that the model may call.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// Replaces the models and tools of one run.
pub trait RunOverride: fmt::Debug + Send + Sync {
    /// Returns the model and the tools for an agent's turn in place of its own.
    fn turn(&self, agent_name: &str, parts: TurnParts) -> TurnParts;
}

/// Decides, when a run begins, whether its models and tools are replaced.
pub trait RunOverrides: fmt::Debug + Send + Sync {
    /// Looks at the session with the message that begins the run. May read files.
    ///
    /// # Errors
    ///
    /// Any error; the run then ends.
    fn of_run(&self, session: &Session) -> Result<Option<Arc<dyn RunOverride>>>;
}
