//! Events, deltas and state as text.

use std::io;

use anstyle::{AnsiColor, Style};
use scratchbook::content::{FunctionCall, FunctionResponse, Part};
use scratchbook::state::Change;
use scratchbook::{Content, Event, Scope, Session, StateDelta};
use serde_json::{Map, Value};

use crate::output::{BAD, BOLD, DIM, Output, compact, styled, visible};

/// The width of the longest scope name, `session`.
const SCOPE_WIDTH: usize = 7;
/// The maximum length of a value in text; --json shows values in full.
const MAX_SHOWN: usize = 400;
/// The maximum length of a value that shares its line with others.
const MAX_BRIEF: usize = 80;

/// Prints an event, as in `2  support_agent  Hello`, with further parts on lines of their own.
pub(crate) fn event(out: &mut Output, event: &Event) -> io::Result<()> {
    let number = event.seq.map(|seq| seq.to_string()).unwrap_or_default();
    let author = styled(BOLD, visible(&event.author));
    let mut said = said(event).into_iter();
    let first = said.next().unwrap_or_else(|| styled(DIM, without_words(event)));
    out.line(format_args!("{number:>4}  {author}  {first}"))?;
    for more in said {
        out.line(format_args!("      {more}"))?;
    }
    Ok(())
}

/// Prints a delta by scope, one change per line.
pub(crate) fn delta(out: &mut Output, delta: &StateDelta) -> io::Result<()> {
    let mut label = "delta";
    for scope in Scope::ALL {
        for (key, change) in delta.iter().filter(|(key, _)| Scope::split(key).0 == scope) {
            let name = visible(Scope::split(key).1);
            let change = match change {
                Change::Set(value) => format!("{name} = {}", short(value)),
                _ => format!("{name} {}", styled(BAD, "removed")),
            };
            let note =
                if scope == Scope::Temp { styled(DIM, "  (this run only, never stored)") } else { String::new() };
            out.line(format_args!("      {}  {}  {change}{note}", styled(DIM, label), scope_name(scope)))?;
            label = "     ";
        }
    }
    Ok(())
}

/// Prints the title and the labels, if there are any, on a line each.
pub(crate) fn metadata(out: &mut Output, session: &Session) -> io::Result<()> {
    if let Some(title) = session.title() {
        out.line(styled(DIM, format_args!("      title  {}", visible(title))))?;
    }
    if !session.labels().is_empty() {
        let labels = session.labels().iter().map(|(name, value)| format!("{}={}", visible(name), visible(value)));
        out.line(styled(DIM, format_args!("      labels {}", labels.collect::<Vec<_>>().join(", "))))?;
    }
    Ok(())
}

/// Prints state by scope, one line for each scope with keys.
pub(crate) fn state(out: &mut Output, state: &Map<String, Value>) -> io::Result<()> {
    let mut label = "state";
    for scope in Scope::ALL {
        let values: Vec<_> = state
            .iter()
            .filter(|(key, _)| Scope::split(key).0 == scope)
            .map(|(key, value)| format!("{} = {}", visible(Scope::split(key).1), short(value)))
            .collect();
        if !values.is_empty() {
            let line = format!("      {label}  {:SCOPE_WIDTH$}  {}", scope.as_str(), values.join(", "));
            out.line(styled(DIM, line))?;
            label = "     ";
        }
    }
    Ok(())
}

/// Returns the name of a scope, coloured and padded.
pub(crate) fn scope_name(scope: Scope) -> String {
    let colour = match scope {
        Scope::Session => AnsiColor::Cyan,
        Scope::User => AnsiColor::Green,
        Scope::App => AnsiColor::Magenta,
        Scope::Temp => AnsiColor::Yellow,
    };
    styled(Style::new().fg_color(Some(colour.into())), format_args!("{:SCOPE_WIDTH$}", scope.as_str()))
}

/// Returns a value as JSON, truncated if it is too long to read.
pub(crate) fn short(value: &Value) -> String {
    shortened(compact(value))
}

/// Returns a text, truncated if it is too long to read.
pub(crate) fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}... ({} bytes; --json shows all)", &text[..end], text.len()),
        None => text,
    }
}

/// Returns a value as JSON, truncated to share a line with others.
pub(crate) fn brief(value: &Value) -> String {
    cut(compact(value))
}

/// Returns the first part of an event in words, if it has any.
pub(crate) fn first_words(event: &Event) -> Option<String> {
    said(event).into_iter().next().map(cut)
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_BRIEF) {
        // The style in the text is ended after the cut.
        Some((end, _)) if text.contains('\u{1b}') => format!("{}...{DIM:#}", &text[..end]),
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Describes an event without content, such as a callback's.
fn without_words(event: &Event) -> &'static str {
    if event.actions.escalate == Some(true) {
        "ends its loop, without a message"
    } else if event.actions.state_delta.is_empty() {
        "no message"
    } else {
        "changes the state, without a message"
    }
}

/// Returns the texts, calls, responses and actions of an event, a line each.
fn said(event: &Event) -> Vec<String> {
    let mut lines: Vec<_> = event.content.iter().flat_map(Content::parts).filter_map(part).collect();
    if let Some(code) = &event.error_code {
        let message = event.error_message.as_deref().unwrap_or_default();
        lines.push(styled(BAD, format_args!("{}: {}", visible(code), visible(message))));
    }
    if let Some(agent) = &event.actions.transfer_to_agent {
        lines.push(styled(DIM, format_args!("hands over to {}", visible(agent))));
    }
    for (name, version) in &event.actions.artifact_delta {
        lines.push(styled(DIM, format_args!("saved artifact {}, version {version}", visible(name))));
    }
    lines
}

fn part(part: &Part) -> Option<String> {
    if let Some(call) = &part.function_call {
        return Some(format!("calls {}", call_of(call)));
    }
    if let Some(response) = &part.function_response {
        return Some(answer_of(response));
    }
    if let Some(text) = &part.text {
        if text.is_empty() {
            return None;
        }
        let text = visible(text).into_owned();
        return Some(if part.thought == Some(true) { styled(DIM, text) } else { text });
    }
    Some(styled(DIM, data_of(part)))
}

/// Returns a call as code: `add_to_cart({"item":"book"})`.
pub(crate) fn call_of(call: &FunctionCall) -> String {
    let args = compact(&call.args.clone().unwrap_or_default());
    format!("{}({args})", visible(call.name.as_deref().unwrap_or_default()))
}

/// Returns a tool's response: `add_to_cart answers {"items":1}`.
pub(crate) fn answer_of(response: &FunctionResponse) -> String {
    let name = visible(response.name.as_deref().unwrap_or_default());
    format!("{name} answers {}", compact(&response.response.clone().unwrap_or_default()))
}

/// Returns the MIME type of a part's data: `[image/png]`.
pub(crate) fn data_of(part: &Part) -> String {
    let mime_type = part.inline_data.as_ref().and_then(|blob| blob.mime_type.as_deref()).unwrap_or("data");
    format!("[{}]", visible(mime_type))
}
