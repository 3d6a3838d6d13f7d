//! Shows a conversation: messages at the margin, calls and state changes indented and dimmed.

use std::io;

use scratchbook::content::{FunctionCall, Part};
use scratchbook::session::SecretKeys;
use scratchbook::state::Change;
use scratchbook::{Content, Event};
use serde_json::{Value, json};

use super::calls::{self, USER, is_confirmation};
use crate::output::{BAD, BOLD, DIM, Format, Output, styled, visible, visible_lines};
use crate::show;
use crate::wrap::StreamWrap;

/// Replaces a hidden value.
const HIDDEN: &str = "[secret]";

/// The prompt for a message.
pub(super) const PROMPT: &str = "> ";

/// Suffixes of the keys under which ADK keeps credentials in the state.
const CREDENTIALS: [&str; 2] = ["_existing_exchanged_credential", "_token_cache"];

/// The output of a conversation.
pub(super) struct Screen<'a> {
    out: &'a mut Output,
    secret: SecretKeys,
    names: AgentNames,
    /// The author of the last message.
    speaker: Option<String>,
    /// The shown part of the current answer.
    said: String,
    /// The shown part of the current answer's thoughts.
    thought: String,
    /// The kind of text on the current line, unless the line is empty.
    begun: Option<TextKind>,
    /// Wraps the text of the current answer between words.
    wrap: StreamWrap,
}

/// A kind of text from a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Thought,
    Answer,
}

/// Whether messages show their agent's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentNames {
    /// There is only one agent.
    One,
    /// There are several.
    Several,
}

impl<'a> Screen<'a> {
    pub(super) fn new(out: &'a mut Output, secret: SecretKeys, names: AgentNames) -> Self {
        let (said, thought) = (String::new(), String::new());
        Self { out, secret, names, speaker: None, said, thought, begun: None, wrap: StreamWrap::default() }
    }

    /// Returns the output's format. With JSON, each event is a line.
    pub(super) fn format(&self) -> Format {
        self.out.format()
    }

    /// Shows the app.
    pub(super) fn heading(&mut self, app: &str, rest: &str) -> io::Result<()> {
        match self.format() {
            Format::Text => self.out.line(format_args!("{}{rest}", styled(BOLD, app))),
            Format::Json => Ok(()),
        }
    }

    /// Shows an important note.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        match self.format() {
            Format::Text => self.out.line(format_args!("{} {text}", styled(BOLD, "note:"))),
            Format::Json => Ok(()),
        }
    }

    /// Shows text that is not part of the conversation, to people only.
    pub(super) fn aside(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        match self.format() {
            Format::Text => self.out.line(styled(DIM, text)),
            Format::Json => Ok(()),
        }
    }

    /// Shows a command to copy, to people only.
    pub(super) fn command(&mut self, command: &str) -> io::Result<()> {
        self.end_line()?;
        match self.format() {
            Format::Text => self.out.text(command),
            Format::Json => Ok(()),
        }
    }

    /// Prints a line for programs only.
    pub(super) fn json(&mut self, value: &Value) -> io::Result<()> {
        match self.format() {
            Format::Text => Ok(()),
            Format::Json => self.out.json_line(value),
        }
    }

    /// Prints an empty line between two exchanges.
    pub(super) fn gap(&mut self) -> io::Result<()> {
        self.end_line()?;
        self.speaker = None;
        match self.format() {
            Format::Text => self.out.text(""),
            Format::Json => Ok(()),
        }
    }

    /// Shows state by scope.
    pub(super) fn state(&mut self, state: &serde_json::Map<String, Value>) -> io::Result<()> {
        let shown = state.iter().map(|(key, value)| {
            let value = if self.hides(key) { HIDDEN.into() } else { value.clone() };
            (key.clone(), value)
        });
        let shown = shown.collect();
        match self.format() {
            Format::Text => show::state(self.out, &shown),
            Format::Json => self.out.json_line(&json!({"type": "state", "state": shown})),
        }
    }

    /// Shows an earlier message, the user's as it was typed.
    pub(super) fn said_before(&mut self, event: &Event) -> io::Result<()> {
        let text = event.content.as_ref().map(Content::text).unwrap_or_default();
        if self.format() == Format::Json || text.is_empty() {
            return Ok(());
        }
        if event.author == USER {
            self.gap()?;
            return self.out.text(format_args!("{} {}", styled(DIM, PROMPT.trim()), visible_lines(&text)));
        }
        self.named(event)?;
        self.write(TextKind::Answer, &text)?;
        self.end_line()
    }

    /// Shows an event of a run: a part of a streamed answer, or a complete one.
    pub(super) fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.format() == Format::Json {
            let kind = if event.is_partial() { "piece" } else { "event" };
            return self.out.json_line(&json!({"type": kind, "event": self.without_secrets(event)}));
        }
        if event.is_partial() {
            // Agents in parallel branches would interleave their text, so only their complete answers are shown.
            return if event.branch.is_none() { self.piece(event) } else { Ok(()) };
        }
        self.whole(event)
    }

    /// Shows an error in an event.
    pub(super) fn failure(&mut self, event: &Event) -> io::Result<()> {
        self.end_line()?;
        let (code, message) = (event.error_code.as_deref(), event.error_message.as_deref());
        let message =
            message.filter(|message| !message.trim().is_empty()).unwrap_or("the model has ended its answer so");
        let text = format!("{}: {}", visible(code.unwrap_or_default()), visible(message));
        if self.format() == Format::Json { Ok(()) } else { self.out.line(styled(BAD, text)) }
    }

    /// Asks whether a call may be made. The call is shown in full, so that the user sees everything that is confirmed.
    pub(super) fn question(&mut self, call: &FunctionCall) -> io::Result<()> {
        self.end_line()?;
        let (original, hint) = calls::asked(call);
        if self.format() == Format::Json {
            return self.out.json_line(&json!({"type": "confirmation", "call": original, "hint": hint}));
        }
        if let Some(hint) = hint {
            self.margin(&visible(hint))?;
        }
        let what = original.as_ref().map_or_else(|| "this call".to_owned(), show::call_of);
        self.out.line(format_args!("{} {}?", styled(BOLD, "May it call"), what))
    }

    /// Ends the current line, unless it is empty.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        let rest = self.wrap.finish(self.out.width());
        let Some(kind) = self.begun.take() else { return Ok(()) };
        self.out.text(kind.styled(&rest))
    }

    fn piece(&mut self, event: &Event) -> io::Result<()> {
        for part in event.content.iter().flat_map(Content::parts) {
            let Some(text) = part.text.as_deref().filter(|text| !text.is_empty()) else { continue };
            self.named(event)?;
            let kind = TextKind::of(part);
            self.write(kind, text)?;
            self.shown(kind).push_str(text);
        }
        Ok(())
    }

    fn whole(&mut self, event: &Event) -> io::Result<()> {
        let parts = || event.content.iter().flat_map(Content::parts);
        for kind in [TextKind::Thought, TextKind::Answer] {
            let shown = std::mem::take(self.shown(kind));
            let of_kind = parts().filter(|part| TextKind::of(part) == kind);
            let text: String = of_kind.filter_map(|part| part.text.as_deref()).collect();
            // An answer that differs from its streamed parts is shown again.
            let Some(rest) = text.strip_prefix(shown.as_str()) else {
                self.end_line()?;
                self.write(kind, &text)?;
                continue;
            };
            if !rest.is_empty() {
                self.named(event)?;
                self.write(kind, rest)?;
            }
        }
        for part in parts() {
            if let Some(call) = part.function_call.as_ref().filter(|call| !is_confirmation(call)) {
                self.margin(&show::shortened(show::call_of(call)))?;
            }
            // A call that needs a confirmation is not shown here, because the question shows it.
            let asks = |id: &String| event.actions.requested_tool_confirmations.contains_key(id);
            let response = part.function_response.as_ref();
            if let Some(response) = response.filter(|response| !response.id.as_ref().is_some_and(asks)) {
                self.margin(&show::shortened(show::answer_of(response)))?;
            }
            if part.inline_data.is_some() || part.file_data.is_some() {
                self.margin(&show::data_of(part))?;
            }
        }
        self.actions(event)?;
        self.end_line()
    }

    fn actions(&mut self, event: &Event) -> io::Result<()> {
        for (name, version) in &event.actions.artifact_delta {
            self.margin(&format!("saved artifact {}, version {version}", visible(name)))?;
        }
        for (key, change) in event.actions.state_delta.iter() {
            let key_shown = visible(key);
            let line = match change {
                Change::Set(_) if self.hides(key) => format!("{key_shown} = {HIDDEN}"),
                Change::Set(value) => format!("{key_shown} = {}", show::brief(value)),
                _ => format!("{key_shown} removed"),
            };
            self.margin(&line)?;
        }
        if let Some(agent) = &event.actions.transfer_to_agent {
            self.margin(&format!("hands over to {}", visible(agent)))?;
        }
        Ok(())
    }

    fn named(&mut self, event: &Event) -> io::Result<()> {
        if self.names == AgentNames::One || self.speaker.as_ref() == Some(&event.author) {
            return Ok(());
        }
        self.end_line()?;
        self.speaker = Some(event.author.clone());
        self.out.line(styled(BOLD, visible(&event.author)))
    }

    /// Returns the shown part of the current answer.
    fn shown(&mut self, kind: TextKind) -> &mut String {
        match kind {
            TextKind::Thought => &mut self.thought,
            TextKind::Answer => &mut self.said,
        }
    }

    fn write(&mut self, kind: TextKind, text: &str) -> io::Result<()> {
        if self.begun.is_some_and(|begun| begun != kind) {
            self.end_line()?;
        }
        if text.is_empty() {
            return Ok(());
        }
        self.begun = (!text.ends_with('\n')).then_some(kind);
        let ready = self.wrap.push(&visible_lines(text), self.out.width());
        self.out.piece(kind.styled(&ready))
    }

    fn margin(&mut self, line: &str) -> io::Result<()> {
        self.end_line()?;
        self.out.line(styled(DIM, format_args!("    {line}")))
    }

    fn hides(&self, key: &str) -> bool {
        self.secret.contains(key) || CREDENTIALS.iter().any(|end| key.ends_with(end))
    }

    fn without_secrets(&self, event: &Event) -> Event {
        let mut shown = event.clone();
        let set = event.actions.state_delta.iter().filter(|(_, change)| change.value().is_some());
        for (key, _) in set.filter(|(key, _)| self.hides(key)) {
            // The key is valid, and so is this value.
            let _ = shown.actions.state_delta.set(key, HIDDEN);
        }
        shown
    }
}

impl TextKind {
    fn of(part: &Part) -> Self {
        if part.thought == Some(true) { Self::Thought } else { Self::Answer }
    }

    /// Returns a text in the style of its kind.
    fn styled(self, text: &str) -> String {
        match self {
            Self::Thought if !text.is_empty() => styled(DIM, text),
            _ => text.to_owned(),
        }
    }
}
