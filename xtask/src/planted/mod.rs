//! The step `planted`: plants errors in the concurrent parts of the code, one at a time, and checks that the tests of
//! the package `interleavings` find each of them.

mod errors;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{cargo, root, run};
use crate::house;
use crate::step::Stop;
use errors::{ERRORS, PlantedError};

/// The package whose tests have to find the errors.
const PACKAGE: &str = "interleavings";

/// The folder of the files with errors, within the copy of the repository.
const PLANTED: &str = "planted";

/// Fails if an error is not found, or if the printed order of steps does not show it again.
///
/// The repository is copied. In the copy, the package includes its files from a folder of their own, so only this
/// package is built again for each error.
pub(crate) fn check() -> Result<(), Stop> {
    let copy = root().join("target/planted/tree");
    copy_repository(&copy)?;
    run(&mut tests(&copy, &[]))?;
    let mut missed = Vec::new();
    for error in &ERRORS {
        match find(error, &copy)? {
            None => println!("found by {}: {}", error.test, error.what),
            Some(why) => missed.push(format!("{}: {why}", error.what)),
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(Stop::Failed(missed.join("; "))) }
}

/// Plants an error in the copy and runs its test. Returns why the error was not found.
fn find(error: &PlantedError, copy: &Path) -> Result<Option<String>, Stop> {
    let path = copy.join(PLANTED).join(error.file);
    let sound = read(&path)?;
    let wrong = planted(error, &String::from_utf8_lossy(&sound)).map_err(Stop::Failed)?;
    write(&path, wrong.as_bytes())?;
    let found = run(&mut tests(copy, &["--no-run"])).and_then(|()| is_found(error, copy));
    write(&path, &sound)?;
    found
}

fn is_found(error: &PlantedError, copy: &Path) -> Result<Option<String>, Stop> {
    let arguments = [error.test, "--", "--exact", "--test-threads=1"];
    let Some(printed) = failure(&mut tests(copy, &arguments))? else {
        return Ok(Some(format!("{} passes", error.test)));
    };
    let Some((schedule, panic)) = schedule(&printed).zip(panic_in(&printed)) else {
        return Ok(Some(format!("{} prints no panic with an order of steps:\n{printed}", error.test)));
    };
    let again = failure(tests(copy, &arguments).env("SCRATCHBOOK_SCHEDULE", schedule))?.unwrap_or_default();
    let is_same = panic_in(&again) == Some(panic);
    Ok((!is_same).then(|| format!("the printed order does not lead to the same panic again:\n{again}")))
}

/// Returns the text of a file with an error. Fails if the file does not have what the error changes.
fn planted(error: &PlantedError, sound: &str) -> Result<String, String> {
    error.changes.iter().try_fold(sound.to_owned(), |text, (from, to)| match text.matches(from).count() {
        1 => Ok(text.replacen(from, to, 1)),
        count => Err(format!(
            "'{}' cannot be planted: {} contains this text {count} times, and has to contain it once:\n{from}",
            error.what, error.file
        )),
    })
}

/// Returns what a command printed if it failed, and `None` if it succeeded.
fn failure(command: &mut Command) -> Result<Option<String>, Stop> {
    let output = command.output().map_err(|error| Stop::Failed(format!("cargo did not start: {error}")))?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&printed).into_owned()))
}

/// Returns the order of steps that a failed test printed, between two lines with a quotation mark.
fn schedule(printed: &str) -> Option<&str> {
    let (_, after) = printed.split_once("failing schedule:\n\"\n")?;
    after.split_once("\n\"").map(|(schedule, _)| schedule)
}

/// Returns where the first thread panicked, and its message.
fn panic_in(printed: &str) -> Option<(&str, &str)> {
    let (_, after) = printed.split_once(" panicked at ")?;
    let mut lines = after.lines();
    lines.next().zip(lines.next())
}

fn tests(copy: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo(&["test", "--quiet", "-p", "scratchbook-interleavings", "--test", PACKAGE]);
    command.args(arguments).current_dir(copy.join("lab")).env("CARGO_TARGET_DIR", copy.with_file_name("target"));
    // The errors leave code that is not used.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUSTFLAGS", "--cap-lints=allow");
    command
}

/// Copies the repository. The sources of crates are copied a second time, to the folder of the errors.
fn copy_repository(copy: &Path) -> Result<(), Stop> {
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(|error| failed(copy, &error))?;
    }
    // A file that was deleted may still be in Git's index.
    for path in house::tracked_files()?.iter().filter(|path| root().join(path).is_file()) {
        let text = read(&root().join(path))?;
        if path.starts_with(&format!("lab/{PACKAGE}/src/")) {
            let text = String::from_utf8_lossy(&text);
            let text = text.replace("\"../../../crates/", &format!("\"../../../{PLANTED}/crates/"));
            write(&copy.join(path), text.as_bytes())?;
        } else {
            write(&copy.join(path), &text)?;
        }
        if path.starts_with("crates/") && path.ends_with(".rs") {
            write(&copy.join(PLANTED).join(path), &text)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Stop> {
    fs::read(path).map_err(|error| failed(path, &error))
}

fn write(path: &Path, text: &[u8]) -> Result<(), Stop> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_can_be_planted_and_is_in_the_design() {
        let design = fs::read_to_string(root().join("docs/design/proof.md")).unwrap();
        for error in &ERRORS {
            let sound = fs::read_to_string(root().join(error.file)).unwrap();
            let wrong = planted(error, &sound).unwrap();
            assert_ne!(wrong, sound);
            let file = Path::new(error.file).file_name().unwrap().to_string_lossy();
            let row = |line: &&str| line.starts_with(&format!("| {} |", error.what)) && line.contains(&*file);
            assert!(design.lines().any(|line| row(&line)), "docs/design/proof.md has no row for: {}", error.what);
        }
    }

    #[test]
    fn the_order_of_steps_is_read_from_what_a_test_prints() {
        assert_eq!(schedule("panicked\nfailing schedule:\n\"\n91023f\n00\n\"\npass that"), Some("91023f\n00"));
        assert_eq!(schedule("test failed"), None);
        let printed = "thread 'a' panicked at src/a.rs:1:2:\nlost\nthread 'a' panicked at src/b.rs:3:4:\nagain\n";
        assert_eq!(panic_in(printed), Some(("src/a.rs:1:2:", "lost")));
    }
}
