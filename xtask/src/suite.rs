//! Builds the tests once and runs them side by side, because they mostly wait for servers, locks and clocks.
//!
//! `cargo test` runs one test program after the other, which leaves two cores idle for half of the time. Timed tests,
//! which expect an answer within about a second, could fail by chance beside others. So they run at the end, one at a
//! time. `tiers.rs` says which tests these are.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::build::{BuildScope, TestProgram, build, checked};
use crate::command::{program, root};
use crate::step::Stop;
use crate::tiers::{self, Tier};

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

/// The built tests of a scope that are run.
#[derive(Debug)]
pub(crate) struct Tests {
    /// The jobs that run side by side, in the order in which they begin.
    together: Vec<TestJob>,
    /// The jobs that run one after the other.
    timed: Vec<TestJob>,
}

impl Tests {
    /// Builds the tests of a scope. Tests in a module of `missing` are not run. Fails if there is a warning.
    pub(crate) fn build(scope: &BuildScope, missing: &[&str]) -> Result<Self, Stop> {
        let built = build(scope)?;
        if built.warnings > 0 {
            return Err(Stop::Failed(format!("{} warnings", built.warnings)));
        }
        let mut tests = Self { together: Vec::new(), timed: Vec::new() };
        for test in &built.programs {
            let listed = listed(test)?;
            let is_run = |name: &&String| scope.selects(&test.package, name) && !tiers::is_in(name, missing);
            let (timed, together): (Vec<_>, Vec<_>) = listed.iter().filter(is_run).partition(|n| tiers::is_timed(n));
            if together.len() == listed.len() && !listed.is_empty() {
                // All of them are run, so they need no names.
                tests.together.push(job(test, &test.name, THREADS_PER_CORE * cores(), &[]));
            } else if !together.is_empty() {
                tests.together.push(job(test, &test.name, THREADS_PER_CORE * cores(), &together));
            }
            if !timed.is_empty() {
                tests.timed.push(job(test, &format!("{} timed", test.name), 1, &timed));
            }
        }
        if let BuildScope::Changed(_, Some(store)) = scope {
            let command = checked(&["test", "--package", store.package, "--all-features", "--lib"]);
            tests.together.push(TestJob { name: store.package.to_owned(), command });
        }
        Ok(tests)
    }

    /// Runs the tests that are not timed side by side, and then the timed ones.
    pub(crate) fn run(self) -> Result<(), Stop> {
        run_side_by_side(self.together, cores().max(FEWEST_AT_ONCE)).and(run_side_by_side(self.timed, 1))
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

/// Returns a job that runs the tests of these names, or all if there are none.
fn job(test: &TestProgram, name: &str, threads: usize, names: &[&String]) -> TestJob {
    let mut command = start(test);
    command.arg(format!("--test-threads={threads}"));
    if !names.is_empty() {
        command.arg("--exact").args(names);
    }
    TestJob { name: name.to_owned(), command }
}

/// Returns the names of all tests of a program.
fn listed(test: &TestProgram) -> Result<Vec<String>, Stop> {
    let listed = start(test).args(["--list", "--format", "terse"]).output();
    let listed = listed.map_err(|error| Stop::Failed(format!("{}: {error}", test.name)))?;
    if !listed.status.success() {
        return Err(Stop::Failed(format!("{} did not list its tests: {}", test.name, listed.status)));
    }
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Prints the name of each test of the workspace, with its package and its tier.
pub(crate) fn print_names() -> Result<(), Stop> {
    for test in build(&BuildScope::Tier(Tier::Gate))?.programs {
        for name in listed(&test)? {
            println!("{:?}\t{}\t{name}", tiers::tier(&test.package, &name), test.name);
        }
    }
    Ok(())
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
}
