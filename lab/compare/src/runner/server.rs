//! `scratchbook serve` as a process.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::RunnerClient;
use crate::failure::{CellFailure, Result};
use crate::store::BenchStore;

/// A running server. It ends when this value is dropped.
pub(crate) struct MeasuredServer {
    process: Child,
    pub(crate) port: u16,
}

impl MeasuredServer {
    /// Starts the command that was built with this program, on a new database.
    pub(crate) fn start(bench: &BenchStore) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let database = match bench.store.as_str() {
            "sqlite" => format!("sqlite://{}/served.db", bench.location),
            other => crate::store::uri(other, &bench.location)?,
        };
        let mut command = Command::new(binary()?);
        command.args(["serve", "--log-level", "warn", "--port", &port.to_string(), "--database", &database]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let server = Self { process, port };
        let start = Instant::now();
        while RunnerClient::connect(port).and_then(|mut client| client.ask("GET", "/health", "")).is_err() {
            if start.elapsed() > Duration::from_secs(30) {
                return Err(CellFailure::new("scratchbook serve does not answer within 30 s"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Returns the path of the command: the value of `SCRATCHBOOK_BINARY`, or the command beside this program.
fn binary() -> Result<PathBuf> {
    let named = std::env::var_os("SCRATCHBOOK_BINARY").filter(|path| !path.is_empty()).map(PathBuf::from);
    let beside = std::env::current_exe()?.with_file_name(format!("scratchbook{}", std::env::consts::EXE_SUFFIX));
    let binary = named.unwrap_or(beside);
    if binary.is_file() {
        return Ok(binary);
    }
    Err(CellFailure::Unsupported(format!(
        "there is no {}; cargo build --locked -p scratchbook-cli makes it",
        binary.display()
    )))
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        // Both calls fail only if the server has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
