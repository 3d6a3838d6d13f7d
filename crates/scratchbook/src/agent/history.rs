//! The conversation as one agent's model is shown it.

use super::InvocationContext;
use crate::content::{Content, Part};
use crate::event::Event;

/// The contents of all events the agent's branch can see; what other agents said is told as such.
pub(super) fn contents(context: &InvocationContext) -> Vec<Content> {
    let session = context.session();
    let visible = session.events().iter().filter(|event| is_visible(event, context.branch()));
    visible.filter_map(|event| content_for(event, context.agent_name())).collect()
}

/// A branch sees itself, what led to it, and what belongs to no branch.
fn is_visible(event: &Event, branch: Option<&str>) -> bool {
    match (event.branch.as_deref(), branch) {
        (None, _) => true,
        (Some(of_event), Some(branch)) => {
            branch.strip_prefix(of_event).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        (Some(_), None) => true,
    }
}

fn content_for(event: &Event, agent_name: &str) -> Option<Content> {
    let content = event.content.as_ref().filter(|content| !content.parts().is_empty())?;
    if event.author == "user" || event.author == agent_name {
        return Some(content.clone());
    }
    let told = content.parts().iter().filter(|part| part.thought != Some(true)).map(|part| told(&event.author, part));
    let mut parts = vec![Part::text("For context:")];
    parts.extend(told);
    Some(Content::new("user", parts))
}

/// What another agent said or did, in words. The wording is ADK's, which models have been tuned on.
fn told(author: &str, part: &Part) -> Part {
    let json = |value: Option<&serde_json::Map<_, _>>| serde_json::to_string(&value).unwrap_or_default();
    if let Some(text) = &part.text {
        return Part::text(format!("[{author}] said: {text}"));
    }
    if let Some(call) = &part.function_call {
        let name = call.name.as_deref().unwrap_or_default();
        return Part::text(format!("[{author}] called tool `{name}` with parameters: {}", json(call.args.as_ref())));
    }
    if let Some(answer) = &part.function_response {
        let name = answer.name.as_deref().unwrap_or_default();
        return Part::text(format!("[{author}] `{name}` tool returned result: {}", json(answer.response.as_ref())));
    }
    part.clone()
}
