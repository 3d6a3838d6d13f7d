//! Builds an [`LlmAgent`].

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tools::PlacedToolset;
use super::{IncludeContents, InputSchema, Instruction, LlmAgent, LlmAgentDefinition, OutputSchema, StaticInstruction};
use crate::agent::Agent;
use crate::agent::callback::{ToolCall, agent_callback_methods};
use crate::agent::tree::check_agent_name;
use crate::agent::write_context::{CallbackContext, ToolContext};
use crate::model::{GenerateContentConfig, Llm, LlmRequest, LlmResponse};
use crate::tool::{SetModelResponseTool, Tool, Toolset, TransferTool, is_transfer_tool};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::state::{Scope, check_key};

/// Builds an [`LlmAgent`].
#[derive(Debug)]
pub struct LlmAgentBuilder {
    inner: LlmAgentDefinition,
    /// The error of the function that should have created the model.
    model_error: Option<Error>,
}

impl LlmAgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self { inner: LlmAgentDefinition { name, ..LlmAgentDefinition::default() }, model_error: None }
    }

    /// Sets the model. Without this, the agent uses the model of the agent above it.
    #[must_use]
    pub fn model(self, model: impl Llm) -> Self {
        self.try_model(Ok(model))
    }

    /// Sets the model from the result of a function that creates models. If the result is an error,
    /// [`build`](Self::build) returns the error.
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

    /// Sets an instruction for all agents of the tree, which comes before their own. It has an effect only on the root
    /// agent.
    #[must_use]
    pub fn global_instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.inner.global_instruction = Some(instruction.into());
        self
    }

    /// Sets an instruction that is the same in every request, without placeholders. If such an instruction is set, the
    /// [`instruction`](Self::instruction) is sent within the conversation. All requests therefore begin with the same
    /// text, and providers can cache this text and charge less for it. Files and other data in this instruction are
    /// sent at the beginning of the conversation, and the instruction's text refers to them.
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

    /// Keeps the agent from handing the conversation to the agent above it. After this agent's turn, the user's next
    /// message goes to an agent above this one, because this agent could not hand the conversation back.
    #[must_use]
    pub fn disallow_transfer_to_parent(mut self) -> Self {
        self.inner.disallow_transfer_to_parent = true;
        self
    }

    /// Keeps the agent from handing the conversation to its siblings, the other agents below the same parent.
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

    /// Adds a toolset. Its tools come after the tools that are added before it, and before the tools that are added
    /// after it.
    #[must_use]
    pub fn toolset(mut self, toolset: impl Toolset) -> Self {
        let place = self.inner.tools.len();
        self.inner.toolsets.push(PlacedToolset { place, toolset: Arc::new(toolset) });
        self
    }

    /// Adds an agent below this one. This agent may hand the conversation to the added agent.
    #[must_use]
    pub fn sub_agent(mut self, agent: impl Agent) -> Self {
        self.inner.sub_agents.push(Arc::new(agent));
        self
    }

    /// Sets the state key under which the agent's final text is stored. The key may have any scope.
    #[must_use]
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.inner.output_key = Some(key.into());
        self
    }

    /// Sets the type of the agent's final answer. The model receives the type's JSON Schema, and the parsed value is
    /// stored under [`output_key`](Self::output_key). If the agent has tools and the model does not support a schema
    /// together with tools, the agent gets another tool, `set_model_response`, which takes the answer.
    #[must_use]
    pub fn output_type<T: JsonSchema + DeserializeOwned>(mut self) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_type::<T>());
        self
    }

    /// Sets the schema of the agent's final answer, like [`output_type`](Self::output_type), but as a JSON Schema. The
    /// answer is parsed, but not checked against the schema.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.inner.output_schema = Some(OutputSchema::of_schema(schema));
        self
    }

    /// Sets the type of the agent's input if it runs as a tool of another agent, through
    /// [`AgentTool`](crate::tool::AgentTool). The calling model receives the type's JSON Schema, and sends arguments
    /// that follow it. The agent gets these arguments as its message, in JSON and without those that are null.
    #[must_use]
    pub fn input_type<T: JsonSchema + DeserializeOwned + Serialize>(mut self) -> Self {
        self.inner.input_schema = Some(InputSchema::of_type::<T>());
        self
    }

    /// Sets the schema of the agent's input, like [`input_type`](Self::input_type), but as a JSON Schema. The arguments
    /// are not checked against the schema.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.inner.input_schema = Some(InputSchema::of_schema(schema));
        self
    }

    agent_callback_methods!(inner.agent_callbacks);

    /// Adds a callback before each model call. It returns either the request for the model, changed or not
    /// (`ControlFlow::Continue`), or an answer in place of the model's (`ControlFlow::Break`). Callbacks after the
    /// model are not called for such an answer.
    #[must_use]
    pub fn before_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<LlmResponse, LlmRequest>>> + Send + 'static,
    {
        self.inner
            .callbacks
            .before_model
            .push(Arc::new(move |(context, request)| Box::pin(callback(context, request))));
        self
    }

    /// Adds a callback after each model response. It returns the response, changed or not.
    #[must_use]
    pub fn after_model<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<LlmResponse>> + Send + 'static,
    {
        let callback = move |(context, response)| -> BoxFuture<'static, _> {
            let running = callback(context, response);
            Box::pin(async move { running.await.map(ControlFlow::Continue) })
        };
        self.inner.callbacks.after_model.push(Arc::new(callback));
        self
    }

    /// Adds a callback for each failed model call. It receives the request and the error, and may return a response in
    /// place of the model's; callbacks after the model are called for this response. If no such callback returns a
    /// response, the run ends with the error. What the callback writes is committed in both cases.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    ///
    /// # fn example(model: impl Llm) -> Result<LlmAgent> {
    /// LlmAgent::builder("assistant")
    ///     .model(model)
    ///     .on_model_error(|context, _request, error| async move {
    ///         context.state().increment("app:failures", 1)?;
    ///         Ok(error.is_retryable().then(|| LlmResponse::text("Please try again in a minute.")))
    ///     })
    ///     .build()
    /// # }
    /// ```
    #[must_use]
    pub fn on_model_error<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest, Arc<Error>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<LlmResponse>>> + Send + 'static,
    {
        let callback =
            move |(context, request, error)| -> BoxFuture<'static, _> { Box::pin(callback(context, request, error)) };
        self.inner.callbacks.on_model_error.push(Arc::new(callback));
        self
    }

    /// Adds a callback before each tool call. It returns either the call for the tool, changed or not
    /// (`ControlFlow::Continue`), or an answer in place of the tool's (`ControlFlow::Break`). Callbacks after the tool
    /// are called for such an answer.
    #[must_use]
    pub fn before_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ControlFlow<Value, ToolCall>>> + Send + 'static,
    {
        self.inner.callbacks.before_tool.push(Arc::new(move |(context, call)| Box::pin(callback(context, call))));
        self
    }

    /// Adds a callback after each tool call that has succeeded or that a callback has answered. It returns the answer,
    /// changed or not.
    #[must_use]
    pub fn after_tool<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value>> + Send + 'static,
    {
        let callback = move |(context, call, answer)| -> BoxFuture<'static, _> {
            let running = callback(context, call, answer);
            Box::pin(async move { running.await.map(ControlFlow::Continue) })
        };
        self.inner.callbacks.after_tool.push(Arc::new(callback));
        self
    }

    /// Adds a callback for each failed tool call, also for a call of a tool that does not exist. It may return an
    /// answer in place of the tool's. If no such callback returns an answer, the model receives the error. The writes
    /// of the failed tool are dropped; what the callback writes is committed in both cases.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    /// use serde_json::json;
    ///
    /// # fn example(model: impl Llm) -> Result<LlmAgent> {
    /// LlmAgent::builder("assistant")
    ///     .model(model)
    ///     .on_tool_error(|context, call, error| async move {
    ///         context.state().append("failed_tools", &call.name)?;
    ///         let is_missing = error.kind() == ErrorKind::NotFound;
    ///         Ok(is_missing.then(|| json!({"status": "there is nothing under this number"})))
    ///     })
    ///     .build()
    /// # }
    /// ```
    #[must_use]
    pub fn on_tool_error<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Arc<Error>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Value>>> + Send + 'static,
    {
        let callback =
            move |(context, call, error)| -> BoxFuture<'static, _> { Box::pin(callback(context, call, error)) };
        self.inner.callbacks.on_tool_error.push(Arc::new(callback));
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is not an identifier or is `user`, if two tools have the same name, if a tool has
    /// the name of a built-in tool (`transfer_to_agent`, and `set_model_response` with an output schema), if the output
    /// key is invalid, or if a number of the config is not finite. The error given to [`try_model`](Self::try_model) is
    /// returned with the agent's name.
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
        // The model may be shown `transfer_to_agent` by the agent itself.
        let others = self.tools.iter().filter(|tool| !is_transfer_tool(tool.as_ref()));
        let mut names: Vec<_> = others.map(|tool| tool.declaration().name.as_str()).collect();
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
