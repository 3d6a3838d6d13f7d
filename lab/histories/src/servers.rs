//! Server processes of one database, which can be killed, paused and started again.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use scratchbook::store::connect;
use scratchbook_server::Server;
use tokio::net::TcpListener;

use crate::clock::ServerClock;
use crate::faults::FaultError;

/// How many times a server is started if it ends during its start.
const STARTS: usize = 20;

/// The pause before each of these starts.
const PAUSE: Duration = Duration::from_millis(500);

/// A server in a process of its own, on the loopback interface.
#[derive(Debug)]
pub struct ServerProcess {
    program: PathBuf,
    database: String,
    port: u16,
    clock: Option<ServerClock>,
    child: Child,
}

impl ServerProcess {
    /// Starts `program serve DATABASE`, and waits until it serves. `program` is the command `histories`.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or does not serve.
    pub fn start(program: impl Into<PathBuf>, database: &str) -> Result<Self, FaultError> {
        let program = program.into();
        let clock = ServerClock::new()?;
        let (child, port) = start(&program, database, 0, clock.as_ref())?;
        Ok(Self { program, database: database.to_owned(), port, clock, child })
    }

    /// Returns the base URL, which stays the same when the server is started again.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the server's clock; `None` if the server uses the machine's clock.
    pub(crate) fn clock(&self) -> Option<&ServerClock> {
        self.clock.as_ref()
    }

    /// Kills the server as a crash would, and starts it again.
    ///
    /// # Errors
    ///
    /// The server cannot be started again.
    pub fn crash(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        // A server ends during its start if it does not reach its database, which has faults, too.
        let start = || start(&self.program, &self.database, self.port, self.clock.as_ref());
        (self.child, self.port) = until_started(start)?;
        Ok(())
    }

    /// Pauses the server until [`resume`](Self::resume). Its connections and locks stay.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets the server run again.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.ok_or_else(|| io::Error::other("the server has no process id"))?, signal)?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server that was killed. Tries several times if it does not start at once.
pub(crate) fn until_started<T, E>(start: impl Fn() -> Result<T, E>) -> Result<T, E> {
    for _ in 0..STARTS {
        if let Ok(started) = start() {
            return Ok(started);
        }
        sleep(PAUSE);
    }
    start()
}

fn start(program: &PathBuf, database: &str, port: u16, clock: Option<&ServerClock>) -> io::Result<(Child, u16)> {
    let mut command = Command::new(program);
    if let Some(clock) = clock {
        clock.give_to(&mut command);
    }
    command.args(["serve", database, "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    match line.trim().parse() {
        Ok(port) => Ok((child, port)),
        Err(_) => Err(io::Error::other(format!("the server of {program:?} says no port, but '{}'", line.trim()))),
    }
}

/// Serves a database in this process until it is killed, and prints the port.
///
/// # Errors
///
/// The database cannot be opened, or the port is taken.
pub async fn serve(database: &str, port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let store = connect(database).await?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    println!("{}", listener.local_addr()?.port());
    Server::builder(store).build()?.run(listener, std::future::pending()).await?;
    Ok(())
}
