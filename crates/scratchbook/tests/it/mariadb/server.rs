//! Databases on the servers that the tests share.

use std::io::Write as _;
use std::marker::PhantomData;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use scratchbook_test_servers::MariaDb;

/// A database on the MariaDB that the tests share.
pub(crate) type TestDatabase = DatabaseOn<SharedMariaDb>;

/// A server of a test's own.
pub(super) type OwnServer = MariaDb;

/// A server that the tests share.
pub(crate) trait SharedServer {
    /// Returns its address.
    fn uri() -> String;

    /// Returns databases with tables that no test is using. Creating tables costs far more than emptying them.
    fn free() -> &'static Mutex<Vec<String>>;
}

#[derive(Debug)]
pub(crate) struct SharedMariaDb;

impl SharedServer for SharedMariaDb {
    fn uri() -> String {
        scratchbook_test_servers::mysql().unwrap()
    }

    fn free() -> &'static Mutex<Vec<String>> {
        static FREE: Mutex<Vec<String>> = Mutex::new(Vec::new());
        &FREE
    }
}

/// A database for one test.
#[derive(Debug)]
pub(crate) struct DatabaseOn<S: SharedServer> {
    name: String,
    reused: bool,
    server: PhantomData<S>,
}

impl<S: SharedServer> DatabaseOn<S> {
    /// Creates a database that is empty and has no tables.
    pub(crate) async fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let mut root = connection(&S::uri()).await;
        root.query_drop(format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name} CHARACTER SET latin1"))
            .await
            .unwrap();
        root.disconnect().await.unwrap();
        Self { name, reused: false, server: PhantomData }
    }

    /// Returns a database that may have empty tables of scratchbook. Another test reuses it later.
    pub(crate) async fn emptied() -> Self {
        let free = S::free().lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(name) = free else {
            let mut database = Self::new().await;
            database.reused = true;
            return database;
        };
        let database = Self { name, reused: true, server: PhantomData };
        let tables = [
            "apps",
            "users",
            "sessions",
            "initial_states",
            "events",
            "session_states",
            "user_states",
            "app_states",
            "state_log",
            "state_commits",
            "feeds",
            "checkpoints",
            "artifacts",
            "removals",
            "removal_ends",
        ];
        let mut connection = connection(&database.uri()).await;
        connection.query_drop(tables.map(|table| format!("DELETE FROM {table}")).join(";")).await.unwrap();
        connection.disconnect().await.unwrap();
        database
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn uri(&self) -> String {
        let server = S::uri();
        format!("{}/{}", &server[..server.rfind('/').unwrap()], self.name)
    }

    /// Runs a script with the client that comes with the server.
    pub(crate) fn client(&self, script: &str) {
        let mut client = self.tool("mariadb").stdin(Stdio::piped()).spawn().unwrap();
        client.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(client.wait().unwrap().success());
    }

    /// Returns everything in the database, including procedures, as statements.
    pub(crate) fn dump(&self) -> String {
        let options = ["--routines", "--skip-dump-date", "--skip-add-locks", "--skip-comments", "--hex-blob"];
        let dump = self.tool("mariadb-dump").args(options).output().unwrap();
        assert!(dump.status.success());
        // The definer is removed, so the account that loads the dump becomes the definer.
        String::from_utf8(dump.stdout).unwrap().replace("DEFINER=`scratchbook`@`%` ", "")
    }

    fn tool(&self, program: &str) -> Command {
        let opts = mysql_async::Opts::from_url(&self.uri()).unwrap();
        let mut tool = Command::new(program);
        tool.args(["--no-defaults", "--default-character-set=utf8mb4", "-h", opts.ip_or_hostname()]);
        tool.args(["-P", &opts.tcp_port().to_string(), "-u", opts.user().unwrap()]);
        tool.env("MYSQL_PWD", opts.pass().unwrap()).arg(&self.name);
        tool
    }

    /// Runs statements.
    pub(crate) async fn sql(&self, statements: &str) {
        let mut connection = connection(&self.uri()).await;
        connection.query_drop(statements).await.unwrap();
        connection.disconnect().await.unwrap();
    }
}

impl<S: SharedServer> Drop for DatabaseOn<S> {
    fn drop(&mut self) {
        // The database of a failed test is kept for inspection.
        if self.reused && !std::thread::panicking() {
            S::free().lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.name));
        }
    }
}

/// Opens a connection for the tests.
pub(crate) async fn connection(uri: &str) -> Conn {
    let opts = mysql_async::OptsBuilder::from_opts(mysql_async::Opts::from_url(uri).unwrap()).prefer_socket(false);
    Conn::new(opts).await.unwrap()
}
