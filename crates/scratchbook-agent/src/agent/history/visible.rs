//! Decides which events an agent's model sees.

use std::collections::HashSet;

use scratchbook_core::content::{Content, Part};
use scratchbook_core::event::Event;

/// The names of calls that a program and its user exchange. Models do not see them.
const OF_FRAMEWORK: [&str; 3] = ["adk_framework", "adk_request_credential", "adk_request_confirmation"];

/// The agent whose model sees the conversation, and the agent's position in the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer<'a> {
    pub(super) agent: &'a str,
    pub(super) branch: Option<&'a str>,
    /// The path of the node in which the agent runs, as in `Event::node_info`.
    pub(super) node: Option<&'a str>,
    /// The ids of all calls in the conversation.
    pub(super) calls: &'a HashSet<&'a str>,
}

impl Viewer<'_> {
    /// Returns whether the agent's model is shown an event.
    pub(super) fn sees(&self, event: &Event) -> bool {
        // An agent that runs isolated has a conversation of its own.
        event.isolation_scope.is_none()
            && says_something(event)
            && self.is_of_branch(event)
            && !self.is_for_another_node(event)
            && !is_of_framework(event)
            && !self.is_inside_tool(event)
    }

    /// Returns whether the event's words count as another agent's. In a live session this includes the agent's own
    /// words, since roles do not alternate there.
    pub(super) fn is_anothers(&self, event: &Event) -> bool {
        event.author != "user" && (event.live_session_id.is_some() || event.author != self.agent)
    }

    /// Returns whether a tool wrote the event for the user while it ran. The model receives only the tool's response.
    /// Such an event is on the tool's own branch, `TOOL@CALL`, below the agent's.
    pub(super) fn is_inside_tool(&self, event: &Event) -> bool {
        let Some(of_event) = event.branch.as_deref().filter(|branch| !branch.is_empty()) else {
            return false;
        };
        let below = match self.branch.filter(|branch| !branch.is_empty()) {
            None => Some(of_event),
            Some(own) => of_event.strip_prefix(own).and_then(|rest| rest.strip_prefix('.')),
        };
        below.is_some_and(|below| {
            let mut steps = below.split('.').filter_map(|step| step.rsplit_once('@'));
            steps.any(|(name, call)| name != self.agent && self.calls.contains(call))
        })
    }

    /// Returns whether the event is on this branch, on a branch that led to it, or on no branch.
    fn is_of_branch(&self, event: &Event) -> bool {
        let branches = (event.branch.as_deref().unwrap_or_default(), self.branch.unwrap_or_default());
        match branches {
            ("", _) | (_, "") => true,
            (of_event, own) => own.strip_prefix(of_event).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
        }
    }

    /// Returns whether the event is a user's message to another node: a message that names a node of a workflow is only
    /// for that node.
    fn is_for_another_node(&self, event: &Event) -> bool {
        let path = event.node_info.path.as_str();
        event.author == "user"
            && !path.is_empty()
            && path != self.node.unwrap_or_default()
            && event.function_responses().next().is_none()
    }
}

/// Returns whether an event has content for a model. An event with a summary always has such content.
fn says_something(event: &Event) -> bool {
    let in_parts = |content: &Content| {
        content.role.as_deref().is_some_and(|role| !role.is_empty()) && content.parts().iter().any(is_visible)
    };
    event.actions.compaction.is_some()
        || event.content.as_ref().is_some_and(in_parts)
        || event.input_transcription.is_some()
        || event.output_transcription.is_some()
}

/// Returns whether a part is shown. Calls, responses and parts that a model needs back unchanged are always shown, even
/// in thoughts.
fn is_visible(part: &Part) -> bool {
    let wanted_back = part.function_call.is_some()
        || part.function_response.is_some()
        || part.thought_signature.as_ref().is_some_and(|signature| !signature.is_empty())
        || part.tool_call.is_some()
        || part.tool_response.is_some();
    let said = part.text.as_ref().is_some_and(|text| !text.is_empty())
        || part.inline_data.is_some()
        || part.file_data.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some();
    wanted_back || (said && part.thought != Some(true))
}

fn is_of_framework(event: &Event) -> bool {
    let of_framework = |name: Option<&str>| name.is_some_and(|name| OF_FRAMEWORK.contains(&name));
    event.function_calls().any(|call| of_framework(call.name.as_deref()))
        || event.function_responses().any(|response| of_framework(response.name.as_deref()))
}
