//! Builds an [`LlmAgent`].

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IncludeContents, Instruction, LlmAgent, LlmAgentDefinition, OutputSchema, StaticInstruction};
use crate::agent::Agent;
use crate::agent::callback::{ToolCall, agent_callback_methods};
use crate::agent::tree::check_agent_name;
use crate::agent::write_context::{CallbackContext, ToolContext};
use crate::model::{GenerateContentConfig, Llm, LlmRequest, LlmResponse};
use crate::tool::{SetModelResponseTool, Tool, TransferTool};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::state::{Scope, check_key};

/// Builds an [`LlmAgent`].
#[derive(Debug)]
pub struct LlmAgentBuilder {
    inner: LlmAgentDefinition,
    /// Why the requested model is missing.
    model_error: Option<Error>,
}

impl LlmAgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self { inner: LlmAgentDefinition { name, ..LlmAgentDefinition::default() }, model_error: None }
    }

    /// Sets the model. An agent without one uses the model of the agent above it.
    #[must_use]
    pub fn model(self, model: impl Llm) -> Self {
        self.try_model(Ok(model))
    }

    /// Sets the model, or the error that [`build`](Self::build) returns: for functions that create models by name,
    /// inside a builder's chain.
    #[must_use]
    pub fn try_model(mut self, model: Result<impl Llm>) -> Self {
        match model {
            Ok(model) => {
                self.inner.model = Some(Arc::new(model));
                self.model_error = None;
            }
            Err(error) => self.model_error = Some(error),
        }
        self
    }

    /// Describes what the agent is good at, for agents that may hand over to it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.inner.description = description.into();
        self
    }

    /// Sets the model's instruction: a template, or an [`Instruction`].
    #[must_use]
    pub fn instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.inner.instruction = Some(instruction.into());
        self
    }

    /// Sets an instruction that comes first for the models of all agents of the tree. Only the root's is used.
    #[must_use]
    pub fn global_instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.inner.global_instruction = Some(instruction.into());
        self
    }

    /// Sets an instruction that is the same in every request, without placeholders. The
    /// [`instruction`](Self::instruction) is then sent with the conversation, so that requests begin with the same
    /// text, which providers can cache and bill less for. Data in it is sent at the beginning of the
    /// conversation, and the instruction refers to it.
    #[must_use]
    pub fn static_instruction(mut self, instruction: impl Into<Content>) -> Self {
        self.inner.static_instruction = StaticInstruction::of(instruction.into());
        self
    }

    /// Sets how the model generates its answers.
    #[must_use]
    pub fn generate_content_config(mut self, config: GenerateContentConfig) -> Self {
        self.inner.generate_content_config = config;
        self
    }

    /// Sets how much of the conversation the model sees.
    #[must_use]
    pub fn include_contents(mut self, include: IncludeContents) -> Self {
        self.inner.include_contents = include;
        self
    }

    /// Keeps the agent from handing the conversation to the agent above it. Such an agent does not keep the
    /// conversation: the next message goes to an agent above it.
    #[must_use]
    pub fn disallow_transfer_to_parent(mut self) -> Self {
        self.inner.disallow_transfer_to_parent = true;
        self
    }

    /// Keeps the agent from handing the conversation to agents beside it.
    #[must_use]
    pub fn disallow_transfer_to_peers(mut self) -> Self {
        self.inner.disallow_transfer_to_peers = true;
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.inner.tools.push(Arc::new(tool));
        self
    }

    /// Adds an agent below this one, which it may hand over to.
    #[must_use]
    pub fn sub_agent(mut self, agent: impl Agent) -> Self {
        self.inner.sub_agents.push(Arc::new(agent));
        self
    }

    /// Sets the state key, of any scope, that receives the agent's final text.
    #[must_use]
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.inner.output_key = Some(key.into());
        self
    }

    /// Sets the type of the agent's final answer. The model is shown its JSON Schema, and
    /// [`output_key`](Self::output_key) receives the parsed value. If the model does not support a schema together with
    /// tools, an agent with tools gets one more tool, `set_model_response`, which takes the answer.
    #[must_use]
    pub fn output_type<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_type::<T>());
        self
    }

    /// Like [`output_type`](Self::output_type), with a JSON Schema in place of a type. The answer is parsed, but not
    /// validated against the schema.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_schema(schema));
        self
    }

    agent_callback_methods!(inner.agent_callbacks);

    /// Adds a callback before each model call. It continues with the request, changed or not (`ControlFlow::Continue`),
    /// or answers in place of the model (`ControlFlow::Break`); callbacks after the model do not see that answer.
    #[must_use]
    pub fn before_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<LlmResponse, LlmRequest>>> + Send + 'static,
    {
        let callback = move |context, request| -> BoxFuture<'static, _> { Box::pin(callback(context, request)) };
        self.inner.callbacks.before_model.push(Arc::new(callback));
        self
    }

    /// Adds a callback after each model response. It returns the response, changed or not.
    #[must_use]
    pub fn after_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<LlmResponse>> + Send + 'static,
    {
        let callback = move |context, response| -> BoxFuture<'static, _> { Box::pin(callback(context, response)) };
        self.inner.callbacks.after_model.push(Arc::new(callback));
        self
    }

    /// Adds a callback before each tool call. It continues with the call, changed or not (`ControlFlow::Continue`), or
    /// answers in place of the tool (`ControlFlow::Break`); callbacks after the tool see that answer.
    #[must_use]
    pub fn before_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<Value, ToolCall>>> + Send + 'static,
    {
        let callback = move |context, call| -> BoxFuture<'static, _> { Box::pin(callback(context, call)) };
        self.inner.callbacks.before_tool.push(Arc::new(callback));
        self
    }

    /// Adds a callback after each tool call that succeeded or that a callback before it answered. It returns the
    /// answer, changed or not.
    #[must_use]
    pub fn after_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value>> + Send + 'static,
    {
        let callback =
            move |context, call, answer| -> BoxFuture<'static, _> { Box::pin(callback(context, call, answer)) };
        self.inner.callbacks.after_tool.push(Arc::new(callback));
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is not an identifier or is `user`, if two tools have the same name or one has the
    /// name of a built-in tool (`transfer_to_agent`, and `set_model_response` with an output schema), if the output key
    /// is invalid, or if a number of the config is not finite. The error given to [`try_model`](Self::try_model) is
    /// returned as it is.
    pub fn build(self) -> Result<LlmAgent> {
        let inner = self.inner;
        if let Some(error) = self.model_error {
            return Err(error.context(format!("the agent '{}'", inner.name)));
        }
        check_agent_name(&inner.name)?;
        inner.check_output_key()?;
        inner.check_tools()?;
        inner.generate_content_config.check().map_err(|e| e.context(format!("the agent '{}'", inner.name)))?;
        Ok(LlmAgent { inner: Arc::new(inner) })
    }
}

impl LlmAgentDefinition {
    fn check_output_key(&self) -> Result<()> {
        let Some(key) = &self.output_key else {
            return Ok(());
        };
        check_key(key)?;
        if Scope::split(key).1.is_empty() {
            return Err(Error::invalid(format!("the output key '{key}' of agent '{}' has no name", self.name)));
        }
        Ok(())
    }

    fn check_tools(&self) -> Result<()> {
        let name = &self.name;
        let mut names: Vec<_> = self.tools.iter().map(|tool| tool.declaration().name.as_str()).collect();
        names.sort_unstable();
        let answers = self.output_schema.as_ref().map(|_| SetModelResponseTool::NAME);
        if let Some(taken) = [TransferTool::NAME].into_iter().chain(answers).find(|taken| names.contains(taken)) {
            return Err(Error::invalid(format!("a tool of agent '{name}' is called '{taken}'; that name is taken")));
        }
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(Error::invalid(format!("two tools of agent '{name}' are called '{}'", twice[0]))),
            None => Ok(()),
        }
    }
}
