//! An agent that asks a model, calls the tools it names, and asks again until it has an answer.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::callback::{AgentCallbacks, ModelCallbacks, ToolCall, agent_callback_methods};
use super::context::{InvocationContext, ReadonlyContext};
use super::drive::{Turn, drive};
use super::write_context::{CallbackContext, ToolContext};
use super::{Agent, EventStream, step};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::instruction::InstructionTemplate;
use crate::json;
use crate::model::{Llm, LlmRequest, LlmResponse};
use crate::state::{Scope, check_key};
use crate::tool::{Tool, TransferTool};

/// A function that writes an agent's instruction for each model call; its text is used as it is.
pub type InstructionProvider = Arc<dyn Fn(ReadonlyContext) -> BoxFuture<'static, Result<String>> + Send + Sync>;

/// What a model is told to be and do.
#[derive(Clone)]
#[non_exhaustive]
pub enum Instruction {
    /// A template, filled from the state.
    Template(InstructionTemplate),
    /// A function; nothing is filled in.
    Provider(InstructionProvider),
}

impl Instruction {
    /// An instruction from an async function; see [`inject_session_state`] for filling in values by hand.
    #[must_use]
    pub fn provider<F, Fut>(function: F) -> Self
    where
        F: Fn(ReadonlyContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        Self::Provider(Arc::new(move |context| Box::pin(function(context))))
    }

    /// The text as it was written, before values are filled in; a function has none.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        match self {
            Self::Template(template) => Some(template.source()),
            Self::Provider(_) => None,
        }
    }

    /// The text for a model call.
    pub(super) async fn render(&self, context: ReadonlyContext) -> Result<String> {
        match self {
            Self::Template(template) => render(template, &context).await,
            Self::Provider(function) => function(context).await,
        }
    }
}

impl From<&str> for Instruction {
    fn from(text: &str) -> Self {
        Self::Template(InstructionTemplate::parse(text))
    }
}

impl From<String> for Instruction {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<InstructionTemplate> for Instruction {
    fn from(template: InstructionTemplate) -> Self {
        Self::Template(template)
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(template) => f.debug_tuple("Template").field(template).finish(),
            Self::Provider(_) => f.write_str("Provider"),
        }
    }
}

/// Fills a template from the state, as an [`InstructionProvider`] may want to.
///
/// ```
/// use scratchbook::{Instruction, inject_session_state};
///
/// let instruction = Instruction::provider(|context| async move {
///     inject_session_state("This is a {adjective} instruction with {{literal_braces}}.", &context).await
/// });
/// ```
///
/// # Errors
///
/// `NotFound` names a key or artifact that is missing; `FailedPrecondition` where an artifact is asked for and
/// the runner has no artifact service; `PermissionDenied` names a key that is [marked as secret](crate::SecretKeys),
/// unless the run [allows it](crate::RunConfig::with_secrets_in_templates).
pub async fn inject_session_state(template: &str, context: &ReadonlyContext) -> Result<String> {
    render(&InstructionTemplate::parse(template), context).await
}

async fn render(template: &InstructionTemplate, context: &ReadonlyContext) -> Result<String> {
    let allowed = context.check_template(template);
    let artifacts = context.artifact_texts(template.artifact_names()).await?;
    let state = context.state();
    let text = allowed.and_then(|()| template.render_with(|key| state.get(key).cloned(), artifacts.as_ref()));
    text.map_err(|e| e.context(format!("the instruction of agent '{}'", context.agent_name())))
}

/// An agent that asks a model.
///
/// What it was built from can be read: its name, description and sub-agents as any [`Agent`]'s, and the rest here.
///
/// ```
/// use scratchbook::{InMemorySessionService, LlmAgent, Runner, ScriptedLlm};
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
    pub(super) inner: Arc<Inner>,
}

/// What an agent is made of; shared with its running turns.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) model: Arc<dyn Llm>,
    pub(super) instruction: Option<Instruction>,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) output_key: Option<String>,
    pub(super) output_schema: Option<OutputSchema>,
    pub(super) callbacks: ModelCallbacks,
    agent_callbacks: AgentCallbacks,
    sub_agents: Vec<Arc<dyn Agent>>,
}

/// The shape of an agent's answer: its JSON Schema, and the check that a type of the caller's makes.
#[derive(Clone)]
pub(super) struct OutputSchema {
    pub(super) schema: Value,
    pub(super) check: fn(&Value) -> Result<()>,
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.schema).finish()
    }
}

impl LlmAgent {
    /// Begins an agent of this name.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> LlmAgentBuilder {
        LlmAgentBuilder {
            name: name.into(),
            description: String::new(),
            model: None,
            instruction: None,
            tools: Vec::new(),
            output_key: None,
            output_schema: None,
            callbacks: ModelCallbacks::default(),
            agent_callbacks: AgentCallbacks::default(),
            sub_agents: Vec::new(),
        }
    }

    /// The model it asks.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn Llm> {
        &self.inner.model
    }

    /// What the model is told to be and do.
    #[must_use]
    pub fn instruction(&self) -> Option<&Instruction> {
        self.inner.instruction.as_ref()
    }

    /// Its tools, in the order they were added. The one that hands over to other agents is not among them.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.inner.tools
    }

    /// The state key that its final text goes to.
    #[must_use]
    pub fn output_key(&self) -> Option<&str> {
        self.inner.output_key.as_deref()
    }

    /// The agent's turn in a run.
    pub(super) fn turn(&self, context: &InvocationContext) -> Turn {
        let context = context.for_turn(&self.inner.name);
        let events = step::turn(Arc::clone(&self.inner), context.clone());
        Turn { callbacks: self.inner.agent_callbacks.clone(), context, events }
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

    fn run(&self, context: InvocationContext) -> EventStream {
        drive(self.turn(&context))
    }
}

impl fmt::Debug for LlmAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmAgent").field("inner", &self.inner).finish()
    }
}

/// Builds an [`LlmAgent`]; a model is required.
#[derive(Debug)]
pub struct LlmAgentBuilder {
    name: String,
    description: String,
    model: Option<Arc<dyn Llm>>,
    instruction: Option<Instruction>,
    tools: Vec<Arc<dyn Tool>>,
    output_key: Option<String>,
    output_schema: Option<OutputSchema>,
    callbacks: ModelCallbacks,
    agent_callbacks: AgentCallbacks,
    sub_agents: Vec<Arc<dyn Agent>>,
}

impl LlmAgentBuilder {
    /// The model to ask.
    #[must_use]
    pub fn model(mut self, model: impl Llm) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// What the agent is good at, for agents that may hand over to it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// What the model is told to be and do: a template, or an [`Instruction`].
    #[must_use]
    pub fn instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.instruction = Some(instruction.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds an agent below this one, which it may hand over to.
    #[must_use]
    pub fn sub_agent(mut self, agent: impl Agent) -> Self {
        self.sub_agents.push(Arc::new(agent));
        self
    }

    /// The state key, of any scope, that the agent's final text goes to.
    #[must_use]
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.output_key = Some(key.into());
        self
    }

    /// The type the agent's final answer must have; the model is shown its JSON Schema, and
    /// [`output_key`](Self::output_key) gets the parsed value.
    #[must_use]
    pub fn output_type<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        let check = |value: &Value| match T::deserialize(value) {
            Ok(_) => Ok(()),
            Err(e) => {
                let why = json::describe(&e);
                Err(Error::invalid(format!("the model's answer does not fit the output type: {why}")))
            }
        };
        self.output_schema = Some(OutputSchema { schema: schema_for!(T).to_value(), check });
        self
    }

    agent_callback_methods!(agent_callbacks);

    /// Adds a callback before each model call: it goes on with the request, changed or not
    /// (`ControlFlow::Continue`), or answers in the model's place (`ControlFlow::Break`).
    #[must_use]
    pub fn before_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<LlmResponse, LlmRequest>>> + Send + 'static,
    {
        let callback = move |context, request| -> BoxFuture<'static, _> { Box::pin(callback(context, request)) };
        self.callbacks.before_model.push(Arc::new(callback));
        self
    }

    /// Adds a callback after each model response, which it gives back, changed or not.
    #[must_use]
    pub fn after_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<LlmResponse>> + Send + 'static,
    {
        let callback = move |context, response| -> BoxFuture<'static, _> { Box::pin(callback(context, response)) };
        self.callbacks.after_model.push(Arc::new(callback));
        self
    }

    /// Adds a callback before each tool call: it goes on with the call, changed or not
    /// (`ControlFlow::Continue`), or answers in the tool's place (`ControlFlow::Break`).
    #[must_use]
    pub fn before_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<Value, ToolCall>>> + Send + 'static,
    {
        let callback = move |context, call| -> BoxFuture<'static, _> { Box::pin(callback(context, call)) };
        self.callbacks.before_tool.push(Arc::new(callback));
        self
    }

    /// Adds a callback after each tool call that went well; it gives back the answer, changed or not.
    #[must_use]
    pub fn after_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value>> + Send + 'static,
    {
        let callback =
            move |context, call, answer| -> BoxFuture<'static, _> { Box::pin(callback(context, call, answer)) };
        self.callbacks.after_tool.push(Arc::new(callback));
        self
    }

    /// The agent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where there is no model, where two tools have one name or one is called
    /// `transfer_to_agent`, or where the output key is
    /// none.
    pub fn build(self) -> Result<LlmAgent> {
        let name = self.name;
        let model =
            self.model.ok_or_else(|| Error::invalid(format!("the agent '{name}' has no model; give it one")))?;
        if let Some(key) = &self.output_key {
            check_key(key)?;
            if Scope::split(key).1.is_empty() {
                return Err(Error::invalid(format!("the output key '{key}' of agent '{name}' has no name")));
            }
        }
        let mut names: Vec<_> = self.tools.iter().map(|tool| tool.declaration().name.as_str()).collect();
        names.sort_unstable();
        if names.contains(&TransferTool::NAME) {
            let taken = TransferTool::NAME;
            return Err(Error::invalid(format!("a tool of agent '{name}' is called '{taken}'; that name is taken")));
        }
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("two tools of agent '{name}' are called '{}'", twice[0])));
        }
        let inner = Inner {
            name,
            description: self.description,
            model,
            instruction: self.instruction,
            tools: self.tools,
            output_key: self.output_key,
            output_schema: self.output_schema,
            callbacks: self.callbacks,
            agent_callbacks: self.agent_callbacks,
            sub_agents: self.sub_agents,
        };
        Ok(LlmAgent { inner: Arc::new(inner) })
    }
}
