//! Builds the tests once and runs them side by side, because they mostly wait for servers, locks and clocks.
//!
//! `cargo test` runs one test program after the other, which leaves two cores idle for half of the time. Timed tests,
//! which expect an answer within about a second, could fail by chance beside others. So they run at the end, one at a
//! time.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::build::{BuildScope, TestProgram, build, checked};
use crate::command::{program, root};
use crate::rustdoc;
use crate::step::Stop;
use crate::workspace::{Package, packages};

/// Words in the names of timed tests, which fail if something takes seconds longer than on an idle machine.
const TIMED: [&str; 10] = [
    "attacks::",
    "availability::",
    "leaving::",
    "many_who_follow",
    "mariadb::feed::",
    "postgres::feed::",
    "saturated_processes",
    "shutdown::",
    "timing::",
    "waiting::",
];

/// The least number of test programs that run at once. On machines with more cores, one program runs for each core.
const FEWEST_AT_ONCE: usize = 3;

/// How many tests a program runs at once for each core. They mostly wait, for flushes of a database above all.
const THREADS_PER_CORE: usize = 2;

/// How long a job may take. The longest job takes about ten minutes on two cores, so a job that takes this long hangs.
const LONGEST: Duration = Duration::from_mins(30);

/// A command to run. Its output goes to a file with the job's name.
#[derive(Debug)]
struct TestJob {
    name: String,
    command: Command,
}

/// The built tests of a scope.
#[derive(Debug)]
pub(crate) struct Tests {
    programs: Vec<TestProgram>,
    doc_tests: Option<TestJob>,
    /// Tests whose names contain one of these words are left out.
    skip: Vec<String>,
}

impl Tests {
    /// Builds the tests of a scope. Tests whose names contain a word of `skip` are not run.
    pub(crate) fn build(scope: &BuildScope, skip: Vec<String>) -> Result<Self, Stop> {
        let doc_tests = doc_tests(scope, &skip)?;
        Ok(Self { programs: build(scope)?.programs, doc_tests, skip })
    }

    /// Runs the tests that are not timed side by side, and then the timed ones.
    pub(crate) fn run(self) -> Result<(), Stop> {
        let timed = self.timed(&self.listed()?);
        self.run_together().and(run_side_by_side(timed, 1))
    }

    /// Runs the tests that are not timed, side by side.
    pub(crate) fn run_together(self) -> Result<(), Stop> {
        // The integration tests come first, because they wait the most. The examples in the documentation follow.
        let (long, short) = self.programs.split_at(self.programs.partition_point(|test| test.has_integration_tests));
        let mut jobs: Vec<TestJob> = long.iter().map(|test| together(test, &self.skip)).collect();
        jobs.extend(self.doc_tests);
        jobs.extend(short.iter().map(|test| together(test, &self.skip)));
        run_side_by_side(jobs, cores().max(FEWEST_AT_ONCE))
    }

    /// Runs the timed tests, one after the other. Fails if a word of `TIMED` is in the name of no test.
    pub(crate) fn run_timed(&self) -> Result<(), Stop> {
        let listed = self.listed()?;
        // Tests that a machine without a server leaves out count here, or their words would seem to fit no test.
        check_words(&listed.concat())?;
        run_side_by_side(self.timed(&listed), 1)
    }

    /// Returns the names of the timed tests of each program, also of those that are left out.
    fn listed(&self) -> Result<Vec<Vec<String>>, Stop> {
        self.programs.iter().map(timed_tests).collect()
    }

    /// Returns a job for each program that has timed tests to run, given the names of each program's timed tests.
    fn timed(&self, listed: &[Vec<String>]) -> Vec<TestJob> {
        let programs = self.programs.iter().zip(listed);
        let jobs = programs.map(|(test, names)| (test, selected(names, test.word, &self.skip)));
        jobs.filter(|(_, names)| !names.is_empty()).map(|(test, names)| timed(test, &names)).collect()
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a program as Cargo would start it.
fn start(test: &TestProgram) -> Command {
    let mut command = program(&test.path);
    command.current_dir(&test.folder).env("CARGO_MANIFEST_DIR", &test.folder).env("CARGO_PKG_NAME", &test.package);
    command
}

fn together(test: &TestProgram, skip: &[String]) -> TestJob {
    let mut command = start(test);
    command.arg(format!("--test-threads={}", THREADS_PER_CORE * cores()));
    command.args(skip.iter().map(String::as_str).chain(TIMED).flat_map(|word| ["--skip", word])).args(test.word);
    TestJob { name: test.name.clone(), command }
}

fn timed(test: &TestProgram, names: &[&str]) -> TestJob {
    let mut command = start(test);
    command.arg("--test-threads=1").arg("--exact").args(names);
    TestJob { name: format!("{} timed", test.name), command }
}

/// Returns the names of the timed tests of a program.
fn timed_tests(test: &TestProgram) -> Result<Vec<String>, Stop> {
    let mut list = start(test);
    list.args(TIMED).args(["--list", "--format", "terse"]);
    let listed = list.output().map_err(|error| Stop::Failed(format!("{}: {error}", test.name)))?;
    if !listed.status.success() {
        return Err(Stop::Failed(format!("{} did not list its tests: {}", test.name, listed.status)));
    }
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Returns the tests whose names contain the word, if there is one, and no word of `skip`, as libtest selects tests.
fn selected<'a>(names: &'a [String], word: Option<&str>, skip: &[String]) -> Vec<&'a str> {
    let is_skipped = |name: &str| skip.iter().any(|word| name.contains(word));
    let names = names.iter().map(String::as_str).filter(|name| word.is_none_or(|word| name.contains(word)));
    names.filter(|name| !is_skipped(name)).collect()
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

/// Returns the job for the examples in the documentation; `None` if there is no library. For a change, examples are
/// selected by name, and their names begin with the package's folder. If packages were selected instead, Cargo would
/// build some dependencies again with other features.
fn doc_tests(scope: &BuildScope, skip: &[String]) -> Result<Option<TestJob>, Stop> {
    let mut libraries = packages()?;
    libraries.retain(|p| p.is_library && scope.names(&p.name) && scope.word(&p.name).is_none());
    if libraries.is_empty() {
        return Ok(None);
    }
    let mut command = checked(&["test", "--all-features", "--doc", "--no-fail-fast"]);
    if !matches!(scope, BuildScope::Changed(..)) {
        rustdoc::with_documentation(&mut command);
    }
    match scope {
        // Cargo fails for a package that has no library.
        BuildScope::Part(_) => command.args(libraries.iter().flat_map(|package| ["--package", &package.name])),
        BuildScope::All | BuildScope::Changed(..) => command.arg("--workspace"),
    };
    command.arg("--").args(skip.iter().flat_map(|word| ["--skip", word]));
    if let BuildScope::Changed(..) = scope {
        let folder = |package: &Package| package.folder.strip_prefix(root()).map(Path::to_path_buf).unwrap_or_default();
        command.args(libraries.iter().map(|package| format!("{}/", folder(package).display())));
    }
    Ok(Some(TestJob { name: "doc tests".to_owned(), command }))
}

/// Runs `at_once` jobs at a time and reports each result. Prints the output of failed jobs and names them in the error.
fn run_side_by_side(jobs: Vec<TestJob>, at_once: usize) -> Result<(), Stop> {
    let folder = root().join("target/tests");
    fs::create_dir_all(&folder).map_err(|error| Stop::Failed(format!("{}: {error}", folder.display())))?;
    let lanes = at_once.clamp(1, jobs.len().max(1));
    let (waiting, failed) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(job) = next() {
                    if let Err(why) = run_job(job, &folder, LONGEST) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(Stop::Failed(failed.join(", "))) }
}

fn run_job(mut job: TestJob, folder: &Path, longest: Duration) -> Result<(), String> {
    let log = folder.join(format!("{}.log", job.name.replace(' ', "-")));
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(failed)?;
    job.command.stdout(file.try_clone().map_err(failed)?).stderr(file);
    let begun = Instant::now();
    let ended = wait(&mut job.command, longest).map_err(|error| format!("{}: {error}", job.name))?;
    let output = String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned();
    let line = format!("{:32} {:>7.1} s  {}", job.name, begun.elapsed().as_secs_f64(), TestCounts::of(&output));
    let why = match ended {
        Some(status) if status.success() => {
            println!("{line}");
            return Ok(());
        }
        Some(status) => format!("{}: {status}", job.name),
        None => format!("{}: stopped after {longest:?}; running were: {}", job.name, running(&output).join(", ")),
    };
    println!("{line}\n{output}\nFAILED: {why}");
    Err(why)
}

/// Waits until a command ends, and returns its exit status. After the time `longest`, kills the command and returns
/// `None`.
fn wait(command: &mut Command, longest: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < longest {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Returns the tests that took over a minute and had not ended, according to their log.
fn running(log: &str) -> Vec<&str> {
    let tests = || log.lines().filter_map(|line| line.strip_prefix("test "));
    let slow = tests().filter_map(|line| Some(line.split_once(" has been running for over ")?.0));
    slow.filter(|name| !tests().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ... "))))
        .collect()
}

/// The sums of the results in a log.
#[derive(Debug, Default, PartialEq)]
struct TestCounts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl TestCounts {
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

impl std::fmt::Display for TestCounts {
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
    use crate::command::cargo;

    #[test]
    fn results_of_all_programs_in_a_log_are_counted() {
        let log = "running 3 tests\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out\n\
                   test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n";
        let counts = TestCounts::of(log);
        assert_eq!(counts, TestCounts { passed: 7, failed: 1, ignored: 2 });
        assert_eq!(counts.to_string(), "7 passed, 1 failed, 2 ignored");
    }

    #[test]
    fn every_job_is_run_and_those_that_fail_are_named() {
        let job = |name: &str, words: &[&str]| TestJob { name: name.to_owned(), command: cargo(words) };
        let jobs = vec![job("a good one", &["--version"]), job("a bad one", &["no-such"]), job("b", &["--version"])];
        let Err(Stop::Failed(why)) = run_side_by_side(jobs, 2) else { panic!("one of them fails") };
        assert!(why.starts_with("a bad one: exit status") && !why.contains(','), "{why}");
    }

    #[test]
    fn a_job_that_hangs_is_stopped_and_its_tests_are_named() {
        let mut command = program("sh");
        command.args([
            "-c",
            "echo 'test a has been running for over 60 seconds'; echo 'test a::b has been running for over 60 seconds'; \
             echo 'test a ... ok'; exec sleep 60",
        ]);
        let job = TestJob { name: "a hanging one".to_owned(), command };
        let why = run_job(job, &std::env::temp_dir(), Duration::from_millis(500));
        assert_eq!(why, Err("a hanging one: stopped after 500ms; running were: a::b".to_owned()));
    }

    #[test]
    fn tests_are_selected_by_parts_of_their_names() {
        let names = ["sqlite::waiting::a", "postgres::feed::b", "own_postgres::waiting::c"].map(str::to_owned);
        assert_eq!(selected(&names, None, &[]), names);
        assert_eq!(selected(&names, Some("postgres"), &[]), names[1..]);
        assert_eq!(selected(&names, None, &["postgres".to_owned()]), names[..1]);
        assert_eq!(selected(&names, Some("postgres"), &["feed::".to_owned()]), names[2..]);
        assert!(selected(&names, Some("mariadb"), &[]).is_empty());
    }

    #[test]
    fn a_word_that_no_test_has_is_a_failure() {
        assert!(check_words(&[]).is_err());
    }
}
