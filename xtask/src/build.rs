//! Builds the tests with clippy in the place of the compiler, so that one build gives both the programs and the
//! warnings. `cargo clippy` would be a second build: Cargo cannot use its results for programs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::changed::ChangedStore;
use crate::command::{cargo, show};
use crate::step::Stop;
use crate::tiers::{self, PACKAGES_OF_GATE, Tier};
use crate::tools;
use crate::workspace::{items, text};

/// The packages to build and test.
#[derive(Clone, Debug)]
pub(crate) enum BuildScope {
    /// What a tier tests. `gate` builds the whole workspace.
    Tier(Tier),
    /// These packages with the tests of `cargo xtask test`. If a store is named, its package alone has changed.
    Changed(BTreeSet<String>, Option<ChangedStore>),
}

impl BuildScope {
    /// Returns whether the tests of a package are run.
    pub(crate) fn names(&self, package: &str) -> bool {
        match self {
            Self::Tier(Tier::Test) => !PACKAGES_OF_GATE.contains(&package),
            Self::Tier(Tier::Gate) => true,
            Self::Changed(names, _) => names.contains(package) && !PACKAGES_OF_GATE.contains(&package),
        }
    }

    /// Returns whether a test is run.
    pub(crate) fn selects(&self, package: &str, test: &str) -> bool {
        match self {
            Self::Tier(tier) => tiers::tier(package, test) == *tier,
            Self::Changed(_, None) => tiers::tier(package, test) == Tier::Test,
            // Also the tests of `gate`, because the store may be that of MariaDB.
            Self::Changed(_, Some(store)) => tiers::is_in(test, store.modules),
        }
    }

    /// Returns what is built, as arguments of Cargo. It is always from the workspace, so that dependencies have the same
    /// features each time.
    fn built(&self) -> Vec<&'static str> {
        let targets: &[&str] = match self {
            Self::Tier(Tier::Gate) => return vec!["--workspace", "--all-targets"],
            // The library's tests of stores. The store's own are built by themselves.
            Self::Changed(_, Some(_)) => &["--workspace", "--test", "it"],
            _ => &["--workspace", "--all-targets"],
        };
        let excluded = PACKAGES_OF_GATE.iter().flat_map(|package| ["--exclude", package]);
        targets.iter().copied().chain(excluded).collect()
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
}

/// Builds libraries, programs, tests, examples and benches of a scope, and prints every warning and error.
pub(crate) fn build(scope: &BuildScope) -> Result<Build, Stop> {
    let mut command = checked(&["test", "--all-features", "--no-run"]);
    let messages = messages(command.args(["--message-format", "json"]).args(scope.built()))?;
    let mut programs: Vec<_> = messages.iter().filter_map(test_program).collect();
    programs.retain(|program| scope.names(&program.package));
    programs.sort_by_cached_key(|program| {
        // Larger programs run longer. The largest one begins first, so that it does not run alone at the end.
        let bytes = fs::metadata(&program.path).map_or(0, |file| file.len());
        (!program.has_integration_tests, Reverse(bytes))
    });
    let warnings = count_warnings(&messages);
    Ok(Build { programs, warnings })
}

/// Runs a build, prints its messages, and returns the number of warnings.
pub(crate) fn warnings(command: &mut Command) -> Result<usize, Stop> {
    Ok(count_warnings(&messages(command.args(["--message-format", "json"]))?))
}

fn count_warnings(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["message"]["level"] == "warning").count()
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
    Some(TestProgram { name, package: package.to_owned(), path, folder, has_integration_tests })
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
    fn tiers_select_packages_and_tests() {
        let (test, gate) = (BuildScope::Tier(Tier::Test), BuildScope::Tier(Tier::Gate));
        assert!(!test.names("custom-store") && gate.names("custom-store"));
        assert!(test.selects("a", "sqlite::b") && !gate.selects("a", "sqlite::b"));
        assert!(!test.selects("a", "mariadb::b") && gate.selects("a", "mariadb::b"));
    }

    #[test]
    fn a_store_that_alone_has_changed_selects_its_own_tests() {
        let store = ChangedStore { package: "a", modules: &["lite"] };
        let changed = BuildScope::Changed(BTreeSet::from(["a".to_owned(), "b".to_owned()]), Some(store));
        assert!(changed.selects("b", "lite::c") && !changed.selects("b", "c"));
        assert!(changed.names("b") && !changed.names("c"));
    }
}
