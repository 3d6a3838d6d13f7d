//! Checks for arguments that the API does not support.

use serde_json::Value;

use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::session::{AppendOptions, ConflictMode, CreateSessionConfig, SharedKeys};

/// The largest integer up to which a float represents all integers exactly.
const MOST: u64 = 1 << 53;

/// Returns the error for an unsupported argument, with the alternative.
pub(super) fn unsupported(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("sessions of Vertex AI have {what}; {instead}"))
}

pub(super) const IN_SESSION: &str = "read and write user: and app: keys in a session";
pub(super) const OTHER_STORE: &str = "use a store of this crate, such as PostgreSQL";

/// Refuses options of a creation that the API does not support.
pub(super) fn check_create(config: &CreateSessionConfig) -> Result<()> {
    if !config.events.is_empty() {
        return Err(unsupported("no events at their creation", "append them afterwards"));
    }
    if config.create_time.is_some() {
        return Err(unsupported("the time of their creation from the server", "leave create_time out"));
    }
    if config.shared_keys != SharedKeys::Written {
        return Err(unsupported("no way to leave user: and app: keys as they are", "leave the keys out of the state"));
    }
    match config.check {
        Some(_) => Err(no_check()),
        None => Ok(()),
    }
}

/// Refuses options of an append that the API does not support.
pub(super) fn check_append(options: &AppendOptions) -> Result<()> {
    if options.conflict != ConflictMode::Merge {
        return Err(unsupported("no appends that are refused for being late", OTHER_STORE));
    }
    if options.update.as_ref().is_some_and(|update| !update.is_empty()) {
        return Err(unsupported("no update in the commit of an event", "call update_session after the append"));
    }
    match options.check {
        Some(_) => Err(no_check()),
        None => Ok(()),
    }
}

fn no_check() -> Error {
    unsupported("no checks in a commit", "check the values before they are written")
}

/// Refuses an integer that would be read back as another one: the API stores numbers as floats.
pub(super) fn check_numbers(value: &Value) -> Result<()> {
    match value {
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            match size {
                Some(size) if size > MOST => Err(unsupported(
                    "floats for numbers, and an integer beyond 9,007,199,254,740,992 would come back as another",
                    "write it as a string",
                )),
                _ => Ok(()),
            }
        }
        Value::Array(values) => values.iter().try_for_each(check_numbers),
        Value::Object(values) => {
            values.iter().try_for_each(|(key, value)| check_numbers(value).map_err(|e| e.context(format!("'{key}'"))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_that_a_float_does_not_hold_are_refused() {
        for fine in
            [json!(9_007_199_254_740_992_u64), json!(-9_007_199_254_740_992_i64), json!(1e300), json!({"a": [1]})]
        {
            assert!(check_numbers(&fine).is_ok(), "{fine}");
        }
        for bad in [json!(9_007_199_254_740_993_u64), json!(i64::MIN), json!({"a": {"n": [u64::MAX]}})] {
            let error = check_numbers(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        let error = check_numbers(&json!({"a": {"n": u64::MAX}})).unwrap_err().to_string();
        assert!(error.starts_with("'a': 'n': ") && !error.contains("18446744073709551615"), "{error}");
    }
}
