//! The two servers, each a process with its own SQLite file. They log only warnings and errors.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::ServeClient;

/// A running server. It ends when this value is dropped.
pub(crate) struct ServedProcess {
    process: Child,
    pub(crate) port: u16,
    /// How many sessions a round of changes uses: enough that each session is changed at most ten times.
    pub(crate) pool: usize,
    _folder: TempDir,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the path of the binary that is measured.
pub(crate) fn binary() -> PathBuf {
    let binary = std::env::var_os("SCRATCHBOOK_BINARY").map(PathBuf::from);
    let binary = binary.unwrap_or_else(|| root().join("target/release/scratchbook"));
    assert!(
        binary.is_file(),
        "there is no {}; cargo build --locked --profile bench -p scratchbook-cli makes it",
        binary.display()
    );
    binary
}

/// Returns a port on which no process listens now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl ServedProcess {
    pub(crate) fn scratchbook() -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = Command::new(binary());
        command.args(["serve", "--log-level", "warn", "--port", &port.to_string()]);
        command.arg("--database").arg(format!("sqlite://{}/sessions.db", folder.path().display()));
        Self::start(command, port, 8_000, folder)
    }

    pub(crate) fn adk() -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let agent = folder.path().join("agents/demo");
        fs::create_dir_all(&agent).unwrap();
        fs::write(agent.join("__init__.py"), "from . import agent\n").unwrap();
        let code = "from google.adk.agents import Agent\nroot_agent = Agent(name='demo', model='none')\n";
        fs::write(agent.join("agent.py"), code).unwrap();
        let python = std::env::var_os("SCRATCHBOOK_TEST_PYTHON").map(PathBuf::from);
        let python = python.unwrap_or_else(|| root().join("target/python/bin/python"));
        let mut command = Command::new(python);
        command.args(["-m", "google.adk.cli", "api_server", "--log_level", "warning", "--port", &port.to_string()]);
        // This is SQLAlchemy's form, in which the path comes after the third slash.
        let database = format!("sqlite:///{}/sessions.db", folder.path().display());
        command.args(["--session_service_uri", &database, "--artifact_service_uri", "memory://"]);
        command.arg(folder.path().join("agents"));
        Self::start(command, port, 400, folder)
    }

    fn start(mut command: Command, port: u16, pool: usize, folder: TempDir) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { process, port, pool, _folder: folder };
        let began = Instant::now();
        while !is_up(port) {
            assert!(began.elapsed() < Duration::from_secs(120), "{command:?} does not answer");
            sleep(Duration::from_millis(50));
        }
        server
    }
}

/// Returns whether a server answers on this port.
pub(crate) fn is_up(port: u16) -> bool {
    ServeClient::connect(port)
        .and_then(|mut client| client.send("GET", "/health", ""))
        .is_some_and(|(status, _)| status == 200)
}

impl Drop for ServedProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
