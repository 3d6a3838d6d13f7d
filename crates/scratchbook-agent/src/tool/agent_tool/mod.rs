//! An agent as a tool of another agent.

mod artifacts;
mod output;
mod sessions;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::Tool;
use crate::agent::{Agent, AgentTree, EventStream, InvocationContext, ToolContext};
use crate::model::FunctionDeclaration;
use crate::plugin::Plugins;
use crate::runner::{NestedRun, RunConfig, RunRequest, Runner, inherit_run};
use scratchbook_core::artifact::ArtifactService;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::layer::WithSecretKeys;
use scratchbook_core::session::{CreateSessionConfig, GetSessionConfig, SessionService};

use artifacts::ForwardedArtifacts;
use output::{AgentOutput, input_agent, output_agent};
use sessions::ForwardedSessions;

/// An agent as a tool: it runs for each call, in a session of its own that lives in memory for this call only.
///
/// The agent's session begins with the state that the calling tool sees, without keys that begin with `_adk` and
/// without `temp:` keys. Each change that the agent commits is also made in the calling tool's context, and operations
/// stay operations. The change becomes durable with the tool's response, or is dropped if the agent fails. Artifacts
/// that the agent saves and loads are those of the calling session. The agent does not see the conversation, and its
/// events are not stored.
///
/// The model calls the tool with one argument, `request`, which is the agent's message; or with the arguments of the
/// agent's [`input_type`](crate::agent::LlmAgentBuilder::input_type). The answer is the text of the agent's last event,
/// or its value if the agent has an output type. If the agent's run fails, the tool fails.
///
/// The agent cannot wait for an answer to a long-running call or for a confirmation, since its session ends with the
/// call. The calling model then receives a text that says so; make such an agent a sub-agent.
///
/// ```
/// use futures_util::TryStreamExt;
/// use scratchbook::agent::AgentTool;
/// use scratchbook::prelude::*;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let translator = LlmAgent::builder("translator")
///     .description("Translates a text to French.")
///     .model(ScriptedLlm::new(["Bonjour"]))
///     .output_key("last_translation")
///     .build()?;
/// let call = LlmResponse::call("translator", json!({"request": "Hello"}));
/// let assistant = LlmAgent::builder("assistant")
///     .model(ScriptedLlm::new([call, "They say Bonjour.".into()]))
///     .tool(AgentTool::new(translator)?)
///     .build()?;
/// let runner = Runner::builder("app", assistant, InMemorySessionService::new()).auto_create_session().build()?;
/// let events: Vec<_> = runner.run("alice", "s1", "How do they greet in Paris?").try_collect().await?;
/// let response = events[1].function_responses().next().unwrap();
/// assert_eq!(json!(response.response), json!({"result": "Bonjour"}));
/// assert_eq!(json!(events[1].actions.state_delta), json!({"last_translation": "Bonjour"}));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct AgentTool {
    tree: Arc<AgentTree>,
    declaration: FunctionDeclaration,
    skip_summarization: bool,
    include_plugins: bool,
}

impl AgentTool {
    /// Creates a tool with the agent's name and description.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as for [`RunnerBuilder::build`](crate::runner::RunnerBuilder::build): if two agents of the
    /// tree have the same name, if a name is not an identifier or is `user`, or if an agent has no model.
    pub fn new(agent: impl Agent) -> Result<Self> {
        let agent: Arc<dyn Agent> = Arc::new(agent);
        let declaration = FunctionDeclaration {
            name: agent.name().to_owned(),
            description: agent.description().to_owned(),
            parameters_json_schema: match input_agent(agent.as_ref()).and_then(|agent| agent.input_schema()) {
                Some(input) => input.schema.clone(),
                None => json!({
                    "type": "object",
                    "properties": {"request": {"type": "string"}},
                    "required": ["request"],
                }),
            },
            response_json_schema: None,
        };
        let tree = Arc::new(AgentTree::new(agent).map_err(|e| e.context("the agent of a tool"))?);
        Ok(Self { tree, declaration, skip_summarization: false, include_plugins: true })
    }

    /// Makes the agent's answer the end of the calling agent's turn: its model is not called to summarize the answer.
    /// The event of the tool's response then also has the answer as text.
    #[must_use]
    pub fn skip_summarization(mut self) -> Self {
        self.skip_summarization = true;
        self
    }

    /// Runs the agent without the plugins of the calling agent's runner.
    #[must_use]
    pub fn without_plugins(mut self) -> Self {
        self.include_plugins = false;
        self
    }

    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Arc<dyn Agent> {
        self.tree.root()
    }

    /// Returns the agent's message for the arguments of a call.
    fn message(&self, mut args: Map<String, Value>) -> Result<String> {
        if let Some(input) = input_agent(self.agent().as_ref()).and_then(|agent| agent.input_schema()) {
            return input.message(args).map_err(|e| e.context(format!("a call of '{}'", self.declaration.name)));
        }
        match args.remove("request") {
            Some(Value::String(request)) => Ok(request),
            Some(other) => {
                let name = &self.declaration.name;
                let found = kind_of(&other);
                Err(Error::invalid(format!("the argument 'request' of '{name}' is {found}; it has to be a string")))
            }
            None => {
                let mut args = Value::Object(args);
                args.sort_all_objects();
                Ok(args.to_string())
            }
        }
    }

    /// Returns a runner of the agent for one call.
    fn runner(&self, context: &ToolContext, sessions: &Arc<dyn SessionService>) -> Runner {
        let outer = context.invocation();
        let artifacts = outer
            .artifact_service()
            .map(|_| Arc::new(ForwardedArtifacts::new(context.clone())) as Arc<dyn ArtifactService>);
        let plugins = if self.include_plugins { Arc::clone(outer.plugins()) } else { Arc::new(Plugins::default()) };
        let run = NestedRun { tree: Arc::clone(&self.tree), sessions: Arc::clone(sessions), artifacts, plugins };
        Runner::nested(run, outer)
    }
}

#[async_trait]
impl Tool for AgentTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    fn runs_agent(&self) -> bool {
        true
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        if self.skip_summarization {
            context.skip_summarization()?;
        }
        let message = self.message(args)?;
        let mut state = context.state().to_map();
        state.retain(|key, _| !key.starts_with("_adk"));
        let (app_name, user_id) = (context.session_key().app_name(), context.session_key().user_id());
        let sessions = ForwardedSessions::new(context.clone());
        let secret = context.session().secret_keys().clone();
        let sessions: Arc<dyn SessionService> = Arc::new(WithSecretKeys::new(sessions, secret));
        let session =
            sessions.create_session(app_name, user_id, CreateSessionConfig::default().with_state(state)).await?;
        let config = config(context.invocation());
        let request = RunRequest::message(message).with_config(config);
        let events = self.runner(&context, &sessions).run(user_id, session.key().session_id(), request);
        let output = run_in_task(events).await?;
        let pending = output.pending_calls();
        if !pending.is_empty() {
            let name = &self.declaration.name;
            tracing::warn!(agent = name, "an agent that is a tool waits for an answer, which it cannot receive");
            context.summarize()?;
            return Ok(Value::String(format!(
                "Error: agent '{name}' stopped waiting on unresolved long-running tool call(s) (pending call ids: \
                 [{pending}]), which AgentTool cannot resume."
            )));
        }
        match (output.text(), output_agent(self.agent().as_ref())) {
            (Ok(text), Some(agent)) => agent.parse_output(text),
            (Ok(text), None) | (Err(text), _) => Ok(Value::String(text)),
        }
    }
}

/// Reads the events of the agent's run in a task of its own. The stack of the calling task therefore does not grow with
/// each agent that is a tool of another one. Dropping the future ends the task.
async fn run_in_task(mut events: EventStream) -> Result<AgentOutput> {
    let mut tasks = JoinSet::new();
    let reads = async move {
        let mut output = AgentOutput::default();
        while let Some(event) = events.next().await {
            output.add(&event?);
        }
        Ok(output)
    };
    tasks.spawn(inherit_run(reads.in_current_span()));
    match tasks.join_next().await {
        Some(joined) => joined.map_err(|e| Error::internal("an agent that is a tool panicked").with_source(e))?,
        None => Err(Error::internal("the task of an agent that is a tool is gone")),
    }
}

/// Returns the configuration of the agent's run: that of the calling run, with whole answers and the whole session.
fn config(outer: &InvocationContext) -> RunConfig {
    let mut config = outer.run_config().clone();
    config.streaming = false;
    config.get_session_config = GetSessionConfig::default();
    config
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
