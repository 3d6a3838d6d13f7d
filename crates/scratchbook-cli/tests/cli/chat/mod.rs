//! `scratchbook chat` as people and scripts use it.

mod commands;
mod models;
#[cfg(target_os = "linux")]
mod picture;
mod questions;
mod sessions;
#[cfg(target_os = "linux")]
mod terminal;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::Fixture;

/// The output of a conversation.
pub(crate) struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

/// Runs a conversation with these lines as input.
pub(crate) fn chat(fixture: &Fixture, args: &[&str], lines: &[&str]) -> Said {
    talk(fixture.command(&[&["chat"], args].concat()), lines)
}

fn talk(mut command: Command, lines: &[&str]) -> Said {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    drop(stdin);
    let Output { stdout, stderr, status } = process.wait_with_output().unwrap();
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Said { out, err, code: status.code() }
}

/// Runs a conversation with --json, and returns its lines.
pub(crate) fn chat_as_json(fixture: &Fixture, args: &[&str], lines: &[&str]) -> Vec<Value> {
    let said = talk(fixture.command(&[&["--json", "chat"], args].concat()), lines);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Said {
    /// Returns the output of a successful conversation.
    pub(crate) fn well(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        assert!(!self.out.contains('\u{1b}'), "a pipe gets no colours: {}", self.out);
        self.out
    }
}

/// Asserts that a text contains these parts in this order.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some(at) = rest.find(part) else { panic!("{part:?} is missing, or too early, in\n{text}") };
        rest = &rest[at + part.len()..];
    }
}
