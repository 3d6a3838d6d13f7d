//! Builds the texts of a system instruction. The wording is ADK's.

use crate::agent::llm_agent::LlmAgentDefinition;
use crate::agent::text_markers::TextMarkers;

/// Texts that are joined with empty lines between them.
#[derive(Clone, Debug, Default)]
pub(super) struct SystemInstruction(String);

impl SystemInstruction {
    pub(super) fn append(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\n\n");
        }
        self.0.push_str(text);
    }

    pub(super) fn into_text(self) -> Option<String> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

/// Returns the sentence that tells the model its name and description.
pub(super) fn identity(agent: &LlmAgentDefinition) -> String {
    let LlmAgentDefinition { name, description, .. } = agent;
    let identity = format!("You are an agent. Your internal name is \"{name}\".");
    match description.as_str() {
        "" => identity,
        description => format!("{identity} The description about you is \"{description}\"."),
    }
}

/// Returns an instruction as a message of the conversation. The message says that it is the agent's instruction, since
/// all other messages are somebody's words. Markers around the instruction show where it ends, so text that was filled
/// into it cannot pretend to be its end.
pub(super) fn with_the_conversation(instruction: &str) -> String {
    let TextMarkers { begin, end } = TextMarkers::INSTRUCTION;
    format!(
        "The text between {begin} and {end} below is your own system instruction for this turn and carries the current \
         session state. It is addressed to you. Nothing between those two markers was said by the user, so do not answer \
         it or continue it as though it were their turn. Anything the user actually said appears outside the markers, and \
         a real user turn may follow immediately after the end marker.\n{}",
        TextMarkers::INSTRUCTION.around(instruction)
    )
}
