//! A PostgreSQL server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::account::ServerAccount;
use crate::folder::Folder;
use crate::process::Process;
use crate::tls::{self, TlsOffer};
use crate::{Error, Result, client, port, programs};

/// The role that owns everything on the server, and the name of its database.
const NAME: &str = "scratchbook";

const LOG: &str = "server.log";

/// How a PostgreSQL server is started. By default, it keeps what it has acknowledged even if it is killed.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    settings: Vec<(String, String)>,
    tls: TlsOffer,
}

impl PostgresOptions {
    /// Lets the operating system decide when data is written to the disk, for tests that crash no machine. Commits
    /// still survive if the server dies.
    #[must_use]
    pub fn with_fast_disk(self) -> Self {
        self.with_setting("fsync", "off").with_setting("full_page_writes", "off")
    }

    /// Also accepts encrypted connections, with a certificate of [`Postgres::authority`].
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.tls = TlsOffer::Offered;
        self
    }

    /// Accepts only encrypted connections, with a certificate of [`Postgres::authority`].
    #[must_use]
    pub fn with_tls_only(mut self) -> Self {
        self.tls = TlsOffer::Required;
        self
    }

    /// Adds a setting, as a line of `postgresql.conf`.
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// A running PostgreSQL server. It ends when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Postgres {
    process: Mutex<Option<Process>>,
    programs: PathBuf,
    port: u16,
    password: String,
    authority: Option<PathBuf>,
    // The folder is dropped last, so that it is removed only after the server has ended.
    folder: Folder,
}

impl Postgres {
    /// Sets a server up and starts it, with a superuser and a database called `scratchbook`.
    ///
    /// # Errors
    ///
    /// No PostgreSQL is installed, there is no user to run it as, or it does not start. The message has its log.
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
        // These settings come after the copied ones, so that they take effect.
        configure(&folder, port, options)?;
        let password = self.password.clone();
        let server = Self { process: Mutex::default(), programs, port, password, authority: None, folder };
        server.restart()?;
        Ok(server)
    }

    /// Promotes a standby to a server that takes writes.
    pub(crate) fn promote(&self) -> Result<()> {
        self.folder.run(&self.programs.join("pg_ctl"), &["promote", "-w", "-D", "data"])
    }

    /// Changes a setting while the server runs, and returns when it has taken effect.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        self.folder.append("data/postgresql.conf", &format!("{name} = '{value}'\n"))?;
        self.ask("SELECT pg_reload_conf()")?;
        // A server applies its settings a moment later.
        while self.ask(&format!("SHOW {name}"))? != value {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the address, as a URI with the name and password of the superuser.
    pub fn uri(&self) -> String {
        format!("postgresql://{NAME}:{}@127.0.0.1:{}/{NAME}", self.password, self.port)
    }

    /// Returns the port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the password of the superuser `scratchbook`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Returns the certificate of the authority that signed the server's certificate; `None` without TLS.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// Returns what `psql` prints for a statement. A `|` separates the values of a row.
    ///
    /// # Errors
    ///
    /// There is no `psql`, or it fails. The message is that of `psql`.
    pub fn ask(&self, sql: &str) -> Result<String> {
        client::psql(&self.programs.join("psql"), &self.uri(), sql)
    }

    /// Does the same as [`ask`](Self::ask) in another database of the server.
    ///
    /// # Errors
    ///
    /// The errors of [`ask`](Self::ask).
    pub fn ask_in(&self, database: &str, sql: &str) -> Result<String> {
        let uri = format!("postgresql://{NAME}:{}@127.0.0.1:{}/{database}", self.password, self.port);
        client::psql(&self.programs.join("psql"), &uri, sql)
    }

    /// Returns the folder with all files of this server: its data, its log, its socket.
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
    /// The server does not stop. It is then killed.
    pub fn stop(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.stop(&self.folder, "INT"),
            None => Ok(()),
        }
    }

    /// Starts the server again on its folder and its port. If it runs, it is stopped first.
    ///
    /// # Errors
    ///
    /// The server does not stop or start. The message has its log.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        let data = self.data();
        let arguments = ["-D".to_owned(), data.to_string_lossy().into_owned()];
        let ready = |id| is_ready(&data, id);
        let process = Process::start(&self.folder, &self.programs.join("postgres"), &arguments, LOG, ready)?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Returns the end of the server's log.
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
        // This is faster than an orderly end, and frees the shared memory that a killed server would leave. A drop
        // cannot report a failure; in this case, the watchdog kills the server.
        if let Some(mut process) = self.process().take() {
            let _ = process.stop(&self.folder, "QUIT");
        }
    }
}

/// Returns the folder of the programs, and a folder to run them in.
fn prepare() -> Result<(PathBuf, Folder)> {
    let programs = programs::postgres().ok_or_else(|| {
        Error::new("no PostgreSQL server (initdb, postgres) in PATH or /usr/lib/postgresql; Debian: postgresql")
    })?;
    Ok((programs, Folder::new("scratchbook-pg-", ServerAccount::unprivileged(&["postgres", "nobody"])?)?))
}

fn init(folder: &Folder, initdb: &Path) -> Result<()> {
    let always = ["-D", "data", "-U", NAME, "--pwfile=password", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"];
    // With a language's order of strings, tests find a comparison without COLLATE "C". Versions before 15 and builds
    // without ICU have no language that is available everywhere.
    let with_language = [&always[..], &["--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]].concat();
    folder.run(initdb, &with_language).or_else(|_| folder.run(initdb, &[&always[..], &["--locale=C"]].concat()))
}

/// Creates the database in single-user mode, which needs no password.
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
    // Shared memory is then in the folder, and is removed with it even if the server was killed.
    set("dynamic_shared_memory_type", "mmap");
    for (name, value) in &options.settings {
        set(name, value);
    }
    folder.append("data/postgresql.conf", &text)
}

/// Makes certificates if TLS is used. Returns the certificate of the authority.
fn set_up_tls(folder: &Folder, tls: TlsOffer) -> Result<Option<PathBuf>> {
    if tls == TlsOffer::Off {
        return Ok(None);
    }
    let files = tls::make(folder)?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let settings = format!("ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n");
    folder.append("data/postgresql.conf", &settings)?;
    if tls == TlsOffer::Required {
        folder.write("data/pg_hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\n")?;
    }
    Ok(Some(files.authority))
}

/// Returns whether the server takes clients. Its lock file has its process id in the first line and its state in the
/// eighth.
fn is_ready(data: &Path, id: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(data.join("postmaster.pid")) else { return false };
    let mut lines = text.lines();
    let is_its = lines.next().is_some_and(|first| first.trim() == id.to_string());
    is_its && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}
