//! Parses assignments on the command line into a delta: KEY=VALUE, or a JSON object.

use std::io::{self, Read};

use scratchbook::{Error, StateDelta, json};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::args::{AppendArgs, Assignments, IncrementArgs, MergeArgs, WriteOptions};

/// Reads assignments and `--delta` into one delta. A key can be given only once.
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
            return Err(Error::invalid(format!("the key '{key}' is given twice; give each key one value")));
        }
        let value = if args.string { Value::String(value.to_owned()) } else { json_value(key, value)? };
        delta.set(key, value)?;
    }
    Ok(delta)
}

/// Reads increments, of 1 by default.
pub(crate) fn increments(args: &IncrementArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for text in &args.keys {
        let (key, by) = text.split_once('=').unwrap_or((text, "1"));
        delta.increment(key, json_value(key, by)?)?;
    }
    Ok(delta)
}

/// Reads the items to append to lists.
pub(crate) fn appends(args: &AppendArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for item in &args.items {
        let (key, item) = halves(item)?;
        delta.append(key, if args.string { Value::String(item.to_owned()) } else { json_value(key, item)? })?;
    }
    Ok(delta)
}

/// Reads the patches to merge into objects.
pub(crate) fn merges(args: &MergeArgs) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for patch in &args.patches {
        let (key, patch) = halves(patch)?;
        delta.merge_patch(key, json_value(key, patch)?)?;
    }
    Ok(delta)
}

/// Puts the guards of `--expect` and `--expect-absent` before a delta.
pub(crate) fn guarded(delta: StateDelta, writing: &WriteOptions) -> Result<StateDelta, Error> {
    let mut guards = StateDelta::new();
    for expected in &writing.expect {
        let (key, value) = halves(expected)?;
        guards.expect(key, json_value(key, value)?)?;
    }
    writing.expect_absent.iter().try_for_each(|key| guards.expect_absent(key))?;
    guards.merge(delta)?;
    Ok(guards)
}

/// Splits an assignment at the first '='.
fn halves(assignment: &str) -> Result<(&str, &str), Error> {
    assignment.split_once('=').ok_or_else(|| Error::invalid(format!("'{assignment}' sets nothing; write KEY=VALUE")))
}

fn standard_input() -> Result<String, Error> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| Error::invalid("--delta -: standard input cannot be read as text").with_source(e))?;
    Ok(text)
}

/// Reads JSON, or else a plain string. A text that begins like a list, an object or a string must be valid JSON, so
/// that a typo does not turn it into a string.
fn json_value(key: &str, text: &str) -> Result<Value, Error> {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json || text.trim_start().starts_with(['{', '[', '"']) {
        return json::from_str(text).map_err(|e| {
            Error::new(e.kind(), format!("the value of '{key}': {e}; --string takes it as a plain string"))
        });
    }
    Ok(Value::String(text.to_owned()))
}
