//! A browser to drive: Chromium behind its W3C WebDriver server.

use std::net::TcpStream;

use crate::account::ServerAccount;
use crate::folder::Folder;
use crate::process::Process;
use crate::{Error, Result, port, programs};

const LOG: &str = "chromedriver.log";

/// A chromedriver, which starts a browser for each WebDriver session. When it ends, all its browsers end.
#[derive(Debug)]
pub struct ChromeDriver {
    process: Process,
    port: u16,
    // This is dropped last, because it has the browsers' profiles.
    folder: Folder,
}

impl ChromeDriver {
    /// Starts a chromedriver on a port of the loopback interface.
    ///
    /// # Errors
    ///
    /// No chromedriver is installed, there is no user to run it as, or it does not start. The message has its log.
    pub fn start() -> Result<Self> {
        let missing = || Error::new("no chromedriver found; Debian: chromium chromium-driver");
        let program = programs::find("chromedriver").ok_or_else(missing)?;
        let folder = Folder::new("scratchbook-cd-", ServerAccount::unprivileged(&["nobody"])?)?;
        let port = port::free()?;
        let ready = |_| TcpStream::connect(("127.0.0.1", port)).is_ok();
        let process = Process::start(&folder, &program, &[format!("--port={port}")], LOG, ready)?;
        Ok(Self { process, port, folder })
    }

    /// Returns the address on which it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for ChromeDriver {
    fn drop(&mut self) {
        // If this fails, the watchdog of the folder ends the process.
        let _ = self.process.kill(&self.folder);
    }
}
