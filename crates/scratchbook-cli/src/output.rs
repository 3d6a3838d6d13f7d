//! Standard output: text, with colours on a terminal, or JSON.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Stdout, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;
use terminal_size::{Width, terminal_size_of};

use crate::wrap::wrap;

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    out: AutoStream<Stdout>,
    /// The width of the terminal; `None` in a pipe.
    width: Option<u16>,
}

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
pub(crate) const BAD: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let format = if json { Format::Json } else { Format::Text };
        let stdout = io::stdout();
        let width = stdout.is_terminal().then(|| terminal_size_of(&stdout)).flatten().map(|(Width(width), _)| width);
        Self { format, out: AutoStream::auto(stdout), width: width.filter(|width| *width > 0) }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints a line of text. On a terminal it is wrapped between words.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> io::Result<()> {
        let Some(width) = self.width else { return writeln!(self.out, "{line}") };
        for line in line.to_string().split('\n') {
            writeln!(self.out, "{}", wrap(line, width.into()))?;
        }
        Ok(())
    }

    /// Prints text without wrapping it, because a command to copy must stay on one line.
    pub(crate) fn text(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Prints a part of a line and flushes it.
    pub(crate) fn piece(&mut self, text: impl fmt::Display) -> io::Result<()> {
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Prints a value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        writeln!(self.out, "{}", escape_controls(&text))
    }

    /// Prints a value as JSON on one line and flushes it.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        writeln!(self.out, "{}", compact(value))?;
        self.out.flush()
    }

    /// Prints a value for a script: a string as it is, any other value as JSON on one line.
    pub(crate) fn raw(&mut self, value: &Value) -> io::Result<()> {
        match value {
            Value::String(text) if io::stdout().is_terminal() => writeln!(io::stdout(), "{}", visible(text)),
            // This bypasses the stream, which would remove text that looks like a style.
            Value::String(text) => writeln!(io::stdout(), "{text}"),
            value => writeln!(io::stdout(), "{}", compact(value)),
        }
    }

    /// Returns the width of the terminal; `None` in a pipe.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width.map(usize::from)
    }
}

/// Applies a style to a text.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns a number with its noun, as in `2 events`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Makes a text safe for one line of a terminal: control and format characters are escaped.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Makes a text safe for a terminal, as [`visible`], but keeps line breaks and tabs.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    let is_layout = |c: char| c == '\n' || c == '\t';
    if !text.chars().any(|c| is_unsafe(c) && !is_layout(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.replace("\r\n", "\n").chars() {
        if is_unsafe(c) && !is_layout(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Returns a value as JSON on one line, escaped like [`visible`].
pub(crate) fn compact(value: &impl Serialize) -> String {
    // All maps in this program have text keys, so serializing cannot fail.
    let text = serde_json::to_string(value).unwrap_or_default();
    escape_controls(&text).into_owned()
}

/// Returns whether a character can move, reorder, break or hide the text around it: controls, line separators and
/// Unicode's format controls, except for the joiners that scripts and emoji need (U+200C and U+200D).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Escapes the characters in JSON that [`visible`] escapes. The values stay the same.
fn escape_controls(json: &str) -> Cow<'_, str> {
    // The line breaks of pretty JSON stay; in strings they are escaped already.
    let is_bare = |c: char| c != '\n' && is_unsafe(c);
    if !json.contains(is_bare) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if is_bare(c) {
            // Writing to a string cannot fail.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}
