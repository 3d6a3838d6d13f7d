//! Finds the Python with google-adk.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The environment variable with the path of the user's own Python, which has the packages that the tests need.
pub const PYTHON_VARIABLE: &str = "SCRATCHBOOK_TEST_PYTHON";

/// Returns the path of the Python that [`PYTHON_VARIABLE`] names, or of the Python in the target folder.
///
/// # Errors
///
/// There is no such Python. The message says how to get it.
pub fn python() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(PYTHON_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python");
    let path = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::new(format!(
        "this test needs a Python with google-adk. Either make one with: cargo xtask test --step python, or set \
         {PYTHON_VARIABLE} to one that has what crates/scratchbook-cli/tests/google_adk/requirements.txt lists, or leave such \
         tests out: cargo test --locked -- --skip google_adk"
    )))
}
