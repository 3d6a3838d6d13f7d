//! A server as a process of this program.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::params::StdioConnectionParams;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The variables of this program's environment that a server gets, as in ADK.
const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// How long a server may take to end by itself when its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// A running server. Dropping it kills the server and the processes that the server has started.
#[derive(Debug)]
pub(crate) struct McpProcess {
    child: Child,
    /// The process group, which has the id of the server.
    group: Option<u32>,
}

impl McpProcess {
    /// Starts a server, and returns it with its output and input.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the program cannot be started.
    pub(crate) fn start(params: &StdioConnectionParams) -> Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&params.command);
        command.args(&params.args).env_clear();
        for name in INHERITED {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&params.env).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(folder) = &params.cwd {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        command.process_group(0);
        let cannot = |error: std::io::Error| {
            let message = format!("the MCP server '{}' cannot be started: {error}", params.command);
            Error::new(ErrorKind::FailedPrecondition, message)
        };
        let mut child = command.spawn().map_err(cannot)?;
        let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(Error::internal("a process has no standard input or output"));
        };
        let group = child.id();
        Ok((Self { child, group }, output, input))
    }

    /// Waits up to two seconds until the server has ended, and then kills the processes that are left. The server's
    /// input has to be closed.
    pub(crate) async fn end(mut self) {
        // A server that has not ended by then is killed when `self` is dropped.
        if timeout(GRACE, self.child.wait()).await.is_ok() {
            kill_group(self.group);
        }
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        kill_group(self.child.id());
    }
}

/// Kills the processes of a group, if it still exists.
#[cfg(unix)]
fn kill_group(id: Option<u32>) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let group = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_id: Option<u32>) {}
