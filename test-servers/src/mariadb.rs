//! A MariaDB or MySQL server.

use std::fmt::Write as _;
use std::io::Read as _;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::folder::Folder;
use crate::process::Process;
use crate::product::{Installation, OfMariaDb, OfMySql, OfProduct};
use crate::tls::{self, TlsOffer};
use crate::{Error, Result, client, port};

/// The user who may do everything on the server, and the name of its database.
const NAME: &str = "scratchbook";

const LOG: &str = "server.log";

/// A running MariaDB server. It ends when this value is dropped or the process ends.
pub type MariaDb = MySqlServer<OfMariaDb>;

/// A running MySQL server. It ends when this value is dropped or the process ends.
pub type MySql = MySqlServer<OfMySql>;

/// How a MariaDB or MySQL server is started. By default, it keeps what it has acknowledged even if it is killed.
#[derive(Clone, Debug, Default)]
pub struct MySqlOptions {
    lines: Vec<String>,
    tls: TlsOffer,
}

impl MySqlOptions {
    /// Lets the operating system decide when data is written to the disk, for tests that crash no machine. Commits
    /// still survive if the server dies.
    #[must_use]
    pub fn with_fast_disk(self) -> Self {
        self.with_line("innodb_flush_log_at_trx_commit = 2").with_line("innodb_doublewrite = 0")
    }

    /// Also accepts encrypted connections, with a certificate of [`MariaDb::authority`].
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.tls = TlsOffer::Offered;
        self
    }

    /// Accepts only encrypted connections, with a certificate of [`MariaDb::authority`].
    #[must_use]
    pub fn with_tls_only(mut self) -> Self {
        self.tls = TlsOffer::Required;
        self
    }

    /// Adds a line to the section `[mysqld]` of its configuration.
    #[must_use]
    pub fn with_line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }
}

/// A running server of one product.
#[derive(Debug)]
pub struct MySqlServer<P: OfProduct> {
    process: Mutex<Option<Process>>,
    installation: Installation,
    product: PhantomData<P>,
    port: u16,
    password: String,
    authority: Option<PathBuf>,
    // The folder is dropped last, so that it is removed only after the server has ended.
    folder: Folder,
}

impl<P: OfProduct> MySqlServer<P> {
    /// Sets a server up and starts it. It has a user with all rights and a database, both called `scratchbook`.
    ///
    /// # Errors
    ///
    /// The product is not installed, there is no user to run it as, or it does not start. The message has its log.
    pub fn start(options: &MySqlOptions) -> Result<Self> {
        let server = Self::set_up(port::free()?, format!("{:016x}", port::random()), options)?;
        server.start_first(&[])?;
        Ok(server)
    }

    /// Returns whether the product is installed.
    #[must_use]
    pub fn is_installed() -> bool {
        P::PRODUCT.find().is_ok()
    }

    /// Makes what a server needs to start.
    pub(crate) fn set_up(port: u16, password: String, options: &MySqlOptions) -> Result<Self> {
        let installation = P::PRODUCT.find()?;
        let folder = Folder::new("scratchbook-my-", P::PRODUCT.account()?)?;
        let data = folder.create("data")?;
        P::PRODUCT.initialize(&installation, &folder, &data)?;
        let mut configuration = configuration(&folder, port, &installation, options);
        let authority = set_up_tls(&folder, options.tls, &mut configuration)?;
        folder.write("my.cnf", &configuration)?;
        let process = Mutex::default();
        Ok(Self { process, installation, product: PhantomData, port, password, authority, folder })
    }

    /// Starts the server for the first time, and creates its user and its database.
    pub(crate) fn start_first(&self, arguments: &[String]) -> Result<()> {
        let first = self.folder.write("first.sql", &P::PRODUCT.first_statements(NAME, &self.password))?;
        let mut all = vec![format!("--init-file={}", first.display())];
        all.extend_from_slice(arguments);
        self.run(&all)
    }

    /// Returns the address, as a URI with the name and password of the user with all rights.
    pub fn uri(&self) -> String {
        format!("mysql://{NAME}:{}@127.0.0.1:{}/{NAME}", self.password, self.port)
    }

    /// Returns the port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the password of the user `scratchbook`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Returns the certificate of the authority that signed the server's certificate; `None` without TLS.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// Returns what the client prints for a statement. Tabs separate the values of a row.
    ///
    /// # Errors
    ///
    /// There is no such client, or it fails. The message is the client's.
    pub fn ask(&self, sql: &str) -> Result<String> {
        client::mysql(&self.installation.client, NAME, self.port, &self.password, sql)
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

    /// Stops the server in an orderly way.
    ///
    /// # Errors
    ///
    /// The server does not stop. It is then killed.
    pub fn stop(&self) -> Result<()> {
        match self.process().take() {
            Some(mut process) => process.stop(&self.folder, "TERM"),
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
        self.run(&[])
    }

    pub(crate) fn run(&self, arguments: &[String]) -> Result<()> {
        let (program, mut all) = self.installation.server.with(&[self.configuration_option()]);
        all.extend_from_slice(arguments);
        // Another server may listen on the port, so the process id is compared, too.
        let pid_file = self.folder.path().join("pid");
        let ready = |id: u32| {
            let is_its = std::fs::read_to_string(&pid_file).is_ok_and(|text| text.trim() == id.to_string());
            is_its && greets(self.port)
        };
        *self.process() = Some(Process::start(&self.folder, program, &all, LOG, ready)?);
        Ok(())
    }

    /// Returns the position of the last transaction in the data of a dead node of a cluster.
    pub(crate) fn recover_position(&self) -> Result<String> {
        const FOUND: &str = "Recovered position:";
        const RECOVERY_LOG: &str = "recover.err";
        let arguments = [self.configuration_option(), "--wsrep-recover".into(), format!("--log-error={RECOVERY_LOG}")];
        let (program, arguments) = self.installation.server.with(&arguments);
        let path = self.folder.path().join("data").join(RECOVERY_LOG);
        // The log of an earlier recovery has an old position.
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Error::io(path.display(), &error));
        }
        let position = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.lines().rev().find_map(|line| Some(line.split_once(FOUND)?.1.trim().to_owned()))
        };
        // Now and then, the server has written the position and does not end.
        self.folder.run_until(program, &arguments, || position().is_some())?;
        let log = || self.folder.tail(&format!("data/{RECOVERY_LOG}"));
        position().ok_or_else(|| Error::new(format!("no '{FOUND}' in what mariadbd said:\n{}", log())))
    }

    /// Returns the end of the server's log.
    pub(crate) fn log(&self) -> String {
        self.folder.tail(LOG)
    }

    fn configuration_option(&self) -> String {
        format!("--defaults-file={}", self.folder.path().join("my.cnf").display())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: OfProduct> Drop for MySqlServer<P> {
    fn drop(&mut self) {
        // Its data is not needed any more. A drop cannot report a failure; in this case, the watchdog kills the server.
        let _ = self.kill();
    }
}

fn configuration(folder: &Folder, port: u16, installation: &Installation, options: &MySqlOptions) -> String {
    let here = folder.path().display();
    let mut text = format!(
        "[mysqld]\ndatadir = {here}/data\nsocket = {here}/s\npid-file = {here}/pid\ntmpdir = {here}\n\
         bind-address = 127.0.0.1\nport = {port}\nskip-name-resolve\nmax_connections = 300\n\
         max_allowed_packet = 64M\ncharacter-set-server = utf8mb4\nperformance_schema = OFF\n"
    );
    for line in installation.lines.iter().chain(&options.lines) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Makes certificates if TLS is used, and adds them to the configuration. Returns the certificate of the authority.
fn set_up_tls(folder: &Folder, tls: TlsOffer, configuration: &mut String) -> Result<Option<PathBuf>> {
    if tls == TlsOffer::Off {
        return Ok(None);
    }
    let files = tls::make(folder)?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let only = if tls == TlsOffer::Required { "ON" } else { "OFF" };
    // Writing to a string cannot fail.
    let _ = writeln!(configuration, "ssl-cert = {certificate}\nssl-key = {key}\nrequire_secure_transport = {only}");
    Ok(Some(files.authority))
}

/// Returns whether a server on this port greets a client with version 10 of its protocol, and not with an error.
fn greets(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(mut connection) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let mut first = [0; 5];
    let read =
        connection.set_read_timeout(Some(Duration::from_secs(1))).and_then(|()| connection.read_exact(&mut first));
    read.is_ok() && first[4] == 10
}
