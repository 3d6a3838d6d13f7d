//! Starts programs at the root of the repository, and turns their failures into failures of a step.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step::Stop;

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// The subcommands of Cargo that change `Cargo.lock` if it is out of date, unless `--locked` forbids it.
pub(crate) const READS_LOCK: [&str; 9] =
    ["bench", "build", "doc", "install", "metadata", "run", "rustc", "test", "tree"];

/// Returns a call of `cargo` with these arguments, and with `--locked` if it reads a lock file.
pub(crate) fn cargo<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = program(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let (subcommand, rest) = words.split_at(words.len().min(1));
    command.args(subcommand);
    if subcommand.iter().any(|name| READS_LOCK.contains(name)) && !rest.contains(&"--locked") {
        command.arg("--locked");
    }
    command.args(rest);
    command
}

/// Returns a call of `cargo` in the workspace of `lab/`, whose settings name the same target folder.
pub(crate) fn lab<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = cargo(arguments);
    in_lab(&mut command);
    command
}

/// Lets a call of `cargo` run in the workspace of `lab/`.
pub(crate) fn in_lab(command: &mut Command) -> &mut Command {
    command.current_dir(root().join("lab"))
}

/// Returns a program at the root of the repository, without standard input.
pub(crate) fn program(path: impl AsRef<Path>) -> Command {
    let mut command = Command::new(path.as_ref());
    command.current_dir(root()).stdin(Stdio::null());
    // Build scripts would run again because of the variables that `cargo run` sets for this program.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Prints a command and runs it. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Stop> {
    let shown = show(command);
    println!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Stop::Failed(format!("`{shown}` ended with {status}"))),
        Err(error) => Err(Stop::Failed(format!("`{shown}` did not start: {error}"))),
    }
}

/// Prints a command, runs it, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, Stop> {
    let shown = show(command);
    println!("$ {shown}");
    let failed = |why: String| Stop::Failed(format!("`{shown}` {why}"));
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| failed(format!("did not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(failed(format!("ended with {}", output.status))) }
}

/// Runs every command, and fails with the names of all that failed.
pub(crate) fn run_all(commands: impl IntoIterator<Item = Command>) -> Result<(), Stop> {
    let (mut count, mut failed) = (0, Vec::new());
    for mut command in commands {
        count += 1;
        if run(&mut command).is_err() {
            failed.push(format!("`{}`", show(&command)));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!("{} of {count} commands: {}", failed.len(), failed.join(", "))))
}

pub(crate) fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words: Vec<String> = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}='{}'", name.to_string_lossy(), value.to_string_lossy()));
        }
    }
    words.push(program.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = cargo(&["doc", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(show(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps");
    }

    #[test]
    fn a_command_that_reads_a_lock_file_does_not_change_it() {
        assert_eq!(show(&cargo(&["test", "--", "--ignored"])), "cargo test --locked -- --ignored");
        assert_eq!(show(&cargo(&["bench", "--locked", "a"])), "cargo bench --locked a");
        assert_eq!(show(&cargo(&["fmt", "--all"])), "cargo fmt --all");
    }

    #[test]
    fn all_are_run_and_all_failures_named() {
        assert_eq!(run_all([cargo(&["--version"])]), Ok(()));
        let Err(Stop::Failed(why)) = run_all([cargo(&["no-such-a"]), cargo(&["no-such-b"])]) else {
            panic!("both fail");
        };
        assert!(why.contains("no-such-a") && why.contains("no-such-b"), "{why}");
        assert!(run(&mut program("no-such-program")).is_err());
    }
}
