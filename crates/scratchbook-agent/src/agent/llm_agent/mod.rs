//! An agent that calls a model, runs the tools that the model asks for, and repeats this until the model gives an
//! answer.

mod builder;
mod input_schema;
mod instruction;
mod output_schema;
mod static_instruction;
mod tools;

use std::fmt;
use std::sync::Arc;

use super::agent_turn::{AgentTurn, drive};
use super::callback::{AgentCallbacks, ModelCallbacks};
use super::context::InvocationContext;
use super::{Agent, EventStream, step};
use crate::model::{GenerateContentConfig, Llm};
use crate::tool::{Tool, Toolset};
use scratchbook_core::error::Result;
use serde_json::Value;

pub use builder::LlmAgentBuilder;
pub use instruction::{Instruction, InstructionProvider, inject_session_state};

pub(crate) use input_schema::InputSchema;

pub(super) use output_schema::OutputSchema;
pub(super) use static_instruction::StaticInstruction;

/// An agent that calls a model.
///
/// The name, the description and the sub-agents are read through [`Agent`], everything else through the methods here.
///
/// ```
/// use scratchbook::model::ScriptedLlm;
/// use scratchbook::{InMemorySessionService, LlmAgent, Runner};
/// use futures_util::TryStreamExt;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let greeter = LlmAgent::builder("Greeter")
///     .model(ScriptedLlm::new(["Hello there!"]))
///     .instruction("Generate a short, friendly greeting.")
///     .output_key("last_greeting")
///     .build()?;
/// let runner = Runner::builder("state_app", greeter, InMemorySessionService::new()).auto_create_session().build()?;
/// let events: Vec<_> = runner.run("user1", "session1", "Hello").try_collect().await?;
/// assert_eq!(events[0].content.as_ref().unwrap().text(), "Hello there!");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LlmAgent {
    pub(super) inner: Arc<LlmAgentDefinition>,
}

/// The parts of an agent, shared with its running turns.
#[derive(Debug, Default)]
pub(super) struct LlmAgentDefinition {
    pub(super) name: String,
    pub(super) description: String,
    /// The agent's model; `None` if it uses the model of the agent above.
    pub(super) model: Option<Arc<dyn Llm>>,
    pub(super) global_instruction: Option<Instruction>,
    pub(super) static_instruction: Option<StaticInstruction>,
    pub(super) instruction: Option<Instruction>,
    pub(super) generate_content_config: GenerateContentConfig,
    pub(super) include_contents: IncludeContents,
    pub(super) disallow_transfer_to_parent: bool,
    pub(super) disallow_transfer_to_peers: bool,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    toolsets: Vec<tools::PlacedToolset>,
    pub(super) output_key: Option<String>,
    pub(super) output_schema: Option<OutputSchema>,
    input_schema: Option<InputSchema>,
    pub(super) callbacks: ModelCallbacks,
    agent_callbacks: AgentCallbacks,
    sub_agents: Vec<Arc<dyn Agent>>,
}

/// How much of the conversation an agent's model sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncludeContents {
    /// All of the conversation that the agent's branch sees.
    #[default]
    Default,
    /// The current turn only: the last words of the user or of another agent, and the calls and responses since then.
    None,
}

impl LlmAgent {
    /// Creates a builder for an agent with this name.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> LlmAgentBuilder {
        LlmAgentBuilder::new(name.into())
    }

    /// Returns the agent's model; `None` if it uses the model of the agent above it.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<dyn Llm>> {
        self.inner.model.as_ref()
    }

    /// Returns the model's instruction.
    #[must_use]
    pub fn instruction(&self) -> Option<&Instruction> {
        self.inner.instruction.as_ref()
    }

    /// Returns the agent's tools in the order in which they were added, without the built-in ones and without those of
    /// its toolsets.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.inner.tools
    }

    /// Returns the agent's toolsets in the order in which they were added.
    pub fn toolsets(&self) -> impl Iterator<Item = &Arc<dyn Toolset>> {
        self.inner.toolsets.iter().map(|placed| &placed.toolset)
    }

    /// Returns the state key under which the agent's final text is stored.
    #[must_use]
    pub fn output_key(&self) -> Option<&str> {
        self.inner.output_key.as_deref()
    }

    /// Returns the schema of the agent's input when it is a tool.
    pub(crate) fn input_schema(&self) -> Option<&InputSchema> {
        self.inner.input_schema.as_ref()
    }

    /// Parses an answer of the agent by its output schema; without a schema, the answer is the text.
    pub(crate) fn parse_output(&self, text: String) -> Result<Value> {
        match &self.inner.output_schema {
            Some(output) => output.parse(&text),
            None => Ok(Value::String(text)),
        }
    }

    /// Returns whether the agent may hand the conversation to the agent above it.
    pub(super) fn hands_to_parent(&self) -> bool {
        !self.inner.disallow_transfer_to_parent
    }

    /// Returns whether the agent may hand the conversation to its siblings.
    pub(super) fn hands_to_peers(&self) -> bool {
        !self.inner.disallow_transfer_to_peers
    }

    /// Returns the agent's turn in a run.
    pub(super) fn turn(&self, context: &InvocationContext) -> AgentTurn {
        let context = context.for_turn(&self.inner.name);
        let events = step::turn(Arc::clone(&self.inner), context.clone());
        AgentTurn { callbacks: context.plugins().around(&self.inner.agent_callbacks), context, events, span: None }
    }
}

impl Agent for LlmAgent {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn description(&self) -> &str {
        &self.inner.description
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &self.inner.sub_agents
    }

    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        Some(self)
    }

    fn calls_plugins(&self) -> bool {
        true
    }

    fn run(&self, context: InvocationContext) -> EventStream {
        drive(self.turn(&context))
    }
}

impl fmt::Debug for LlmAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmAgent").field("inner", &self.inner).finish()
    }
}
