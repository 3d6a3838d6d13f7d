//! A single event: its author, its message or action, and its changes.

use std::borrow::Cow;

use maud::{Markup, html};
use scratchbook::content::{FunctionCall, FunctionResponse, Part};
use scratchbook::state::Change;
use scratchbook::{Event, SessionKey};
use serde_json::Value;

use super::super::address::{self, PageView};
use super::super::masks::Masks;
use super::super::value::{block, clock, duration, line, text_of, visible};
use super::conversation::Answers;
use super::talk;
use crate::answers::{is_credential_call, value_without_secrets};

/// How many bytes of a text the conversation shows.
const TEXT: usize = 1200;
/// How many bytes of a value the conversation shows as a block.
const VALUE: usize = 600;
/// How many bytes of a value are shown on one line.
const LINE: usize = 90;
/// How many parts of an event the conversation shows.
const PARTS: usize = 12;
/// How many keys of an event the conversation shows.
const KEYS: usize = 12;

/// How an event is shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) view: &'a PageView,
    pub(super) masks: &'a Masks,
    pub(super) answers: &'a Answers<'a>,
    /// The event before the shown one.
    pub(super) before: Option<&'a Event>,
    /// The number of the chosen event.
    pub(super) chosen: Option<u64>,
    /// Whether the page can answer calls that wait for an answer.
    pub(super) takes_answers: bool,
}

/// The tokens that a model call has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenCounts {
    pub(super) prompt: u64,
    pub(super) answer: u64,
    pub(super) total: u64,
}

pub(super) fn tokens(event: &Event) -> Option<TokenCounts> {
    let usage = event.usage_metadata.as_deref()?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (prompt, answer) = (count("promptTokenCount"), count("candidatesTokenCount"));
    let total = count("totalTokenCount").max(prompt.saturating_add(answer));
    (total > 0).then_some(TokenCounts { prompt, answer, total })
}

impl Shown<'_> {
    pub(super) fn markup(&self, event: &Event) -> Markup {
        let seq = event.seq.unwrap_or_default();
        let is_chosen = self.chosen == Some(seq);
        let kind = if event.author == "user" { "user" } else { "agent" };
        html! {
            article.event.(kind) id={ "e" (seq) } data-seq=(seq) aria-current=[is_chosen.then_some("true")] {
                header {
                    a.seq href=(address::session(self.key, &self.view.moved_to(seq))) data-at=(seq)
                        aria-label={ "State at event " (seq) } { (seq) }
                    b.author { bdi { (visible(author(event))) } }
                    @if let Some(branch) = &event.branch { span.tag { bdi { (visible(branch)) } } }
                    @if let Some(timestamp) = event.timestamp { (clock(timestamp)) }
                    @if let Some(took) = self.took(event) { span.soft { "+" (duration(took)) } }
                    @if let Some(tokens) = tokens(event) {
                        span.soft title={ (tokens.prompt) " prompt, " (tokens.answer) " answer" } { (tokens.total) " tokens" }
                    }
                    a.raw href=(address::part(self.key, "event", &PageView::at(seq))) { "JSON" }
                }
                @let parts = event.content.as_ref().map(|content| content.parts()).unwrap_or_default();
                @for part in parts.iter().take(PARTS) { (self.part(part, event)) }
                @if parts.len() > PARTS { p.soft { (parts.len() - PARTS) " more parts" } }
                @if let Some(code) = &event.error_code {
                    p.failure { b { (visible(code)) } " " (text_of(event.error_message.as_deref().unwrap_or_default(), TEXT).text) }
                }
                (self.actions(event))
                (self.changes(event, seq))
            }
        }
    }

    /// Returns the seconds since the previous event of the same run.
    fn took(&self, event: &Event) -> Option<f64> {
        let before = self.before.filter(|before| before.invocation_id == event.invocation_id)?;
        let took = event.timestamp? - before.timestamp?;
        (took >= 0.0005).then_some(took)
    }

    fn part(&self, part: &Part, event: &Event) -> Markup {
        if let Some(call) = part.function_call.as_deref() {
            return self.call(call, event);
        }
        if let Some(answer) = part.function_response.as_deref() {
            return answered(answer);
        }
        if let Some(text) = &part.text {
            let cut = text_of(text, TEXT);
            let class = if part.thought == Some(true) { "text thought" } else { "text" };
            return html! {
                p class=(class) dir="auto" { (cut.text) @if !cut.is_whole { "…" } }
                @if !cut.is_whole { (self.whole(event, text.len())) }
            };
        }
        if let Some(code) = part.executable_code.as_deref().and_then(|code| code.code.as_deref()) {
            return html! { pre { (text_of(code, VALUE).text) } };
        }
        if let Some(result) = part.code_execution_result.as_deref().and_then(|result| result.output.as_deref()) {
            return html! { pre { (text_of(result, VALUE).text) } };
        }
        let media = part.inline_data.as_deref().map(|data| (data.mime_type.as_deref(), data.display_name.as_deref()));
        let media =
            media.or(part.file_data.as_deref().map(|file| (file.mime_type.as_deref(), file.file_uri.as_deref())));
        match media {
            Some((kind, name)) => html! {
                p.chip { "data " (visible(kind.unwrap_or("of unknown type"))) " " bdi { (visible(name.unwrap_or_default())) } }
            },
            None => html! { p.chip { "a part of another kind" } },
        }
    }

    fn whole(&self, event: &Event, bytes: usize) -> Markup {
        let seq = event.seq.unwrap_or_default();
        html! {
            p.more {
                a href=(address::part(self.key, "event", &PageView::at(seq))) {
                    "Whole event (" (super::super::value::size(bytes as u64)) ")"
                }
            }
        }
    }

    /// Returns a call of a tool, folded together with its answer.
    fn call(&self, call: &FunctionCall, event: &Event) -> Markup {
        let name = call.name.as_deref().unwrap_or("?");
        let args = Value::Object(call.args.clone().unwrap_or_default());
        let args = if is_credential_call(name) { hidden() } else { value_without_secrets("", &args).into_owned() };
        let answer = call.id.as_deref().and_then(|id| self.answers.to(id));
        let waits =
            event.long_running_tool_ids.as_ref().zip(call.id.as_ref()).is_some_and(|(ids, id)| ids.contains(id));
        // The tool may have answered that it is not done yet. The final answer comes from the user.
        let waits = waits && answer.is_none_or(|(answered, _)| answered.author != "user");
        let question = call.id.as_deref().filter(|_| waits && self.takes_answers);
        html! {
            details.call open[question.is_some()] {
                summary {
                    code.tool { (visible(name)) }
                    code.args { (line(&args, LINE).text) }
                    @match answer {
                        Some((answered, answer)) => {
                            span.soft {
                                "→ " code { (line(&of_answer(answer), LINE).text) }
                                @if let (Some(from), Some(to)) = (event.timestamp, answered.timestamp) { " " (duration(to - from)) }
                            }
                        }
                        None => {}
                    }
                    @if waits { span.tag { "waits for an answer" } }
                }
                h4 { "Arguments" }
                pre { (block(&args, VALUE).text) }
                @if let Some((answered, answer)) = answer {
                    h4 { "Answer" @if let Some(seq) = answered.seq { " in event " a href={ "#e" (seq) } { (seq) } } }
                    pre { (block(&of_answer(answer), VALUE).text) }
                }
                @if let Some(call) = question { (talk::question(self.key, call, name)) }
            }
        }
    }

    /// Returns the actions of the event other than its message and its changes of the state.
    fn actions(&self, event: &Event) -> Markup {
        let actions = &event.actions;
        html! {
            @if let Some(agent) = &actions.transfer_to_agent { p.chip { "hands over to " b { bdi { (visible(agent)) } } } }
            @if actions.escalate == Some(true) { p.chip { "ends the loop" } }
            @if let Some(run) = &actions.rewind_before_invocation_id { p.chip { "rewinds to before run " bdi { (visible(run)) } } }
            @if actions.compaction.is_some() { p.chip { "summary of earlier events" } }
            @if !actions.requested_tool_confirmations.is_empty() { p.chip.waits { "asks for a confirmation" } }
            @if !actions.requested_auth_configs.is_empty() { p.chip.waits { "asks for a credential" } }
            @for (name, version) in actions.artifact_delta.iter().take(KEYS) {
                p.chip { "saves artifact " b { bdi { (visible(name)) } } " as version " (version) }
            }
        }
    }

    /// Returns the keys that the event writes.
    fn changes(&self, event: &Event, seq: u64) -> Markup {
        let delta = &event.actions.state_delta;
        html! {
            @if !delta.is_empty() {
                ul.delta aria-label="Changes of state" {
                    @for (key, change) in delta.iter().take(KEYS) { (self.change(key, change, seq)) }
                    @if delta.len() > KEYS { li.soft { (delta.len() - KEYS) " more keys" } }
                }
            }
        }
    }

    fn change(&self, key: &str, change: &Change, seq: u64) -> Markup {
        let view = self.view.moved_to(seq).with_key(key);
        html! {
            li {
                a.key href=(address::session(self.key, &view)) data-key=(key) data-at=(seq) { bdi { (visible(key)) } }
                @match change.value() {
                    Some(value) => {
                        @let cut = line(&self.masks.of_key(key, value), LINE);
                        " = " code { (cut.text) @if !cut.is_whole { "…" } }
                    }
                    None => { " " span.removed { "removed" } }
                }
            }
        }
    }
}

fn hidden() -> Value {
    Value::from("[secret]")
}

/// Returns the answer of a tool. Most answers are an object with the single field `result`.
fn of_answer(answer: &FunctionResponse) -> Value {
    if answer.name.as_deref().is_some_and(is_credential_call) {
        return hidden();
    }
    let response = Value::Object(answer.response.clone().unwrap_or_default());
    value_without_secrets("", &response).into_owned()
}

fn answered(answer: &FunctionResponse) -> Markup {
    html! {
        details.call.answer {
            summary {
                code.tool { (visible(answer.name.as_deref().unwrap_or("?"))) }
                span.soft { "answered " code { (line(&of_answer(answer), LINE).text) } }
            }
            pre { (block(&of_answer(answer), VALUE).text) }
        }
    }
}

/// Returns the author of an event, or `unknown`.
pub(super) fn author(event: &Event) -> &str {
    if event.author.is_empty() { "unknown" } else { &event.author }
}

/// Returns the tools whose answers are in an event. They have written the changes of the event.
pub(super) fn tools(event: &Event) -> Cow<'_, str> {
    let names: Vec<_> = event.function_responses().filter_map(|answer| answer.name.as_deref()).collect();
    match names.as_slice() {
        [] => Cow::Borrowed(""),
        [name] => visible(name),
        names => Cow::Owned(visible(&names.join(", ")).into_owned()),
    }
}
