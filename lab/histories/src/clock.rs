//! The clock of a server process. libfaketime sets it forward and back while the process runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::faults::FaultError;

/// Where packages install the library.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The clock of one server process.
#[derive(Debug)]
pub(crate) struct ServerClock {
    library: PathBuf,
    folder: TempDir,
}

impl ServerClock {
    /// Creates a clock that is right. Returns `None` if libfaketime is not installed.
    pub(crate) fn new() -> Result<Option<Self>, FaultError> {
        let Some(library) = LIBRARIES.into_iter().map(PathBuf::from).find(|path| path.is_file()) else {
            return Ok(None);
        };
        let clock = Self { library, folder: tempfile::tempdir()? };
        clock.set(0)?;
        Ok(Some(clock))
    }

    /// Sets the clock to this many seconds after the right time, or before it if the number is negative. The process
    /// notices within a second.
    pub(crate) fn set(&self, seconds: i64) -> Result<(), FaultError> {
        // The file is replaced as a whole, so the process never reads a part of it.
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{seconds:+}s\n"))?;
        Ok(std::fs::rename(new, self.file())?)
    }

    /// Gives a process this clock. Durations that the process measures stay right.
    pub(crate) fn give_to(&self, process: &mut Command) {
        process.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", self.file());
        process.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        process.env("FAKETIME_NO_CACHE", "0").env("FAKETIME_XRESET", "0");
    }

    fn file(&self) -> PathBuf {
        Path::new(self.folder.path()).join("time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_clock_that_it_is_given() {
        let Some(clock) = ServerClock::new().unwrap() else {
            println!("LEFT OUT: libfaketime is not installed");
            return;
        };
        let seconds = || {
            let mut date = Command::new("date");
            clock.give_to(date.arg("+%s"));
            String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse::<i64>().unwrap()
        };
        let right = seconds();
        clock.set(-7200).unwrap();
        let early = seconds();
        clock.set(7200).unwrap();
        let late = seconds();
        assert!((7190..7300).contains(&(right - early)), "{right} {early}");
        assert!((7190..7300).contains(&(late - right)), "{right} {late}");
    }
}
