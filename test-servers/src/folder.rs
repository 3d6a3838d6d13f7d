//! A folder of a server, and the watchdog that ends the server and removes the folder.
//!
//! The servers of a test process have to end with it, also if it is killed or does not drop its statics. So a shell in
//! a process group of its own reads from a pipe that only the test process holds. When the test process ends, the pipe
//! ends. The shell then kills the processes in the folder and removes the folder. Dropping a [`Folder`] only closes the
//! pipe.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::account::ServerAccount;
use crate::{Error, Result};

const WATCHDOG: &str = include_str!("watchdog.sh");

/// A command registers in `running` before it executes the program. If it cannot register, it does not execute the
/// program.
const REGISTER: &str = r#": >"$1/running/$$" || exit 1; shift; exec "$@""#;

/// How long a program may take until it ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a program may take until it ends after it has done its work.
const AFTER_DONE: Duration = Duration::from_secs(5);

/// A temporary folder that one user owns, with the processes that run in it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    account: ServerAccount,
    watchdog: Child,
}

impl Folder {
    /// Makes a folder. Its name is short enough for the path of a Unix socket in it.
    pub(crate) fn new(prefix: &str, account: ServerAccount) -> Result<Self> {
        // The usual temporary folder may be accessible only to our user.
        let places = [std::env::temp_dir(), PathBuf::from("/tmp")];
        let mut reason = Error::new("no temporary folder");
        for place in places {
            match Self::new_in(&place, prefix, account) {
                Ok(folder) => return Ok(folder),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    fn new_in(place: &Path, prefix: &str, account: ServerAccount) -> Result<Self> {
        let failed = |error| Error::io(format!("a folder in {}", place.display()), &error);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place).map_err(failed)?;
        account.own(folder.path())?;
        let mut command = script(&["watch", &folder.path().to_string_lossy()]);
        account.apply(&mut command);
        // The watchdog is not in our process group, since an interrupt from the terminal or a `kill` of the group would
        // reach it.
        command.current_dir(folder.path()).process_group(0);
        let running = folder.path().join("running");
        std::fs::create_dir(&running).map_err(failed)?;
        account.own(&running)?;
        let watchdog = command.stdin(Stdio::piped()).spawn().map_err(failed)?;
        Ok(Self { path: folder.keep(), account, watchdog })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder in this one.
    pub(crate) fn create(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).map_err(|error| Error::io(path.display(), &error))?;
        self.account.own(&path)?;
        Ok(path)
    }

    /// Writes a file in this folder, which nobody but its user can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let mut options = File::options();
        let open = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Error::io(path.display(), &error))?;
        self.account.own(&path)?;
        Ok(path)
    }

    /// Appends to a file that exists.
    pub(crate) fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        let open = File::options().append(true).open(&path);
        let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Error::io(path.display(), &error))
    }

    /// Returns a command that runs in this folder as the folder's user, without our environment, and writes into `log`.
    pub(crate) fn command(&self, program: &Path, log: &str) -> Result<Command> {
        let path = self.path.join(log);
        let failed = |error| Error::io(path.display(), &error);
        let log = File::options().append(true).create(true).open(&path).map_err(failed)?;
        let mut command = Command::new("sh");
        command.args(["-c", REGISTER, "sh"]).arg(&self.path).arg(program);
        command.env_clear().env("PATH", path_with_sbin()).env("HOME", &self.path).env("LC_ALL", "C");
        // Two installations of MariaDB at the same time would disturb each other in a shared folder.
        command.env("TMPDIR", &self.path);
        command.current_dir(&self.path).process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        self.account.apply(&mut command);
        Ok(command)
    }

    /// Runs a program until it ends. It has to succeed within two minutes.
    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, program: &Path, arguments: &[S]) -> Result<()> {
        self.run_until(program, arguments, || false)
    }

    /// Runs a program until it ends, for at most two minutes or a little more. A program that is `done` and has not ended
    /// five to ten seconds later is killed.
    pub(crate) fn run_until<S: AsRef<std::ffi::OsStr>>(
        &self,
        program: &Path,
        arguments: &[S],
        done: impl Fn() -> bool,
    ) -> Result<()> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = format!("{name}.log");
        let failed = |error| Error::io(&name, &error);
        let mut child = self.command(program, &log)?.args(arguments).spawn().map_err(failed)?;
        let (start, mut was_done) = (Instant::now(), false);
        let status = loop {
            if let Some(status) = wait(&mut child, AFTER_DONE).map_err(failed)? {
                self.forget(&child);
                break Some(status);
            }
            if was_done || (start.elapsed() > PATIENCE && !done()) {
                self.kill(&mut child)?;
                break None;
            }
            was_done = done();
        };
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Error::new(format!("{name} ended with {status}:\n{}", self.tail(&log)))),
            None if was_done => Ok(()),
            None => Err(Error::new(format!("{name} took longer than {PATIENCE:?}:\n{}", self.tail(&log)))),
        }
    }

    /// Kills a process and all its descendants, and waits for its end.
    pub(crate) fn kill(&self, child: &mut Child) -> Result<()> {
        let failed = |error| Error::io("kill", &error);
        // After the process was waited for, another process may have its id.
        if child.try_wait().map_err(failed)?.is_none() {
            script(&["kill", &child.id().to_string()]).stdin(Stdio::null()).status().map_err(failed)?;
            child.wait().map_err(failed)?;
        }
        self.forget(child);
        Ok(())
    }

    /// Sends a signal, such as `STOP`, to processes and all their descendants. Does nothing if they have ended.
    pub(crate) fn signal(&self, name: &str, processes: &[u32]) -> Result<()> {
        let ids = processes.iter().map(u32::to_string);
        let status = script(&["signal", name]).args(ids).stdin(Stdio::null()).status();
        match status.map_err(|error| Error::io("kill", &error))?.success() {
            true => Ok(()),
            false => Err(Error::new(format!("the processes {processes:?} cannot be sent {name}"))),
        }
    }

    /// Removes an ended process from the watchdog's list, since another process may get its id.
    pub(crate) fn forget(&self, child: &Child) {
        // If the program could not register, there is no such file, and the program's exit status has shown this.
        let _ = std::fs::remove_file(self.path.join("running").join(child.id().to_string()));
    }

    /// Copies a log, which goes with this folder.
    pub(crate) fn copy(&self, log: &str, to: &Path) -> Result<()> {
        std::fs::copy(self.path.join(log), to).map(drop).map_err(|error| Error::io(to.display(), &error))
    }

    /// Returns the end of a log, for a message.
    pub(crate) fn tail(&self, log: &str) -> String {
        const MOST: u64 = 4096;
        let read = || -> io::Result<String> {
            let mut file = File::open(self.path.join(log))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_else(|error| format!("({log}: {error})"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        // If the watchdog takes longer, it continues by itself. A drop cannot report this.
        let _ = wait(&mut self.watchdog, Duration::from_secs(10));
    }
}

/// Waits for the end of a process, for at most the time `most`.
pub(crate) fn wait(child: &mut Child, most: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > most {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", WATCHDOG, "watchdog"]).args(arguments);
    // Another program may read our output until it ends, and should not wait for the watchdog.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns `PATH` with more folders: servers may be in folders that a user's `PATH` does not have.
fn path_with_sbin() -> String {
    let own = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into());
    format!("{own}:/usr/local/sbin:/usr/sbin:/sbin")
}
