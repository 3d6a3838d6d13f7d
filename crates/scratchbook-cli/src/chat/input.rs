//! The input of a conversation, line by line.

use std::io::{self, BufRead, IsTerminal};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use scratchbook::{Error, ErrorKind};

use super::command::COMMANDS;
use crate::failure::CommandFailure;
use crate::output::Format;

/// How many lines the line editor remembers.
const HISTORY: usize = 500;

/// The source of the lines.
#[derive(Debug)]
pub(super) enum Input {
    /// A terminal with a line editor. The editor is `None` while another thread reads a line with it.
    Terminal(Option<Box<Editor<CommandHelper, MemHistory>>>),
    /// Anything else.
    Pipe,
}

/// Completes commands with Tab.
#[derive(Debug)]
pub(super) struct CommandHelper;

impl Completer for CommandHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(line.get(..at).unwrap_or_default())))
    }
}

impl Hinter for CommandHelper {
    type Hint = String;
}

impl Highlighter for CommandHelper {}

impl Validator for CommandHelper {}

impl Helper for CommandHelper {}

/// Returns the commands that begin with a text, unless it is a message.
fn completions(text: &str) -> Vec<String> {
    let commands = COMMANDS.iter().filter(|command| text.starts_with('/') && command.starts_with(text));
    commands.map(|command| (*command).to_owned()).collect()
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a pipe.
    End,
}

impl Input {
    /// Opens a line editor if the input and the output are terminals and the output is text.
    pub(super) fn open(format: Format) -> Result<Self, CommandFailure> {
        if format == Format::Json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::Pipe);
        }
        let config = Config::builder().max_history_size(HISTORY).map_err(unusable)?.auto_add_history(true).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(unusable)?;
        editor.set_helper(Some(CommandHelper));
        Ok(Self::Terminal(Some(Box::new(editor))))
    }

    /// Returns whether a person types the lines.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Adds earlier lines to the line editor's history, the oldest first.
    pub(super) fn recall<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        if let Self::Terminal(Some(editor)) = self {
            for line in lines {
                // A line that is not added does no harm.
                let _ = editor.add_history_entry(line);
            }
        }
    }

    /// Discards text that was typed but not read yet.
    pub(super) fn discard_typed_ahead(&self) {
        #[cfg(unix)]
        if self.is_terminal() {
            // If this fails, the text is read as the answer.
            let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        }
    }

    /// Reads the next line, after a prompt on a terminal.
    pub(super) async fn next(&mut self, prompt: &'static str) -> Result<InputLine, CommandFailure> {
        match self {
            Self::Terminal(editor) => {
                let Some(mut taken) = editor.take() else { return Ok(InputLine::End) };
                let typing = tokio::task::spawn_blocking(move || (taken.readline(prompt), taken));
                let (line, given_back) = typing.await.map_err(|_| Error::internal("the line editor panicked"))?;
                *editor = Some(given_back);
                match line {
                    Ok(line) => Ok(InputLine::Text(line)),
                    Err(ReadlineError::Interrupted) => Ok(InputLine::Interrupted),
                    Err(ReadlineError::Eof) => Ok(InputLine::End),
                    Err(error) => Err(unusable(error).into()),
                }
            }
            Self::Pipe => {
                let reading = tokio::task::spawn_blocking(read_line);
                tokio::select! {
                    biased;
                    Ok(()) = tokio::signal::ctrl_c() => Ok(InputLine::Interrupted),
                    line = reading => {
                        let line = line.map_err(|_| Error::internal("reading a line panicked"))?;
                        Ok(line?.map_or(InputLine::End, InputLine::Text))
                    }
                }
            }
        }
    }
}

/// Reads a line of standard input without its line break; `None` at the end.
fn read_line() -> Result<Option<String>, Error> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(|e| {
        let (kind, what) = match e.kind() {
            io::ErrorKind::InvalidData => (ErrorKind::InvalidArgument, "is not UTF-8"),
            _ => (ErrorKind::Unavailable, "cannot be read"),
        };
        Error::new(kind, format!("standard input {what}")).with_source(e)
    })?;
    if line.ends_with('\n') {
        line.pop();
        if line.ends_with('\r') {
            line.pop();
        }
    }
    Ok((read > 0).then_some(line))
}

fn unusable(error: ReadlineError) -> Error {
    Error::new(ErrorKind::Unavailable, "the terminal cannot be used").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::completions;

    #[test]
    fn commands_are_completed_and_messages_are_not() {
        assert_eq!(completions("/h"), ["/help", "/history"]);
        assert_eq!(completions("/st"), ["/state "]);
        assert_eq!(completions("/").len(), 7);
        for text in ["", "h", "//", "/state u", "/none"] {
            assert!(completions(text).is_empty(), "{text}");
        }
    }
}
