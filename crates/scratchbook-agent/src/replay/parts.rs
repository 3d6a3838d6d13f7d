//! Models and tools that follow the recordings of one message.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::comparison;
use super::recordings::{LlmRecording, Recording, ToolRecording};
use crate::agent::{CallbackContext, ToolContext};
use crate::model::{FunctionDeclaration, Llm, LlmCapabilities, LlmRequest, LlmResponse, LlmStream};
use crate::runner::{RunOverride, TurnParts};
use crate::tool::Tool;
use scratchbook_core::error::{Error, Result};

/// The recordings of a message, and the progress of each agent in them.
#[derive(Debug)]
pub(super) struct Replay {
    shared: Arc<ReplayState>,
}

#[derive(Debug)]
struct ReplayState {
    recordings: Vec<Recording>,
    /// How many requests each agent has sent.
    requests: Mutex<HashMap<String, usize>>,
    /// The places of the tool calls that have been made.
    calls: Mutex<Vec<usize>>,
}

impl Replay {
    pub(super) fn new(recordings: Vec<Recording>) -> Self {
        Self { shared: Arc::new(ReplayState { recordings, requests: Mutex::default(), calls: Mutex::default() }) }
    }
}

impl RunOverride for Replay {
    fn turn(&self, agent_name: &str, parts: TurnParts) -> TurnParts {
        let TurnParts { model, tools } = parts;
        let agent: Arc<str> = agent_name.into();
        let tools = tools.into_iter().map(|tool| {
            let (agent, shared) = (Arc::clone(&agent), Arc::clone(&self.shared));
            Arc::new(ReplayedTool { tool, agent, shared }) as Arc<dyn Tool>
        });
        let tools = tools.collect();
        TurnParts { model: Arc::new(ReplayedLlm { model, agent, shared: Arc::clone(&self.shared) }), tools }
    }
}

impl ReplayState {
    /// Returns the recorded answers to an agent's next request.
    fn answers(&self, agent: &str, request: &LlmRequest) -> Result<Vec<LlmResponse>> {
        let mut recorded = self.of_agent(agent).filter_map(|(_, recording)| recording.llm_recording.as_ref());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let next = requests.entry(agent.to_owned()).or_default();
        let recording: &LlmRecording = recorded.nth(*next).ok_or_else(|| {
            Error::precondition(format!("the agent '{agent}' sends more requests than the {next} that are recorded"))
        })?;
        comparison::check(&recording.llm_request, request)
            .map_err(|e| e.context(format!("request {} of agent '{agent}'", *next + 1)))?;
        *next += 1;
        recording.responses()
    }

    /// Returns the recording of a call that was not made before.
    fn call(&self, agent: &str, name: &str, args: &Map<String, Value>) -> Result<ToolRecording> {
        let mut made = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded =
            self.of_agent(agent).filter_map(|(place, recording)| Some((place, recording.tool_recording.as_ref()?)));
        let is_call = |recorded: &ToolRecording| {
            let call = &recorded.tool_call;
            call.name.as_deref() == Some(name) && call.args.clone().unwrap_or_default() == *args
        };
        let mut left = recorded.filter(|(place, recorded)| !made.contains(place) && is_call(recorded));
        let (place, recording) = left.next().ok_or_else(|| {
            let args = json!(args);
            Error::precondition(format!("no call of the tool '{name}' by the agent '{agent}' is recorded with {args}"))
        })?;
        made.push(place);
        Ok(recording.clone())
    }

    fn of_agent(&self, agent: &str) -> impl Iterator<Item = (usize, &Recording)> {
        self.recordings.iter().enumerate().filter(move |(_, recording)| recording.agent_name == agent)
    }
}

/// A model that answers as recorded.
struct ReplayedLlm {
    model: Arc<dyn Llm>,
    agent: Arc<str>,
    shared: Arc<ReplayState>,
}

impl Llm for ReplayedLlm {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let answers = match self.shared.answers(&self.agent, &request) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        Box::pin(stream::iter(answers))
    }

    fn capabilities(&self) -> LlmCapabilities {
        self.model.capabilities()
    }
}

impl fmt::Debug for ReplayedLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayedLlm").field("model", &self.model).field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A tool that runs only to make its changes to the state; its answer is the recorded one. As in ADK, an agent that is
/// a tool does not run, since its requests are not recorded.
#[derive(Debug)]
struct ReplayedTool {
    tool: Arc<dyn Tool>,
    agent: Arc<str>,
    shared: Arc<ReplayState>,
}

#[async_trait]
impl Tool for ReplayedTool {
    fn declaration(&self) -> &FunctionDeclaration {
        self.tool.declaration()
    }

    fn is_long_running(&self) -> bool {
        self.tool.is_long_running()
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        let recorded = self.shared.call(&self.agent, &self.declaration().name, &args)?;
        let recorded = Value::Object(recorded.tool_response.response.unwrap_or_default());
        if self.tool.runs_agent() {
            return Ok(recorded);
        }
        let answer = self.tool.run(args, context).await?;
        // An answer that would be written like the recorded one is kept: a long-running tool without an answer yet is
        // recorded with null.
        Ok(if json!({"result": answer}) == recorded { answer } else { recorded })
    }

    async fn requires_confirmation(&self, args: &Map<String, Value>, context: &ToolContext) -> Result<bool> {
        self.tool.requires_confirmation(args, context).await
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, context: &CallbackContext) -> Result<()> {
        self.tool.process_llm_request(request, context).await
    }
}
