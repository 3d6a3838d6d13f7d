//! Builds the documentation of a library just before its examples are tested.
//!
//! `cargo doc` first checks every dependency again, which takes longer than the documentation itself. For `cargo test
//! --doc` the dependencies are built already. So Cargo starts this program instead of rustdoc: the program writes the
//! documentation, which must have no warning, and then runs the tests.

use std::env::{self, consts::EXE_SUFFIX};
use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use crate::command::root;
use crate::steps::built;

/// The environment variable with the path of rustdoc. If it is set, Cargo has started this program instead of rustdoc.
const REAL: &str = "SCRATCHBOOK_REAL_RUSTDOC";

/// Options that rustdoc accepts only with `--test`. Each is followed by its value.
const OF_TESTS: [&str; 2] = ["--test-args", "--test-run-directory"];

/// Lets a call of Cargo that tests the examples also build the documentation, into `target/doc`.
pub(crate) fn with_documentation(command: &mut Command) {
    // The build of the tests has replaced the file from which this process was started.
    let own = built(&[]).join(format!("xtask{EXE_SUFFIX}"));
    let real = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    command.env(REAL, real).env("RUSTDOC", own);
}

/// Does the work of rustdoc, if Cargo has started this program for it.
pub(crate) fn instead() -> Option<ExitCode> {
    let rustdoc = env::var_os(REAL)?;
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let is_documented = !is_test || succeeds(Command::new(&rustdoc).args(documenting(&arguments)));
    let is_tested = is_documented && succeeds(Command::new(&rustdoc).args(&arguments));
    Some(if is_tested { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the arguments that build the documentation, given those that run the tests.
fn documenting(arguments: &[OsString]) -> Vec<OsString> {
    let is_value = |at: usize| at.checked_sub(1).is_some_and(|before| is_of_tests(&arguments[before]));
    let kept = arguments.iter().enumerate();
    let kept = kept.filter(|(at, argument)| *argument != "--test" && !is_of_tests(argument) && !is_value(*at));
    let mut documenting: Vec<OsString> = kept.map(|(_, argument)| argument.clone()).collect();
    documenting.extend(["-D", "warnings", "--out-dir"].map(OsString::from));
    documenting.push(root().join("target/doc").into());
    documenting
}

fn is_of_tests(argument: &OsStr) -> bool {
    OF_TESTS.iter().any(|option| argument == *option)
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", command.get_program().to_string_lossy());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tests_are_left_out() {
        let tests =
            ["--test", "src/lib.rs", "--test-run-directory", "/a", "--test-args", "word", "-L", "dependency=/b"];
        let documenting = documenting(&tests.map(OsString::from));
        assert_eq!(documenting[..5], ["src/lib.rs", "-L", "dependency=/b", "-D", "warnings"].map(OsString::from));
    }

    #[test]
    fn documentation_with_a_warning_fails() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("lib.rs");
        let document = |text: &str| {
            std::fs::write(&source, text).unwrap();
            let tests = ["--test".into(), "--crate-name=a".into(), source.clone().into_os_string()];
            let mut arguments = documenting(&tests);
            *arguments.last_mut().unwrap() = folder.path().join("doc").into();
            succeeds(Command::new("rustdoc").args(arguments))
        };
        assert!(document("//! Good."));
        assert!(!document("//! [`nothing`] is here."));
    }
}
