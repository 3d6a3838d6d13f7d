//! Builds the tests once and runs them side by side, because they mostly wait for servers, locks and clocks.
//!
//! `cargo test` runs one test program after the other, which leaves two cores idle for half of the time. Timed tests,
//! which expect an answer within about a second, could fail by chance beside others. So they run at the end, one at a
//! time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::command::{cargo, output, program, root};
use crate::step::Stop;
use crate::workspace::{Package, items, packages, text};

/// Words in the names of timed tests, which fail if something takes seconds longer than on an idle machine.
const TIMED: [&str; 9] = [
    "attacks::",
    "availability::",
    "leaving::",
    "mariadb::feed::",
    "postgres::feed::",
    "saturated_processes",
    "shutdown::",
    "timing::",
    "waiting::",
];

/// The least number of test programs that run at once. On machines with more cores, one program runs for each core.
const FEWEST_AT_ONCE: usize = 3;

/// The tests to run.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// The tests of the whole workspace.
    All,
    /// The tests of these packages; only these packages are built.
    Part(Vec<String>),
    /// The tests of these packages, with the build of the whole workspace, so that nothing is built again for them.
    Changed(BTreeSet<String>),
}

impl Scope {
    /// Returns the packages that are built, as arguments of Cargo.
    pub(crate) fn built(&self) -> Vec<String> {
        match self {
            Self::All | Self::Changed(_) => vec!["--workspace".to_owned()],
            Self::Part(names) => names.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect(),
        }
    }

    /// Returns whether the scope contains no package.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::All => false,
            Self::Part(names) => names.is_empty(),
            Self::Changed(names) => names.is_empty(),
        }
    }

    /// Returns whether a package's tests are run.
    fn names(&self, package: &str) -> bool {
        match self {
            Self::All => true,
            Self::Part(names) => names.iter().any(|name| name == package),
            Self::Changed(names) => names.contains(package),
        }
    }
}

/// A program with tests in it.
#[derive(Clone, Debug, PartialEq)]
struct TestProgram {
    /// The names of the package and the target, for messages and the log's file name.
    name: String,
    package: String,
    path: PathBuf,
    /// The folder of the program's package, in which Cargo would run it.
    folder: PathBuf,
    has_integration_tests: bool,
}

/// A command to run. Its output goes to a file with the job's name.
#[derive(Debug)]
struct Job {
    name: String,
    command: Command,
}

/// The built tests of a scope.
#[derive(Debug)]
pub(crate) struct Tests {
    programs: Vec<TestProgram>,
    doc_tests: Option<Job>,
    /// Tests whose names contain one of these words are left out.
    skip: Vec<String>,
}

impl Tests {
    /// Builds the tests of a scope. Tests whose names contain a word of `skip` are not run.
    pub(crate) fn build(scope: &Scope, skip: Vec<String>) -> Result<Self, Stop> {
        let doc_tests = doc_tests(scope, &skip)?;
        Ok(Self { programs: build(scope)?, doc_tests, skip })
    }

    /// Runs the tests that are not timed side by side, and then the timed ones.
    pub(crate) fn run(self) -> Result<(), Stop> {
        let timed = self.timed()?.into_iter().map(|(_, job)| job).collect();
        self.run_together().and(run_side_by_side(timed, 1))
    }

    /// Runs the tests that are not timed, side by side.
    pub(crate) fn run_together(self) -> Result<(), Stop> {
        // The integration tests come first, because they wait the most. The examples in the documentation follow.
        let (long, short) = self.programs.split_at(self.programs.partition_point(|test| test.has_integration_tests));
        let mut jobs: Vec<Job> = long.iter().map(|test| together(test, &self.skip)).collect();
        jobs.extend(self.doc_tests);
        jobs.extend(short.iter().map(|test| together(test, &self.skip)));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        run_side_by_side(jobs, cores.max(FEWEST_AT_ONCE))
    }

    /// Runs the timed tests, one after the other. Fails if a word of `TIMED` is in the name of no test.
    pub(crate) fn run_timed(&self) -> Result<(), Stop> {
        let (names, jobs): (Vec<_>, Vec<_>) = self.timed()?.into_iter().unzip();
        check_words(&names.concat())?;
        run_side_by_side(jobs, 1)
    }

    /// Returns the programs that have timed tests, each with the names of these tests.
    fn timed(&self) -> Result<Vec<(Vec<String>, Job)>, Stop> {
        let mut found = Vec::new();
        for test in &self.programs {
            let names = timed_tests(test)?;
            if !names.is_empty() {
                found.push((names, timed(test, &self.skip)));
            }
        }
        Ok(found)
    }
}

fn build(scope: &Scope) -> Result<Vec<TestProgram>, Stop> {
    let mut command = cargo(&["test", "--locked", "--all-features", "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]).args(scope.built());
    let mut programs = programs_in(&output(&mut command)?);
    programs.retain(|program| scope.names(&program.package));
    programs.sort_by_cached_key(|program| {
        // Larger programs run longer. The largest one begins first, so that it does not run alone at the end.
        let bytes = fs::metadata(&program.path).map_or(0, |file| file.len());
        (!program.has_integration_tests, Reverse(bytes))
    });
    Ok(programs)
}

/// Returns the test programs that Cargo has built, from its messages.
fn programs_in(messages: &str) -> Vec<TestProgram> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages.filter_map(|message: Value| test_program(&message)).collect()
}

fn test_program(message: &Value) -> Option<TestProgram> {
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(text(&message["manifest_path"]));
    // The id is `path+file:///folder#name@version`, without the name if the folder has the same.
    let id = text(&message["package_id"]);
    let (before, after) = id.rsplit_once('#').unwrap_or(("", &id));
    let package = after.split_once('@').map_or_else(|| before.rsplit('/').next().unwrap_or(before), |(name, _)| name);
    let target = text(&message["target"]["name"]);
    let has_integration_tests = items(&message["target"]["kind"]).any(|kind| kind == "test");
    let name = if target.replace('-', "_") == package.replace('-', "_") && !has_integration_tests {
        package.to_owned()
    } else {
        format!("{package} {target}")
    };
    let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
    Some(TestProgram { name, package: package.to_owned(), path, folder, has_integration_tests })
}

/// Returns a program as Cargo would start it.
fn start(test: &TestProgram) -> Command {
    let mut command = program(&test.path);
    command.current_dir(&test.folder).env("CARGO_MANIFEST_DIR", &test.folder).env("CARGO_PKG_NAME", &test.package);
    command
}

fn together(test: &TestProgram, skip: &[String]) -> Job {
    let mut command = start(test);
    command.args(skip.iter().map(String::as_str).chain(TIMED).flat_map(|word| ["--skip", word]));
    Job { name: test.name.clone(), command }
}

fn timed(test: &TestProgram, skip: &[String]) -> Job {
    let mut command = start(test);
    command.args(TIMED).arg("--test-threads=1").args(skip.iter().flat_map(|word| ["--skip", word]));
    Job { name: format!("{} timed", test.name), command }
}

/// Returns the timed tests of a program.
fn timed_tests(test: &TestProgram) -> Result<Vec<String>, Stop> {
    let listed = output(start(test).args(TIMED).args(["--list", "--format", "terse"]))?;
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Checks that each word of `TIMED` is in the name of a timed test. A word that fits no test would let the tests that
/// it is meant for run beside others.
fn check_words(timed: &[String]) -> Result<(), Stop> {
    let is_used = |word: &&str| timed.iter().any(|test| test.contains(*word));
    match TIMED.iter().find(|word| !is_used(word)) {
        Some(word) => Err(Stop::Failed(format!("no test has '{word}' in its name; see TIMED in xtask/src/suite.rs"))),
        None => Ok(()),
    }
}

/// Returns the job for the examples in the documentation; `None` if there is no library. The examples of a change are
/// selected by name, which begins with the package's folder. If packages were selected instead, Cargo would build some
/// dependencies again with other features.
fn doc_tests(scope: &Scope, skip: &[String]) -> Result<Option<Job>, Stop> {
    let mut libraries = packages()?;
    libraries.retain(|package| package.is_library && scope.names(&package.name));
    if libraries.is_empty() {
        return Ok(None);
    }
    let mut command = cargo(&["test", "--locked", "--all-features", "--doc", "--no-fail-fast"]);
    match scope {
        // Cargo fails for a package that has no library.
        Scope::Part(_) => command.args(libraries.iter().flat_map(|package| ["--package", &package.name])),
        Scope::All | Scope::Changed(_) => command.arg("--workspace"),
    };
    command.arg("--").args(skip.iter().flat_map(|word| ["--skip", word]));
    if let Scope::Changed(_) = scope {
        let folder = |package: &Package| package.folder.strip_prefix(root()).map(Path::to_path_buf).unwrap_or_default();
        command.args(libraries.iter().map(|package| format!("{}/", folder(package).display())));
    }
    Ok(Some(Job { name: "doc tests".to_owned(), command }))
}

/// Runs `at_once` jobs at a time and reports each result. Prints the output of failed jobs and names them in the error.
fn run_side_by_side(jobs: Vec<Job>, at_once: usize) -> Result<(), Stop> {
    let folder = root().join("target/tests");
    fs::create_dir_all(&folder).map_err(|error| Stop::Failed(format!("{}: {error}", folder.display())))?;
    let lanes = at_once.clamp(1, jobs.len().max(1));
    let (waiting, failed) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(job) = next() {
                    if let Err(why) = run_job(job, &folder) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(Stop::Failed(failed.join(", "))) }
}

fn run_job(mut job: Job, folder: &Path) -> Result<(), String> {
    let log = folder.join(format!("{}.log", job.name.replace(' ', "-")));
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(failed)?;
    job.command.stdout(file.try_clone().map_err(failed)?).stderr(file);
    let begun = Instant::now();
    let status = job.command.status().map_err(|error| format!("{}: {error}", job.name))?;
    let output = String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned();
    let line = format!("{:32} {:>7.1} s  {}", job.name, begun.elapsed().as_secs_f64(), Counts::of(&output));
    if status.success() {
        println!("{line}");
        return Ok(());
    }
    println!("{line}\n{output}\nFAILED: {} ended with {status}", job.name);
    Err(format!("{}: {status}", job.name))
}

/// The sums of the results in a log.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Counts {
    fn of(log: &str) -> Self {
        let mut counts = Self::default();
        for line in log.lines().filter(|line| line.starts_with("test result: ")) {
            let before = |word: &str| {
                let number = line.split(word).next().and_then(|text| text.trim_end().rsplit(' ').next());
                number.and_then(|number| number.parse::<usize>().ok()).unwrap_or_default()
            };
            counts.passed += before(" passed;");
            counts.failed += before(" failed;");
            counts.ignored += before(" ignored;");
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed", self.passed)?;
        for (count, word) in [(self.failed, "failed"), (self.ignored, "ignored")] {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        Ok(())
    }
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
            serde_json::json!({"reason": "build-finished", "success": true}),
        ];
        let text = messages.map(|message| message.to_string()).join("\n");
        let programs = programs_in(&text);
        let names: Vec<_> = programs.iter().map(|test| (test.name.as_str(), test.package.as_str())).collect();
        assert_eq!(names, [("b-c", "b-c"), ("b-servers it", "b-servers")]);
        assert_eq!(programs[1].folder, Path::new("/a/crates/b"));
        assert!(programs[1].has_integration_tests);
    }

    #[test]
    fn results_of_all_programs_in_a_log_are_counted() {
        let log = "running 3 tests\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out\n\
                   test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n";
        let counts = Counts::of(log);
        assert_eq!(counts, Counts { passed: 7, failed: 1, ignored: 2 });
        assert_eq!(counts.to_string(), "7 passed, 1 failed, 2 ignored");
    }

    #[test]
    fn every_job_is_run_and_those_that_fail_are_named() {
        let job = |name: &str, words: &[&str]| Job { name: name.to_owned(), command: cargo(words) };
        let jobs = vec![job("a good one", &["--version"]), job("a bad one", &["no-such"]), job("b", &["--version"])];
        let Err(Stop::Failed(why)) = run_side_by_side(jobs, 2) else { panic!("one of them fails") };
        assert!(why.starts_with("a bad one: exit status") && !why.contains(','), "{why}");
    }

    #[test]
    fn a_word_that_no_test_has_is_a_failure() {
        assert!(check_words(&[]).is_err());
    }

    #[test]
    fn a_change_is_built_with_the_whole_workspace() {
        let changed = Scope::Changed(BTreeSet::from(["a".to_owned()]));
        assert_eq!(changed.built(), ["--workspace"]);
        assert!(changed.names("a") && !changed.names("b") && !changed.is_empty());
        assert_eq!(Scope::Part(vec!["a".to_owned()]).built(), ["--package", "a"]);
    }
}
