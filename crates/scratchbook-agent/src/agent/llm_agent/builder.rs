//! Builds an [`LlmAgent`].

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IncludeContents, Inner, Instruction, LlmAgent, OutputSchema, StaticInstruction};
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
    inner: Inner,
    /// Why there is no model, if one was asked for that there is not.
    model_error: Option<Error>,
}

impl LlmAgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self { inner: Inner { name, ..Inner::default() }, model_error: None }
    }

    /// The model to ask. Without one, the agent asks the model of the agent above it.
    #[must_use]
    pub fn model(self, model: impl Llm) -> Self {
        self.try_model(Ok(model))
    }

    /// The model to ask, or the reason why there is none, which [`build`](Self::build) then returns: for what makes models
    /// by their names, in a builder's chain.
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

    /// What the agent is good at, for agents that may hand over to it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.inner.description = description.into();
        self
    }

    /// What the model is told to be and do: a template, or an [`Instruction`].
    #[must_use]
    pub fn instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.inner.instruction = Some(instruction.into());
        self
    }

    /// What the models of all agents of the tree are told first. Only that of the root counts.
    #[must_use]
    pub fn global_instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.inner.global_instruction = Some(instruction.into());
        self
    }

    /// What the model is told in each request in the same words; nothing is filled in. The
    /// [`instruction`](Self::instruction) then comes with the conversation, so that what is sent first stays the same, which
    /// hosts of models keep and bill less for. Data in it is put before the conversation, and referred to.
    #[must_use]
    pub fn static_instruction(mut self, instruction: impl Into<Content>) -> Self {
        self.inner.static_instruction = StaticInstruction::of(instruction.into());
        self
    }

    /// How the model is to answer.
    #[must_use]
    pub fn generate_content_config(mut self, config: GenerateContentConfig) -> Self {
        self.inner.generate_content_config = config;
        self
    }

    /// How much of the conversation the model is shown.
    #[must_use]
    pub fn include_contents(mut self, include: IncludeContents) -> Self {
        self.inner.include_contents = include;
        self
    }

    /// Keeps the agent from handing the conversation to the agent above it. It does not keep the conversation then: the
    /// next message goes to an agent above.
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

    /// The state key, of any scope, that the agent's final text goes to.
    #[must_use]
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.inner.output_key = Some(key.into());
        self
    }

    /// The type the agent's final answer must have; the model is shown its JSON Schema, and
    /// [`output_key`](Self::output_key) gets the parsed value. An agent with tools whose model takes no schema beside tools
    /// is given one more, `set_model_response`, that takes the answer.
    #[must_use]
    pub fn output_type<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_type::<T>());
        self
    }

    /// As [`output_type`](Self::output_type), with a JSON Schema in place of a type. The model is to keep to it; what it
    /// answers is parsed and not checked against it.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_schema(schema));
        self
    }

    agent_callback_methods!(inner.agent_callbacks);

    /// Adds a callback before each model call: it goes on with the request, changed or not
    /// (`ControlFlow::Continue`), or answers in the model's place (`ControlFlow::Break`), which callbacks after the model do
    /// not see.
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

    /// Adds a callback after each model response, which it gives back, changed or not.
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

    /// Adds a callback before each tool call: it goes on with the call, changed or not
    /// (`ControlFlow::Continue`), or answers in the tool's place (`ControlFlow::Break`), which callbacks after the tool see.
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

    /// Adds a callback after each tool call that went well, or that a callback before it has answered; it gives back the
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

    /// The agent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is no identifier or is `user`, if two tools have one name or that of a tool that agents
    /// have by themselves (`transfer_to_agent`, with an output schema `set_model_response`), if the output key is invalid, and
    /// if a number of the config is not finite; the error given to [`try_model`](Self::try_model).
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

impl Inner {
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
