//! A runner's process. If it hangs, dies or gives an invalid answer, only one cell fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{CellRequest, Hello, RunnerAnswer};

use crate::Result;
use crate::systems::System;

/// How long a cell may take with its preparation.
pub(crate) const CELL: Duration = Duration::from_secs(60);
/// How long a runner may take to end.
const END: Duration = Duration::from_secs(5);

/// A runner's process. When this value is dropped, the process and its child processes end.
pub(crate) struct RunnerProcess {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl RunnerProcess {
    /// Starts a runner, and reads its first line. Its standard error is written to a file.
    pub(crate) fn start(system: &System, location: &str, log: &Path) -> Result<(Self, Hello)> {
        let failed = |error: std::io::Error| format!("{}: {error}", system.command.join(" "));
        let (program, arguments) = system.command.split_first().ok_or("the command is empty")?;
        let log = File::options().create(true).append(true).open(log).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).args([system.argument.as_str(), location]).args(&system.id.service);
        command.current_dir(&system.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn().map_err(failed)?;
        let (sender, lines) = mpsc::channel();
        let input = process.stdin.take();
        if let Some(output) = process.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    // A line that is not UTF-8 ends the output, like the end of the process.
                    let Ok(line) = line else { break };
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut runner = Self { process, input, lines };
        let hello: Hello = runner.read("its first line")?;
        if !system.id.is_said_by(&hello) {
            return Err(format!("the runner says it is {} on {}", hello.system, hello.store));
        }
        Ok((runner, hello))
    }

    /// Asks for a measurement. After an `Err` the runner cannot be asked again.
    pub(crate) fn ask(&mut self, request: &CellRequest) -> Result<RunnerAnswer> {
        let mut line = serde_json::to_string(request).map_err(|error| format!("the request: {error}"))?;
        line.push('\n');
        let input = self.input.as_mut().ok_or("the runner has no standard input")?;
        let written = input.write_all(line.as_bytes()).and_then(|()| input.flush());
        written.map_err(|error| format!("the runner has ended: {error}"))?;
        let answer: RunnerAnswer = self.read("an answer")?;
        if let RunnerAnswer::Measured(measured) = &answer {
            measured.check()?;
        }
        Ok(answer)
    }

    fn read<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        match self.lines.recv_timeout(CELL) {
            Ok(line) => serde_json::from_str(&line).map_err(|_| {
                format!("the runner printed '{}' in place of {what}", line.chars().take(80).collect::<String>())
            }),
            Err(RecvTimeoutError::Timeout) => Err(format!("{what} did not come within {} s", CELL.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the runner ended before {what}")),
        }
    }
}

impl Drop for RunnerProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let start = Instant::now();
        while start.elapsed() < END && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The process group contains the runner's servers, which may still run.
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Removes a folder and makes it again.
pub(crate) fn empty_folder(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.exists() {
        fs::remove_dir_all(path).map_err(failed)?;
    }
    fs::create_dir_all(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::SystemId;

    const HELLO: &str = r#"echo '{"system":"s","version":"1","store":"memory","configuration":""}'"#;

    fn start(script: &str) -> Result<RunnerProcess> {
        let folder = tempfile::tempdir().unwrap();
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let (id, argument) = (SystemId::new("s", None, "memory"), "memory".to_owned());
        let system = System { id, argument, command, folder: folder.path().to_owned() };
        RunnerProcess::start(&system, "/", &folder.path().join("log")).map(|(runner, _)| runner)
    }

    fn request() -> CellRequest {
        CellRequest { workload: "append".to_owned(), size: 10, tasks: 1, seconds: 0.1, round: 1 }
    }

    #[test]
    fn a_runner_that_dies_or_answers_nonsense_is_an_error() {
        assert!(start("exit 3").err().unwrap().contains("ended before its first line"));
        assert!(start("echo hello").err().unwrap().contains("'hello'"));
        let mut dies = start(&format!("{HELLO}; read x; exit 1")).unwrap();
        assert!(dies.ask(&request()).unwrap_err().contains("ended before an answer"));
        let mut nonsense = start(&format!("{HELLO}; read x; echo 42")).unwrap();
        assert!(nonsense.ask(&request()).unwrap_err().contains("'42'"));
        let mut impossible = start(&format!("{HELLO}; read x; echo '{{\"operations\":1,\"seconds\":0}}'")).unwrap();
        assert!(impossible.ask(&request()).unwrap_err().contains("0 seconds"));
    }

    #[test]
    fn a_runner_of_another_system_is_an_error() {
        let other = HELLO.replace("\"s\"", "\"t\"");
        assert!(start(&other).err().unwrap().contains("says it is t"));
    }

    #[test]
    fn answers_are_returned_and_what_a_runner_started_ends_with_it() {
        let script = format!("{HELLO}; sleep 300 & echo $! > child; read x; echo '{{\"unsupported\":\"no\"}}'; read x");
        let mut runner = start(&script).unwrap();
        assert_eq!(runner.ask(&request()).unwrap(), RunnerAnswer::Unsupported { unsupported: "no".to_owned() });
        let group = runner.process.id();
        drop(runner);
        let group = rustix::process::Pid::from_raw(i32::try_from(group).unwrap()).unwrap();
        // An ended process may be listed until its parent has waited for it.
        let is_gone = || rustix::process::test_kill_process_group(group).is_err();
        assert!((0..200).any(|_| is_gone() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    }
}
