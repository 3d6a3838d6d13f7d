//! What is to be set, as it is written on the command line: KEY=VALUE, and a JSON object.

use std::io::{self, Read};

use scratchbook::{Error, ErrorKind, StateDelta, json};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::args::{AppendArgs, Assignments, IncrementArgs, MergeArgs, Writing};

/// Reads assignments and `--delta` into one delta. A key that is given twice is a contradiction.
pub(crate) fn read(args: &Assignments) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    if let Some(text) = &args.delta {
        let text = if text == "-" { &standard_input()? } else { text };
        let values: Map<String, Value> = json::from_str(text).map_err(|e| e.context("--delta"))?;
        delta.merge(StateDelta::try_from(values)?)?;
    }
    for assignment in &args.assignments {
        let (key, value) = halves(assignment)?;
        if delta.contains(key) {
            return Err(invalid(format!("the key '{key}' is given twice; give each key one value")));
        }
        let value = if args.string { Value::String(value.to_owned()) } else { json_value(key, value)? };
        delta.set(key, value)?;
    }
    Ok(delta)
}

/// What is to be added to numbers, by 1 where nothing else is said.
pub(crate) fn increments(args: &IncrementArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for text in &args.keys {
        let (key, by) = text.split_once('=').unwrap_or((text, "1"));
        delta.increment(key, json_value(key, by)?)?;
    }
    Ok(delta)
}

/// What is to be appended to lists.
pub(crate) fn appends(args: &AppendArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for item in &args.items {
        let (key, item) = halves(item)?;
        delta.append(key, if args.string { Value::String(item.to_owned()) } else { json_value(key, item)? })?;
    }
    Ok(delta)
}

/// What is to be merged into maps.
pub(crate) fn merges(args: &MergeArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for patch in &args.patches {
        let (key, patch) = halves(patch)?;
        delta.merge_patch(key, json_value(key, patch)?)?;
    }
    Ok(delta)
}

/// A delta behind the guards that are asked for.
pub(crate) fn guarded(delta: StateDelta, writing: &Writing) -> Result<StateDelta, Error> {
    let mut guards = StateDelta::new();
    for expected in &writing.expect {
        let (key, value) = halves(expected)?;
        guards.expect(key, json_value(key, value)?)?;
    }
    writing.expect_absent.iter().try_for_each(|key| guards.expect_absent(key))?;
    guards.merge(delta)?;
    Ok(guards)
}

/// A key and what is written behind the first '='.
fn halves(assignment: &str) -> Result<(&str, &str), Error> {
    assignment.split_once('=').ok_or_else(|| invalid(format!("'{assignment}' sets nothing; write KEY=VALUE")))
}

fn standard_input() -> Result<String, Error> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|e| {
        Error::new(ErrorKind::InvalidArgument, "--delta -: standard input cannot be read as text").with_source(e)
    })?;
    Ok(text)
}

/// JSON, or else a plain string. What looks like JSON's lists, objects and strings has to be JSON: a slip in
/// one would otherwise become a string without a word.
fn json_value(key: &str, text: &str) -> Result<Value, Error> {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json || text.trim_start().starts_with(['{', '[', '"']) {
        return json::from_str(text).map_err(|e| {
            Error::new(e.kind(), format!("the value of '{key}': {e}; --string takes it as a plain string"))
        });
    }
    Ok(Value::String(text.to_owned()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
