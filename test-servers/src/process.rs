//! A server process: started, waited for, stopped, killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::folder::{Folder, wait};
use crate::{Error, Result};

/// How long a server may take to start or stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: String,
}

impl Process {
    /// Starts a server and waits until it takes clients. `ready` receives the server's process id, and returns whether
    /// it does.
    pub(crate) fn start(
        folder: &Folder,
        program: &Path,
        arguments: &[String],
        log: &str,
        ready: impl Fn(u32) -> bool,
    ) -> Result<Self> {
        let name = program.display().to_string();
        let mut command = folder.command(program, log)?;
        let child = command.args(arguments).spawn().map_err(|error| Error::io(&name, &error))?;
        let mut process = Self { child, log: log.to_owned() };
        let start = Instant::now();
        while !ready(process.child.id()) {
            if let Some(status) = process.child.try_wait().map_err(|error| Error::io(&name, &error))? {
                folder.forget(&process.child);
                return Err(Error::new(format!("{name} ended at its start with {status}:\n{}", folder.tail(log))));
            }
            if start.elapsed() > PATIENCE {
                process.kill(folder)?;
                return Err(Error::new(format!("{name} was not ready after {PATIENCE:?}:\n{}", folder.tail(log))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }

    /// Returns the server's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server with all its children, as a crash would.
    pub(crate) fn kill(&mut self, folder: &Folder) -> Result<()> {
        folder.kill(&mut self.child)
    }

    /// Sends the server a signal to end, and waits until it has ended.
    pub(crate) fn stop(&mut self, folder: &Folder, signal: &str) -> Result<()> {
        let failed = |error| Error::io("stop", &error);
        if self.child.try_wait().map_err(failed)?.is_none() {
            let mut kill = Command::new("sh");
            kill.args(["-c", r#"kill -s "$1" "$2""#, "sh", signal, &self.child.id().to_string()]);
            kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().map_err(failed)?;
            if wait(&mut self.child, PATIENCE).map_err(failed)?.is_none() {
                self.kill(folder)?;
                return Err(Error::new(format!("did not stop within {PATIENCE:?}:\n{}", folder.tail(&self.log))));
            }
        }
        folder.forget(&self.child);
        Ok(())
    }
}
