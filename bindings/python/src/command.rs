//! The command `scratchbook`, which `python -m scratchbook` and the program of the package run.

use std::ffi::OsString;
use std::process;

use pyo3::prelude::*;

/// Runs the command and ends the process with its exit code. The first argument is the program's name.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) {
    let code = py.detach(|| scratchbook_cli::run(arguments));
    // The process ends here, without Python: threads of the command may still wait for a lock or an answer.
    process::exit(code.into())
}
