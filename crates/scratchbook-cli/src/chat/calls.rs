//! Tool calls that wait for the user: for a confirmation, or for an answer that comes later.

use std::collections::BTreeSet;

use scratchbook::agent::ToolConfirmation;
use scratchbook::content::{FunctionCall, Part};
use scratchbook::{Content, Event};
use serde_json::{Value, json};

/// The author of the user's events.
pub(super) const USER: &str = "user";

/// The beginning of ADK's default hint, which is meant for programs.
const NO_HINT: &str = "Please approve or reject the tool call ";

/// The unanswered calls of a session, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Vec<PendingCall>);

#[derive(Debug)]
struct PendingCall {
    call: FunctionCall,
    /// The run of the call. One message answers only calls of one run.
    run: String,
}

impl PendingCalls {
    /// Records an event of the session. Events come in order.
    pub(super) fn note(&mut self, event: &Event) {
        if event.is_partial() {
            return;
        }
        let none = BTreeSet::new();
        let later = event.long_running_tool_ids.as_ref().unwrap_or(&none);
        let open = event.function_calls().filter(|call| call.id.as_ref().is_some_and(|id| later.contains(id)));
        self.0.extend(open.map(|call| PendingCall { call: call.clone(), run: event.invocation_id.clone() }));
        // Only the user's responses are answers. The tool's own preliminary response is not.
        if event.author == USER {
            let answered: Vec<_> = event.function_responses().filter_map(|answer| answer.id.as_deref()).collect();
            self.0.retain(|PendingCall { call, .. }| call.id.as_deref().is_none_or(|id| !answered.contains(&id)));
        }
    }

    /// Returns the calls of the oldest run that ask for a confirmation.
    pub(super) fn confirmations(&self) -> Vec<FunctionCall> {
        let asking = || self.0.iter().filter(|open| is_confirmation(&open.call));
        let run = asking().next().map(|open| open.run.as_str());
        asking().filter(|open| Some(open.run.as_str()) == run).map(|open| open.call.clone()).collect()
    }

    /// Returns the calls that wait for another kind of answer.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &FunctionCall> {
        self.0.iter().map(|open| &open.call).filter(|call| !is_confirmation(call))
    }
}

/// Returns whether a call asks for a confirmation.
pub(super) fn is_confirmation(call: &FunctionCall) -> bool {
    call.name.as_deref() == Some(ToolConfirmation::CALL_NAME)
}

/// Returns the call to confirm, and the hint of its tool.
pub(super) fn asked(call: &FunctionCall) -> (Option<FunctionCall>, Option<&str>) {
    let args = call.args.as_ref();
    let original = args.and_then(|args| args.get("originalFunctionCall"));
    let original = original.and_then(|call| serde_json::from_value(call.clone()).ok());
    let hint = args.and_then(|args| args.get("toolConfirmation")?.get("hint")?.as_str());
    (original, hint.filter(|hint| !hint.is_empty() && !hint.starts_with(NO_HINT)))
}

/// Returns the message that answers confirmations.
pub(super) fn confirmed(answers: &[(FunctionCall, YesOrNo)]) -> Content {
    let response = |(call, said): &(FunctionCall, YesOrNo)| {
        let confirmation = ToolConfirmation { confirmed: *said == YesOrNo::Yes, ..ToolConfirmation::default() };
        response(call, json!(confirmation))
    };
    Content::new("user", answers.iter().map(response).collect())
}

/// The user's answer to a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YesOrNo {
    Yes,
    No,
}

impl YesOrNo {
    /// Parses a typed answer.
    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Some(Self::Yes),
            "n" | "no" => Some(Self::No),
            _ => None,
        }
    }
}

/// Returns the message that answers a waiting call. The answer is JSON, or else text.
pub(super) fn answer(call: &FunctionCall, typed: &str) -> Content {
    let value = scratchbook::json::from_str(typed).unwrap_or_else(|_| Value::from(typed));
    Content::new("user", vec![response(call, value)])
}

fn response(call: &FunctionCall, value: Value) -> Part {
    let [id, name] = [&call.id, &call.name].map(|text| text.as_deref().unwrap_or_default());
    Part::function_response(id, name, value)
}
