//! Builds the tests with clippy in the place of the compiler, so that one build gives both the programs and the
//! warnings. `cargo clippy` would be a second build: Cargo cannot use its results for programs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::changed::StorePackage;
use crate::command::{cargo, show};
use crate::step::Stop;
use crate::tools;
use crate::workspace::{items, text};

/// The packages to build and test.
#[derive(Clone, Debug)]
pub(crate) enum BuildScope {
    /// The whole workspace.
    All,
    /// These packages; only these packages are built.
    Part(Vec<String>),
    /// These packages, from a build of the whole workspace, so that nothing is built again for them. If a store is
    /// named, the packages that depend on it run only the tests on this store.
    Changed(BTreeSet<String>, Option<StorePackage>),
}

impl BuildScope {
    /// Returns whether the scope contains no package.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::All => false,
            Self::Part(names) => names.is_empty(),
            Self::Changed(names, _) => names.is_empty(),
        }
    }

    /// Returns whether a package's tests are run.
    pub(crate) fn names(&self, package: &str) -> bool {
        match self {
            Self::All => true,
            Self::Part(names) => names.iter().any(|name| name == package),
            Self::Changed(names, _) => names.contains(package),
        }
    }

    /// Returns the word that selects tests of a package by their names; `None` if all are run.
    pub(crate) fn word(&self, package: &str) -> Option<&'static str> {
        match self {
            Self::Changed(_, Some(store)) if store.package != package => Some(store.word),
            Self::All | Self::Part(_) | Self::Changed(..) => None,
        }
    }

    /// Returns the packages that are built, as arguments of Cargo.
    fn built(&self) -> Vec<String> {
        match self {
            Self::All | Self::Changed(..) => vec!["--workspace".to_owned()],
            Self::Part(names) => names.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect(),
        }
    }
}

/// The result of the build of a scope.
#[derive(Debug)]
pub(crate) struct Build {
    /// The programs with tests, those that run longest first.
    pub(crate) programs: Vec<TestProgram>,
    /// The number of warnings of the compiler and of clippy.
    pub(crate) warnings: usize,
}

/// A program with tests in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestProgram {
    /// The names of the package and the target, for messages and the log's file name.
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) path: PathBuf,
    /// The folder of the program's package, in which Cargo would run it.
    pub(crate) folder: PathBuf,
    pub(crate) has_integration_tests: bool,
    /// A word that selects the tests that are run.
    pub(crate) word: Option<&'static str>,
}

/// Builds libraries, programs, tests, examples and benches of a scope, and prints every warning and error.
pub(crate) fn build(scope: &BuildScope) -> Result<Build, Stop> {
    let mut command = checked(&["test", "--all-features", "--all-targets", "--no-run"]);
    let messages = messages(command.args(["--message-format", "json"]).args(scope.built()))?;
    let mut programs: Vec<_> = messages.iter().filter_map(test_program).collect();
    programs.retain(|program| scope.names(&program.package));
    programs.iter_mut().for_each(|program| program.word = scope.word(&program.package));
    programs.sort_by_cached_key(|program| {
        // Larger programs run longer. The largest one begins first, so that it does not run alone at the end.
        let bytes = fs::metadata(&program.path).map_or(0, |file| file.len());
        (!program.has_integration_tests, Reverse(bytes))
    });
    let warnings = messages.iter().filter(|message| message["message"]["level"] == "warning").count();
    Ok(Build { programs, warnings })
}

/// Returns a call of Cargo that builds our packages with clippy in the place of the compiler. Every call for the same
/// target folder has to be made in this way. Otherwise Cargo builds our packages again.
pub(crate) fn checked<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = cargo(arguments);
    if let Some(driver) = driver() {
        command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    }
    command
}

/// Returns the path of clippy's compiler, which is beside Cargo in the toolchain. Returns `None` if it is not
/// installed. In this case the compiler builds, and the step `clippy` reports that it was left out.
fn driver() -> Option<PathBuf> {
    let name = format!("clippy-driver{}", env::consts::EXE_SUFFIX);
    let beside = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name(&name));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join(&name)));
    found.into_iter().find(|path| path.is_file() && tools::is_there(&path.to_string_lossy(), &["--version"]))
}

/// Runs a build, prints the compiler's messages, and returns all messages.
fn messages(command: &mut Command) -> Result<Vec<Value>, Stop> {
    let shown = show(command);
    println!("$ {shown}");
    let failed = |why: String| Stop::Failed(format!("`{shown}` {why}"));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| failed(format!("did not start: {error}")))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for message in &messages {
        print!("{}", text(&message["message"]["rendered"]));
    }
    if output.status.success() { Ok(messages) } else { Err(failed(format!("ended with {}", output.status))) }
}

fn test_program(message: &Value) -> Option<TestProgram> {
    let is_kind = |name: &str| items(&message["target"]["kind"]).any(|kind| kind == name);
    if message["profile"]["test"] != true || is_kind("bench") {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(text(&message["manifest_path"]));
    // The id is `path+file:///folder#name@version`, without the name if the folder has the same.
    let id = text(&message["package_id"]);
    let (before, after) = id.rsplit_once('#').unwrap_or(("", &id));
    let package = after.split_once('@').map_or_else(|| before.rsplit('/').next().unwrap_or(before), |(name, _)| name);
    let target = text(&message["target"]["name"]);
    let has_integration_tests = is_kind("test");
    let name = if target.replace('-', "_") == package.replace('-', "_") && !has_integration_tests {
        package.to_owned()
    } else {
        format!("{package} {target}")
    };
    let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
    Some(TestProgram { name, package: package.to_owned(), path, folder, has_integration_tests, word: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |id: &str, name: &str, kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/a/crates/b/Cargo.toml",
                "target": {"name": name, "kind": [kind]}, "profile": {"test": test}, "executable": "/t/it-1",
            })
        };
        let messages = [
            message("path+file:///a/crates/b-c#0.1.0", "b_c", "lib", true),
            message("path+file:///a/servers#b-servers@0.1.0", "it", "test", true),
            message("path+file:///a/crates/b-c#0.1.0", "quickstart", "example", false),
            message("path+file:///a/crates/b-c#0.1.0", "ratios", "bench", true),
            serde_json::json!({"reason": "build-finished", "success": true}),
        ];
        let programs: Vec<_> = messages.iter().filter_map(test_program).collect();
        let names: Vec<_> = programs.iter().map(|test| (test.name.as_str(), test.package.as_str())).collect();
        assert_eq!(names, [("b-c", "b-c"), ("b-servers it", "b-servers")]);
        assert_eq!(programs[1].folder, Path::new("/a/crates/b"));
        assert!(programs[1].has_integration_tests);
    }

    #[test]
    fn the_compiler_is_clippy_with_the_warnings_of_the_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.rs");
        fs::write(&source, "pub fn a() -> i32 { return 1; }").unwrap();
        let driver = driver().expect("clippy is part of the toolchain of the tests");
        let mut command = Command::new(driver);
        command.args(["rustc", "--crate-type", "lib", "--emit", "metadata"]).arg("--out-dir").arg(folder.path());
        let output = command.arg(&source).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("needless_return"), "{said}");
    }

    #[test]
    fn a_change_is_built_with_the_whole_workspace() {
        let changed = BuildScope::Changed(BTreeSet::from(["a".to_owned()]), None);
        assert_eq!(changed.built(), ["--workspace"]);
        assert!(changed.names("a") && !changed.names("b") && !changed.is_empty());
        assert_eq!(BuildScope::Part(vec!["a".to_owned()]).built(), ["--package", "a"]);
    }

    #[test]
    fn a_word_selects_the_tests_of_the_packages_that_depend_on_a_store() {
        let store = StorePackage { package: "a", word: "lite" };
        let changed = BuildScope::Changed(BTreeSet::from(["a".to_owned(), "b".to_owned()]), Some(store));
        assert_eq!((changed.word("a"), changed.word("b")), (None, Some("lite")));
    }
}
