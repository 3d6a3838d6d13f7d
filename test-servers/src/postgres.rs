//! A PostgreSQL server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::account::Account;
use crate::folder::Folder;
use crate::process::Process;
use crate::tls::{self, Tls};
use crate::{Error, Result, client, port, programs};

/// The role that owns everything on the server, and the name of its database.
const NAME: &str = "scratchbook";

const LOG: &str = "server.log";

/// How a PostgreSQL server is started. By default it keeps what it has acknowledged, also when it is killed.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    settings: Vec<(String, String)>,
    tls: Tls,
}

impl PostgresOptions {
    /// Leaves it to the operating system when something is written to the disk: for tests that crash no machine.
    /// What is committed still survives the server's own death.
    #[must_use]
    pub fn with_fast_disk(self) -> Self {
        self.with_setting("fsync", "off").with_setting("full_page_writes", "off")
    }

    /// Takes encrypted connections too, with a certificate of [`Postgres::authority`].
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.tls = Tls::Offered;
        self
    }

    /// Takes encrypted connections alone, with a certificate of [`Postgres::authority`].
    #[must_use]
    pub fn with_tls_only(mut self) -> Self {
        self.tls = Tls::Required;
        self
    }

    /// Adds a setting, as a line of `postgresql.conf`.
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// A running PostgreSQL server, which ends when this is dropped or the process ends.
#[derive(Debug)]
pub struct Postgres {
    process: Mutex<Option<Process>>,
    programs: PathBuf,
    port: u16,
    password: String,
    authority: Option<PathBuf>,
    // Dropped last: the folder goes when nothing runs in it any more.
    folder: Folder,
}

impl Postgres {
    /// Sets a server up and starts it, with a superuser and a database called `scratchbook`.
    ///
    /// # Errors
    ///
    /// No PostgreSQL is installed, nobody is there to run it as, or it does not start; the message has its log.
    pub fn start(options: &PostgresOptions) -> Result<Self> {
        let (programs, folder) = prepare()?;
        let password = format!("{:016x}", port::random());
        folder.write("password", &password)?;
        init(&folder, &programs.join("initdb"))?;
        create_database(&folder, &programs.join("postgres"))?;
        let port = port::free()?;
        configure(&folder, port, options)?;
        let authority = set_up_tls(&folder, options.tls)?;
        let server = Self { process: Mutex::default(), programs, port, password, authority, folder };
        server.restart()?;
        Ok(server)
    }

    /// Starts a server that follows this one and can be read from.
    pub(crate) fn start_standby(&self, options: &PostgresOptions) -> Result<Self> {
        let (programs, folder) = prepare()?;
        let from = format!("host=127.0.0.1 port={} user={NAME} password={}", self.port, self.password);
        let copy = ["-D", "data", "-d", &from, "-R", "-X", "stream", "-c", "fast", "--no-sync"];
        folder.run(&programs.join("pg_basebackup"), &copy)?;
        let port = port::free()?;
        // Behind the settings that were copied along, so these are the ones that count.
        configure(&folder, port, options)?;
        let password = self.password.clone();
        let server = Self { process: Mutex::default(), programs, port, password, authority: None, folder };
        server.restart()?;
        Ok(server)
    }

    /// Makes a standby a server of its own, which can be written to.
    pub(crate) fn promote(&self) -> Result<()> {
        self.folder.run(&self.programs.join("pg_ctl"), &["promote", "-w", "-D", "data"])
    }

    /// Changes a setting while the server runs; returns when it applies.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        self.folder.append("data/postgresql.conf", &format!("{name} = '{value}'\n"))?;
        self.ask("SELECT pg_reload_conf()")?;
        // A server takes its settings a moment later.
        while self.ask(&format!("SHOW {name}"))? != value {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The address, as a URI with the name and password of the superuser.
    pub fn uri(&self) -> String {
        format!("postgresql://{NAME}:{}@127.0.0.1:{}/{NAME}", self.password, self.port)
    }

    /// The port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of the superuser `scratchbook`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The certificate of the authority that signed the server's, if it has one.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// What `psql` prints for a statement, values of a row separated by `|`.
    ///
    /// # Errors
    ///
    /// There is no `psql`, or it fails; the message is what it says.
    pub fn ask(&self, sql: &str) -> Result<String> {
        client::psql(&self.programs.join("psql"), &self.uri(), sql)
    }

    /// The same in another database of the server.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub fn ask_in(&self, database: &str, sql: &str) -> Result<String> {
        let uri = format!("postgresql://{NAME}:{}@127.0.0.1:{}/{database}", self.password, self.port);
        client::psql(&self.programs.join("psql"), &uri, sql)
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

    /// Stops the server in an orderly way, without waiting for its clients.
    ///
    /// # Errors
    ///
    /// It does not stop; it is killed then.
    pub fn stop(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.stop(&self.folder, "INT"),
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
        let data = self.data();
        let arguments = ["-D".to_owned(), data.to_string_lossy().into_owned()];
        let ready = |id| is_ready(&data, id);
        let process = Process::start(&self.folder, &self.programs.join("postgres"), &arguments, LOG, ready)?;
        *self.process() = Some(process);
        Ok(())
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        self.folder.tail(LOG)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Faster than an orderly end, and it gives back the shared memory that a killed server would leave.
        // A drop has nobody to tell of a failure; the watchdog kills what is left.
        if let Some(mut process) = self.process().take() {
            let _ = process.stop(&self.folder, "QUIT");
        }
    }
}

/// The programs, and a folder to run them in.
fn prepare() -> Result<(PathBuf, Folder)> {
    let programs = programs::postgres().ok_or_else(|| {
        Error::new("no PostgreSQL server (initdb, postgres) in PATH or /usr/lib/postgresql; Debian: postgresql")
    })?;
    Ok((programs, Folder::new("scratchbook-pg-", Account::unprivileged(&["postgres", "nobody"])?)?))
}

fn init(folder: &Folder, initdb: &Path) -> Result<()> {
    let always = ["-D", "data", "-U", NAME, "--pwfile=password", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"];
    // With a language's order of strings, a comparison that forgot to say COLLATE "C" shows; versions before 15 and
    // builds without ICU have none that is there everywhere.
    let with_language = [&always[..], &["--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]].concat();
    folder.run(initdb, &with_language).or_else(|_| folder.run(initdb, &[&always[..], &["--locale=C"]].concat()))
}

/// Makes the database while there is no server that asks for a password.
fn create_database(folder: &Folder, postgres: &Path) -> Result<()> {
    let sql = folder.write("create.sql", &format!("CREATE DATABASE {NAME}\n"))?;
    let script = format!(r#""$0" --single -j -D data postgres <"{}""#, sql.display());
    folder.run(Path::new("sh"), &["-c", &script, &postgres.to_string_lossy()])
}

fn configure(folder: &Folder, port: u16, options: &PostgresOptions) -> Result<()> {
    let mut text = String::new();
    let mut set = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
    };
    set("listen_addresses", "127.0.0.1");
    set("port", &port.to_string());
    set("unix_socket_directories", &folder.path().to_string_lossy());
    set("max_connections", "300");
    // In the folder, with which it goes also after the server was killed.
    set("dynamic_shared_memory_type", "mmap");
    for (name, value) in &options.settings {
        set(name, value);
    }
    folder.append("data/postgresql.conf", &text)
}

/// Makes certificates where they are wanted; gives the authority's.
fn set_up_tls(folder: &Folder, tls: Tls) -> Result<Option<PathBuf>> {
    if tls == Tls::Off {
        return Ok(None);
    }
    let files = tls::make(folder)?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let settings = format!("ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n");
    folder.append("data/postgresql.conf", &settings)?;
    if tls == Tls::Required {
        folder.write("data/pg_hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\n")?;
    }
    Ok(Some(files.authority))
}

/// The server says in its lock file whether it takes clients: its id in the first line, its state in the eighth.
fn is_ready(data: &Path, id: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(data.join("postmaster.pid")) else { return false };
    let mut lines = text.lines();
    let is_its = lines.next().is_some_and(|first| first.trim() == id.to_string());
    is_its && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}
