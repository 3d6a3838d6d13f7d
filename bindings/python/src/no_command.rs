//! A package that was built without the command.

use std::ffi::OsString;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Says that the command is missing.
#[pyfunction]
pub(crate) fn run_command(arguments: Vec<OsString>) -> PyResult<()> {
    drop(arguments);
    Err(PyRuntimeError::new_err("this package was built without the command; build it with its default features"))
}
