//! Running named steps one after the other, all of them whatever happens, and saying at the end how each went.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One check, by name.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    run: Box<dyn Fn() -> Result<(), Stop>>,
}

/// Why a step did not pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// What it checks is not so.
    Failed(String),
    /// It could not be run here; nothing is known about what it checks.
    LeftOut(String),
}

impl Step {
    pub(crate) fn new(name: &'static str, what: &'static str, run: impl Fn() -> Result<(), Stop> + 'static) -> Self {
        Self { name, what, run: Box::new(run) }
    }
}

/// What a step came to, and how long it took.
struct Done {
    name: &'static str,
    result: Result<(), Stop>,
    time: Duration,
}

/// Runs every step and reports. Where `CI=true`, a step left out is a failure too.
pub(crate) fn run(steps: Vec<Step>) -> ExitCode {
    let done: Vec<Done> = steps.into_iter().map(run_one).collect();
    let strict = std::env::var("CI").is_ok_and(|ci| ci == "true");
    print!("{}", report(&done, strict));
    if passed(&done, strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one(step: Step) -> Done {
    println!("\n==> {}: {}", step.name, step.what);
    let start = Instant::now();
    let result = (step.run)();
    match &result {
        Ok(()) => {}
        Err(Stop::Failed(why)) => println!("FAILED: {}: {why}", step.name),
        Err(Stop::LeftOut(why)) => println!("LEFT OUT: {}: {why}", step.name),
    }
    Done { name: step.name, result, time: start.elapsed() }
}

fn passed(done: &[Done], strict: bool) -> bool {
    done.iter().all(|step| match step.result {
        Ok(()) => true,
        Err(Stop::Failed(_)) => false,
        Err(Stop::LeftOut(_)) => !strict,
    })
}

/// A table of times, what was left out, what failed, and one closing line.
fn report(done: &[Done], strict: bool) -> String {
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
    line(format_args!("{:13} {:>8.1} s", "together", done.iter().map(|d| d.time.as_secs_f64()).sum::<f64>()));
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
    use super::*;

    fn done(name: &'static str, result: Result<(), Stop>) -> Done {
        Done { name, result, time: Duration::from_millis(1500) }
    }

    #[test]
    fn a_good_run_ends_with_one_plain_line() {
        let steps = [done("format", Ok(())), done("tests", Ok(()))];
        assert!(passed(&steps, true));
        let text = report(&steps, true);
        assert!(text.contains("format             1.5 s  ok"), "{text}");
        assert!(text.ends_with("steps: 2 passed, 0 failed\n"), "{text}");
    }

    #[test]
    fn a_failed_step_fails_the_run_and_is_named_at_the_end() {
        let steps = [done("format", Err(Stop::Failed("exit 1".into()))), done("tests", Ok(()))];
        assert!(!passed(&steps, false));
        let text = report(&steps, false);
        assert!(text.ends_with("FAILED: format: exit 1\nsteps: 1 passed, 1 failed\n"), "{text}");
    }

    #[test]
    fn a_step_left_out_is_said_and_fails_only_in_ci() {
        let steps = [done("fuzz", Err(Stop::LeftOut("no tool".into())))];
        assert!(passed(&steps, false));
        assert!(!passed(&steps, true));
        let text = report(&steps, true);
        assert!(text.contains("LEFT OUT: fuzz: no tool\nCI=true"), "{text}");
        assert!(text.ends_with("steps: 0 passed, 0 failed, 1 skipped\n"), "{text}");
    }

    #[test]
    fn every_step_is_run_whatever_became_of_the_one_before() {
        let fail = || Step::new("a", "", || Err(Stop::Failed(String::new())));
        assert_eq!(run(vec![fail(), Step::new("b", "", || Ok(()))]), ExitCode::FAILURE);
        assert_eq!(run(vec![Step::new("b", "", || Ok(()))]), ExitCode::SUCCESS);
        assert_eq!(run_one(fail()).result, Err(Stop::Failed(String::new())));
    }
}
