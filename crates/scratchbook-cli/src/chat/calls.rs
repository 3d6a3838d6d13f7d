//! Calls that wait for somebody: a confirmation, or an answer that comes later.

use std::collections::BTreeSet;

use scratchbook::{Content, Event, FunctionCall, Part, ToolConfirmation};
use serde_json::{Value, json};

/// The author of the user's events.
pub(super) const USER: &str = "user";

/// How a hint begins that is for programs: ADK's, where the tool has none of its own.
const NO_HINT: &str = "Please approve or reject the tool call ";

/// The calls of a session that are not answered yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingCalls(Vec<PendingCall>);

#[derive(Debug)]
struct PendingCall {
    call: FunctionCall,
    /// The run that it is of: one message answers calls of one.
    run: String,
}

impl PendingCalls {
    /// Takes note of an event of the session, in their order.
    pub(super) fn note(&mut self, event: &Event) {
        if event.is_partial() {
            return;
        }
        let none = BTreeSet::new();
        let later = event.long_running_tool_ids.as_ref().unwrap_or(&none);
        let open = event.function_calls().filter(|call| call.id.as_ref().is_some_and(|id| later.contains(id)));
        self.0.extend(open.map(|call| PendingCall { call: call.clone(), run: event.invocation_id.clone() }));
        // What the tool itself says meanwhile is no answer yet.
        if event.author == USER {
            let answered: Vec<_> = event.function_responses().filter_map(|answer| answer.id.as_deref()).collect();
            self.0.retain(|PendingCall { call, .. }| call.id.as_deref().is_none_or(|id| !answered.contains(&id)));
        }
    }

    /// Those that ask for a confirmation, of the first run that has any.
    pub(super) fn confirmations(&self) -> Vec<FunctionCall> {
        let asking = || self.0.iter().filter(|open| is_confirmation(&open.call));
        let run = asking().next().map(|open| open.run.as_str());
        asking().filter(|open| Some(open.run.as_str()) == run).map(|open| open.call.clone()).collect()
    }

    /// Those that wait for an answer of another kind.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &FunctionCall> {
        self.0.iter().map(|open| &open.call).filter(|call| !is_confirmation(call))
    }
}

/// Whether a call asks for a confirmation.
pub(super) fn is_confirmation(call: &FunctionCall) -> bool {
    call.name.as_deref() == Some(ToolConfirmation::CALL_NAME)
}

/// What is to be confirmed: a call, and what its tool says about it.
pub(super) fn asked(call: &FunctionCall) -> (Option<FunctionCall>, Option<&str>) {
    let args = call.args.as_ref();
    let original = args.and_then(|args| args.get("originalFunctionCall"));
    let original = original.and_then(|call| serde_json::from_value(call.clone()).ok());
    let hint = args.and_then(|args| args.get("toolConfirmation")?.get("hint")?.as_str());
    (original, hint.filter(|hint| !hint.is_empty() && !hint.starts_with(NO_HINT)))
}

/// The message that answers questions for confirmation.
pub(super) fn confirmed(answers: &[(FunctionCall, Confirmed)]) -> Content {
    let response = |(call, said): &(FunctionCall, Confirmed)| {
        let confirmation = ToolConfirmation { confirmed: *said == Confirmed::Yes, ..ToolConfirmation::default() };
        response(call, json!(confirmation))
    };
    Content::new("user", answers.iter().map(response).collect())
}

/// What the user says to a question for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmed {
    Yes,
    No,
}

impl Confirmed {
    /// Understands what was typed.
    pub(super) fn understand(line: &str) -> Option<Self> {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Some(Self::Yes),
            "n" | "no" => Some(Self::No),
            _ => None,
        }
    }
}

/// The message that answers a call that has waited: JSON, or text.
pub(super) fn answer(call: &FunctionCall, typed: &str) -> Content {
    let value = scratchbook::json::from_str(typed).unwrap_or_else(|_| Value::from(typed));
    Content::new("user", vec![response(call, value)])
}

fn response(call: &FunctionCall, value: Value) -> Part {
    let [id, name] = [&call.id, &call.name].map(|text| text.as_deref().unwrap_or_default());
    Part::function_response(id, name, value)
}
