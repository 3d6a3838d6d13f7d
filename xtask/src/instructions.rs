//! The step `instructions`: compares the instructions of calls with the accepted counts.

use crate::build::checked;
use crate::command::{in_lab, run};
use crate::packages;
use crate::step::Stop;
use crate::tools;

/// Fails if a call costs more than was accepted.
pub(crate) fn check() -> Result<(), Stop> {
    count("check")
}

/// Accepts the current counts.
pub(crate) fn accept() -> Result<(), Stop> {
    count("accept")
}

/// Runs the bench in the profile of the tests, whose dependencies are built already.
fn count(what: &str) -> Result<(), Stop> {
    packages::ensure(|| if tools::is_there("valgrind", &["--version"]) { vec![] } else { vec!["valgrind"] })?;
    let bench = ["test", "--workspace", "--all-features", "--bench", "instructions", "--", what];
    run(in_lab(&mut checked(&bench)))
}
