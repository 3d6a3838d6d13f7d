//! Runs Python with google-adk, which writes databases and reports their contents.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Returns the Python that `SCRATCHBOOK_TEST_PYTHON` names, or the one in the target folder.
pub(crate) fn python() -> PathBuf {
    scratchbook_test_servers::python().unwrap_or_else(|why| panic!("{why}"))
}

/// Runs `tests/google_adk/fill.py`, which documents its arguments, and returns its output.
pub(crate) fn fill(arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/google_adk/fill.py");
    let output = Command::new(python()).arg(script).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Creates a folder for databases with thousands of commits, in memory if possible.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
