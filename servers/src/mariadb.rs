//! A MariaDB server.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::account::Account;
use crate::folder::Folder;
use crate::process::Process;
use crate::{Error, Result, port, programs};

/// The user who may do everything on the server, and the name of its database.
const NAME: &str = "scratchbook";

const LOG: &str = "server.log";

/// How a MariaDB server is started. By default it keeps what it has acknowledged, also when it is killed.
#[derive(Clone, Debug, Default)]
pub struct MariaDbOptions {
    lines: Vec<String>,
}

impl MariaDbOptions {
    /// Leaves it to the operating system when something is written to the disk: for tests that crash no machine.
    /// What is committed still survives the server's own death.
    #[must_use]
    pub fn with_fast_disk(self) -> Self {
        self.with_line("innodb_flush_log_at_trx_commit = 2").with_line("innodb_doublewrite = 0")
    }

    /// Adds a line to the section `[mariadbd]` of its configuration.
    #[must_use]
    pub fn with_line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }
}

/// A running MariaDB server, which ends when this is dropped or the process ends.
#[derive(Debug)]
pub struct MariaDb {
    process: Mutex<Option<Process>>,
    program: PathBuf,
    port: u16,
    password: String,
    // Dropped last: the folder goes when nothing runs in it any more.
    folder: Folder,
}

impl MariaDb {
    /// Sets a server up and starts it, with a user who may do everything and a database, both called `scratchbook`.
    ///
    /// # Errors
    ///
    /// No MariaDB is installed, nobody is there to run it as, or it does not start; the message has its log.
    pub fn start(options: &MariaDbOptions) -> Result<Self> {
        let missing = || Error::new("no MariaDB server (mariadb-install-db, mariadbd) found; Debian: mariadb-server");
        let install = programs::find("mariadb-install-db").ok_or_else(missing)?;
        let program = programs::find("mariadbd").ok_or_else(missing)?;
        let folder = Folder::new("scratchbook-my-", Account::unprivileged(&["mysql", "nobody"])?)?;
        let data = folder.create("data")?;
        let install_arguments = [
            "--no-defaults".to_owned(),
            format!("--datadir={}", data.display()),
            "--auth-root-authentication-method=normal".to_owned(),
            "--skip-test-db".to_owned(),
            "--skip-name-resolve".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
        ];
        folder.run(&install, &install_arguments)?;
        let (port, password) = (port::free()?, format!("{:016x}", port::random()));
        folder.write("my.cnf", &configuration(&folder, port, options))?;
        folder.write("first.sql", &first_statements(&password))?;
        let server = Self { process: Mutex::default(), program, port, password, folder };
        server.run(&[format!("--init-file={}", server.folder.path().join("first.sql").display())])?;
        Ok(server)
    }

    /// The address, as a URI with the name and password of the user who may do everything.
    pub fn uri(&self) -> String {
        format!("mysql://{NAME}:{}@127.0.0.1:{}/{NAME}", self.password, self.port)
    }

    /// The port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of the user `scratchbook`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The folder with everything of this server: its data, its log, its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server with all its children, as a crash would.
    ///
    /// # Errors
    ///
    /// The operating system does not let us.
    pub fn kill(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.kill(&self.folder),
            None => Ok(()),
        }
    }

    /// Stops the server in an orderly way.
    ///
    /// # Errors
    ///
    /// It does not stop; it is killed then.
    pub fn stop(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.stop(&self.folder, "TERM"),
            None => Ok(()),
        }
    }

    /// Starts the server again on its folder and its port; stops it first if it runs.
    ///
    /// # Errors
    ///
    /// It does not stop or start; the message has its log.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.run(&[])
    }

    fn run(&self, arguments: &[String]) -> Result<()> {
        let mut all = vec![format!("--defaults-file={}", self.folder.path().join("my.cnf").display())];
        all.extend_from_slice(arguments);
        // The port says nothing of who listens on it.
        let pid_file = self.folder.path().join("pid");
        let ready = |id: u32| {
            let is_its = std::fs::read_to_string(&pid_file).is_ok_and(|text| text.trim() == id.to_string());
            is_its && greets(self.port)
        };
        *self.process() = Some(Process::start(&self.folder, &self.program, &all, LOG, ready)?);
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // Nobody needs its data any more. A drop has nobody to tell of a failure; the watchdog kills what is left.
        let _ = self.kill();
    }
}

fn configuration(folder: &Folder, port: u16, options: &MariaDbOptions) -> String {
    let here = folder.path().display();
    let mut text = format!(
        "[mariadbd]\ndatadir = {here}/data\nsocket = {here}/s\npid-file = {here}/pid\ntmpdir = {here}\n\
         bind-address = 127.0.0.1\nport = {port}\nskip-name-resolve\nmax_connections = 300\n\
         max_allowed_packet = 64M\ncharacter-set-server = utf8mb4\nperformance_schema = OFF\n"
    );
    for line in &options.lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

fn first_statements(password: &str) -> String {
    format!(
        "CREATE DATABASE {NAME};\nCREATE USER '{NAME}'@'%' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON *.* TO '{NAME}'@'%' WITH GRANT OPTION;\n\
         ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';\n"
    )
}

/// Whether a server on this port greets who connects, with version 10 of its protocol and not with an error.
fn greets(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(mut connection) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let mut first = [0; 5];
    let read =
        connection.set_read_timeout(Some(Duration::from_secs(1))).and_then(|()| connection.read_exact(&mut first));
    read.is_ok() && first[4] == 10
}
