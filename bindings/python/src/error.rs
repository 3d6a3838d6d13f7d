//! Converts errors to exceptions. The Python part of the package chooses the class for each kind of error.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use scratchbook::Error;
use scratchbook::error::{ConflictCause, KeyConflict};
use serde_json::{Value, json};

use crate::shape::writer;

/// The exception for an error, with its kind, its message and the conflicting keys.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    exception_of(py, error.kind().as_str(), error)
}

/// The exception for a missing session: the one not-found error with a class of its own.
pub(crate) fn no_session(py: Python<'_>, error: &Error) -> PyErr {
    exception_of(py, "session_not_found", error)
}

fn exception_of(py: Python<'_>, class: &str, error: &Error) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let conflicts: Vec<Value> = error.conflicts().iter().map(conflict).collect();
        let conflicts = if conflicts.is_empty() { None } else { Some(Value::from(conflicts).to_string()) };
        let arguments = (class, message(error), conflicts, error.is_retryable());
        MAKE.import(py, "scratchbook._errors", "make")?.call1(arguments)
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// The message with its causes, which `Display` leaves out.
fn message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn conflict(conflict: &KeyConflict) -> Value {
    let cause = if conflict.cause == ConflictCause::Guard { "guard" } else { "changed" };
    let mut shown = json!({"key": conflict.key, "cause": cause});
    let values = [("read", &conflict.read), ("found", &conflict.found)];
    for (name, value) in values {
        if let Some(value) = value {
            shown[name] = value.clone();
        }
    }
    if let Some(by) = &conflict.writer {
        shown["writer"] = writer(by);
    }
    shown
}
