//! Standard output: text with colours that a pipe does not get, or JSON.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Stdout, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, ContentArrangement, Row, Table, presets};
use serde::Serialize;

/// Where a command prints.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    out: AutoStream<Stdout>,
}

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
pub(crate) const BAD: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let format = if json { Format::Json } else { Format::Text };
        Self { format, out: AutoStream::auto(io::stdout()) }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints a line of text, styled as its parts are.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Prints a value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        writeln!(self.out, "{}", escape_controls(&text))
    }

    /// Prints a table; as wide as the terminal, or in a pipe as its longest values.
    pub(crate) fn table(&mut self, header: &[&str], rows: impl IntoIterator<Item = Row>) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        // The stream takes the styles out again where they are not wanted.
        table.enforce_styling();
        table.set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Dim)));
        table.add_rows(rows);
        table.style_text_only();
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        for line in table.lines() {
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A text in a style.
pub(crate) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Somebody else's text on one line, without power over the terminal: control characters are escaped.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// A value as JSON on one line, as [`visible`].
pub(crate) fn compact(value: &impl Serialize) -> String {
    // Values of this program have text for keys, so that they can always be written.
    let text = serde_json::to_string(value).unwrap_or_default();
    escape_controls(&text).into_owned()
}

/// JSON in which also DEL and the C1 controls are escaped: the same values, and no power over a terminal.
fn escape_controls(json: &str) -> Cow<'_, str> {
    let is_bare = |c: char| ('\u{7f}'..='\u{9f}').contains(&c);
    if !json.contains(is_bare) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if is_bare(c) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", c as u32);
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}
