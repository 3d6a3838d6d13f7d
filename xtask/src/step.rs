//! Runs named steps in order, all of them even if some fail, and reports the result of each at the end.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::passed::Passed;

/// The function of a step.
pub(crate) type StepFn = Box<dyn FnOnce() -> Result<(), Stop> + Send>;

/// A named check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    run: StepMode,
}

/// How a step runs.
enum StepMode {
    /// The next step begins after this one has ended.
    Wholly(StepFn),
    /// After a preparation, the step runs beside the next steps, since it waits more than it computes.
    Beside(Box<dyn FnOnce() -> Result<StepFn, Stop>>),
    /// The step runs after all steps that run beside others have ended.
    AfterOthers(StepFn),
}

/// Why a step did not pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// The check failed, for this reason.
    Failed(String),
    /// The check could not be run here, for this reason, so its result is unknown.
    LeftOut(String),
}

impl Step {
    pub(crate) fn new(
        name: &'static str,
        what: &'static str,
        run: impl FnOnce() -> Result<(), Stop> + Send + 'static,
    ) -> Self {
        Self { name, what, run: StepMode::Wholly(Box::new(run)) }
    }

    /// Returns a step whose preparation returns a check, which then runs beside the next steps.
    pub(crate) fn beside(
        name: &'static str,
        what: &'static str,
        prepare: impl FnOnce() -> Result<StepFn, Stop> + 'static,
    ) -> Self {
        Self { name, what, run: StepMode::Beside(Box::new(prepare)) }
    }

    /// Lets the step run beside the next ones.
    pub(crate) fn beside_others(self) -> Self {
        match self.run {
            StepMode::Wholly(check) => Self { run: StepMode::Beside(Box::new(|| Ok(check))), ..self },
            run => Self { run, ..self },
        }
    }

    /// Lets the step run only after all steps that run beside others have ended.
    pub(crate) fn after_others(self) -> Self {
        match self.run {
            StepMode::Wholly(check) => Self { run: StepMode::AfterOthers(check), ..self },
            run => Self { run, ..self },
        }
    }
}

/// The result of a step, and how long it took.
struct FinishedStep {
    name: &'static str,
    result: Result<(), Stop>,
    time: Duration,
}

/// Runs every step, reports, and records the steps that passed. With `CI=true`, a step that was left out is a failure
/// too.
pub(crate) fn run(steps: Vec<Step>) -> ExitCode {
    run_recorded(steps, &Passed::here())
}

/// Runs every step that has not passed on this commit.
pub(crate) fn run_remaining(mut steps: Vec<Step>) -> ExitCode {
    let passed = Passed::here();
    let before: Vec<_> = steps.iter().map(|step| step.name).filter(|name| passed.contains(name)).collect();
    if !before.is_empty() {
        println!("Passed on this commit before: {}.", before.join(", "));
    }
    steps.retain(|step| !passed.contains(step.name));
    run_recorded(steps, &passed)
}

fn run_recorded(steps: Vec<Step>, record: &Passed) -> ExitCode {
    let started = Instant::now();
    let done = run_all(steps);
    done.iter().filter(|step| step.result.is_ok()).for_each(|step| record.add(step.name));
    let strict = std::env::var("CI").is_ok_and(|ci| ci == "true");
    print!("{}", report(&done, started.elapsed(), strict));
    if passed(&done, strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(steps: Vec<Step>) -> Vec<FinishedStep> {
    let (mut done, mut beside) = (Vec::new(), Vec::new());
    for Step { name, what, run } in steps {
        if matches!(run, StepMode::AfterOthers(_)) {
            done.extend(beside.drain(..).map(ended));
        }
        println!("\n==> {name}: {what}");
        let start = Instant::now();
        match run {
            StepMode::Wholly(check) | StepMode::AfterOthers(check) => done.push(FinishedStep::of(name, check(), start)),
            StepMode::Beside(prepare) => match prepare() {
                Ok(check) => beside.push((name, start, thread::spawn(move || FinishedStep::of(name, check(), start)))),
                Err(stop) => done.push(FinishedStep::of(name, Err(stop), start)),
            },
        }
    }
    done.extend(beside.into_iter().map(ended));
    done
}

/// Waits for a step that runs beside others.
fn ended((name, start, thread): (&'static str, Instant, JoinHandle<FinishedStep>)) -> FinishedStep {
    thread.join().unwrap_or_else(|_| FinishedStep::of(name, Err(Stop::Failed("the step panicked".to_owned())), start))
}

impl FinishedStep {
    fn of(name: &'static str, result: Result<(), Stop>, start: Instant) -> Self {
        match &result {
            Ok(()) => {}
            Err(Stop::Failed(why)) => println!("FAILED: {name}: {why}"),
            Err(Stop::LeftOut(why)) => println!("LEFT OUT: {name}: {why}"),
        }
        Self { name, result, time: start.elapsed() }
    }
}

fn passed(done: &[FinishedStep], strict: bool) -> bool {
    done.iter().all(|step| match step.result {
        Ok(()) => true,
        Err(Stop::Failed(_)) => false,
        Err(Stop::LeftOut(_)) => !strict,
    })
}

/// Returns the report: a table of times, the steps that were left out, the steps that failed, and a closing line.
fn report(done: &[FinishedStep], together: Duration, strict: bool) -> String {
    let mut text = String::from("\n");
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{words}");
    };
    for step in done {
        let mark = match step.result {
            Ok(()) => "ok",
            Err(Stop::Failed(_)) => "FAILED",
            Err(Stop::LeftOut(_)) => "LEFT OUT",
        };
        line(format_args!("{:13} {:>8.1} s  {mark}", step.name, step.time.as_secs_f64()));
    }
    line(format_args!("{:13} {:>8.1} s", "together", together.as_secs_f64()));
    let (mut failed, mut left_out) = (0, 0);
    for step in done {
        match &step.result {
            Ok(()) => {}
            Err(Stop::LeftOut(why)) => {
                left_out += 1;
                line(format_args!("LEFT OUT: {}: {why}", step.name));
            }
            Err(Stop::Failed(why)) => {
                failed += 1;
                line(format_args!("FAILED: {}: {why}", step.name));
            }
        }
    }
    if strict && left_out > 0 {
        line(format_args!("CI=true: what is left out fails the run"));
    }
    let ok = done.len() - failed - left_out;
    let skipped = if left_out == 0 { String::new() } else { format!(", {left_out} skipped") };
    line(format_args!("steps: {ok} passed, {failed} failed{skipped}"));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn done(name: &'static str, result: Result<(), Stop>) -> FinishedStep {
        FinishedStep { name, result, time: Duration::from_millis(1500) }
    }

    #[test]
    fn a_good_run_ends_with_one_plain_line() {
        let steps = [done("format", Ok(())), done("tests", Ok(()))];
        assert!(passed(&steps, true));
        let text = report(&steps, Duration::ZERO, true);
        assert!(text.contains("format             1.5 s  ok"), "{text}");
        assert!(text.ends_with("steps: 2 passed, 0 failed\n"), "{text}");
    }

    #[test]
    fn a_failed_step_fails_the_run_and_is_named_at_the_end() {
        let steps = [done("format", Err(Stop::Failed("exit 1".into()))), done("tests", Ok(()))];
        assert!(!passed(&steps, false));
        let text = report(&steps, Duration::ZERO, false);
        assert!(text.ends_with("FAILED: format: exit 1\nsteps: 1 passed, 1 failed\n"), "{text}");
    }

    #[test]
    fn a_step_left_out_is_said_and_fails_only_in_ci() {
        let steps = [done("fuzz", Err(Stop::LeftOut("no tool".into())))];
        assert!(passed(&steps, false));
        assert!(!passed(&steps, true));
        let text = report(&steps, Duration::ZERO, true);
        assert!(text.contains("LEFT OUT: fuzz: no tool\nCI=true"), "{text}");
        assert!(text.ends_with("steps: 0 passed, 0 failed, 1 skipped\n"), "{text}");
    }

    #[test]
    fn every_step_is_run_whatever_became_of_the_one_before() {
        let fail = || Step::new("a", "", || Err(Stop::Failed(String::new())));
        let run = |steps| run_recorded(steps, &Passed::nowhere());
        assert_eq!(run(vec![fail(), Step::new("b", "", || Ok(()))]), ExitCode::FAILURE);
        assert_eq!(run(vec![Step::new("b", "", || Ok(()))]), ExitCode::SUCCESS);
    }

    #[test]
    fn a_step_beside_others_is_waited_for_before_one_that_runs_alone() {
        let (send, receive) = mpsc::channel();
        let long = Step::beside("long", "", move || {
            Ok(Box::new(move || receive.recv().map_err(|error| Stop::Failed(error.to_string()))))
        });
        let meanwhile =
            Step::new("meanwhile", "", move || send.send(()).map_err(|error| Stop::Failed(error.to_string())));
        let steps = vec![long, meanwhile, Step::new("last", "", || Ok(())).after_others()];
        let done = run_all(steps);
        assert_eq!(done.iter().map(|step| step.name).collect::<Vec<_>>(), ["meanwhile", "long", "last"]);
        assert!(passed(&done, true));
    }

    #[test]
    fn what_fails_beside_others_fails_the_run() {
        let unprepared = Step::beside("a", "", || Err(Stop::Failed("no build".into())));
        let run = |steps| run_recorded(steps, &Passed::nowhere());
        assert_eq!(run(vec![unprepared]), ExitCode::FAILURE);
        let failing = Step::beside("a", "", || Ok(Box::new(|| Err(Stop::Failed("a test".into())))));
        assert_eq!(run(vec![failing, Step::new("b", "", || Ok(()))]), ExitCode::FAILURE);
    }
}
