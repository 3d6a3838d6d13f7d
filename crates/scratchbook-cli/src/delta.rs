//! What is to be set, as it is written on the command line: KEY=VALUE, and a JSON object.

use std::io::{self, Read};

use scratchbook::{Error, ErrorKind, StateDelta, json};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::args::Assignments;

/// Reads assignments and `--delta` into one delta. A key that is given twice is a contradiction.
pub(crate) fn read(args: &Assignments) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    if let Some(text) = &args.delta {
        let text = if text == "-" { &standard_input()? } else { text };
        let values: Map<String, Value> = json::from_str(text).map_err(|e| e.context("--delta"))?;
        delta.merge(StateDelta::try_from(values)?);
    }
    for assignment in &args.assignments {
        let Some((key, value)) = assignment.split_once('=') else {
            return Err(invalid(format!("'{assignment}' sets nothing; write KEY=VALUE")));
        };
        if delta.contains(key) {
            return Err(invalid(format!("the key '{key}' is given twice; give each key one value")));
        }
        let value = if args.string { Value::String(value.to_owned()) } else { json_value(key, value)? };
        delta.set(key, value)?;
    }
    Ok(delta)
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
