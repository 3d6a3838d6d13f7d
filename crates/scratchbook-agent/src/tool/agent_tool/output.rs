//! The answer of an agent that is a tool, from the events of its run. The rules and the words are ADK's.

use std::collections::BTreeSet;

use crate::agent::{Agent, LlmAgent};
use scratchbook_core::content::{Content, Part};
use scratchbook_core::event::Event;

/// The answer of the agent, according to the events so far.
#[derive(Debug, Default)]
pub(super) struct AgentOutput {
    /// The content of the last event with content.
    content: Option<Content>,
    error_message: Option<String>,
    /// The ids of long-running calls without a response.
    pending: BTreeSet<String>,
}

impl AgentOutput {
    pub(super) fn add(&mut self, event: &Event) {
        if let Some(message) = event.error_message.as_ref().filter(|message| !message.is_empty()) {
            self.error_message = Some(message.clone());
        }
        self.pending.extend(event.long_running_tool_ids.iter().flatten().cloned());
        if let Some(content) = &event.content {
            self.content = Some(content.clone());
            for response in event.function_responses() {
                if let Some(id) = &response.id {
                    self.pending.remove(id);
                }
            }
        }
    }

    /// Returns the ids of calls that wait for an answer, as a list; empty if there are none.
    pub(super) fn pending_calls(&self) -> String {
        let ids: Vec<_> = self.pending.iter().map(|id| format!("'{id}'")).collect();
        ids.join(", ")
    }

    /// Returns the text of the answer.
    ///
    /// # Errors
    ///
    /// The message of the last failure, or an empty text, if the agent has not answered.
    pub(super) fn text(self) -> Result<String, String> {
        let Some(parts) = self.content.as_ref().and_then(|content| content.parts.as_ref()) else {
            return Err(self.error_message.unwrap_or_default());
        };
        let texts: Vec<_> = parts.iter().filter(|part| part.thought != Some(true)).filter_map(text_of).collect();
        let text = texts.join("\n");
        match self.error_message {
            Some(message) if text.is_empty() => Err(message),
            _ => Ok(text),
        }
    }
}

/// Returns the text of a part that users see, including the code and the output of code execution; `None` if it is
/// empty.
fn text_of(part: &Part) -> Option<&str> {
    let is_some = |text: &&str| !text.is_empty();
    let text = part.text.as_deref().filter(is_some);
    let output = || part.code_execution_result.as_ref()?.output.as_deref().filter(is_some);
    let code = || part.executable_code.as_ref()?.code.as_deref().filter(is_some);
    let output = || output().map(|output| output.trim_end_matches('\n'));
    text.or_else(output).or_else(code).filter(is_some)
}

/// Returns the agent whose input schema the tool uses: the agent itself, or the first agent that it runs.
pub(super) fn input_agent(agent: &dyn Agent) -> Option<&LlmAgent> {
    agent.as_llm_agent().or_else(|| input_agent(agent.sub_agents().first()?.as_ref()))
}

/// Returns the agent whose output schema the tool uses: the agent itself, or the last agent that it runs.
pub(super) fn output_agent(agent: &dyn Agent) -> Option<&LlmAgent> {
    agent.as_llm_agent().or_else(|| output_agent(agent.sub_agents().last()?.as_ref()))
}
