//! Schemas on the server that the tests share.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use scratchbook::Error;
use scratchbook::store::PostgresSessionService;
use tokio_postgres::{Client, NoTls, Row};

/// The variable with the URI of the schema for a child process.
const CHILD: &str = "SCRATCHBOOK_TEST_POSTGRES_CHILD";

/// On a machine that many tests keep busy, connecting may take long.
const PATIENT: &str = "&connect_timeout=60";

/// A schema for one test.
#[derive(Debug)]
pub(crate) struct TestSchema {
    server: String,
    name: String,
}

impl TestSchema {
    /// Returns a schema that does not exist yet.
    pub(crate) fn new() -> Self {
        Self::on(&scratchbook_test_servers::postgres().unwrap())
    }

    /// Returns a schema on another server.
    pub(crate) fn on(server: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Self { server: server.to_owned(), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server's URI.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the schema's URI with more parameters, each with its `&`.
    pub(crate) fn uri(&self, parameters: &str) -> String {
        self.uri_by(&self.server, parameters)
    }

    /// Returns the schema's URI by another way to the server.
    pub(crate) fn uri_by(&self, server: &str, parameters: &str) -> String {
        format!("{server}?schema={}{parameters}", self.name)
    }

    pub(crate) async fn open(&self) -> PostgresSessionService {
        PostgresSessionService::connect(&self.uri(PATIENT)).await.unwrap()
    }

    /// Runs statements in the schema.
    pub(crate) async fn sql(&self, statements: &str) {
        self.client().await.batch_execute(statements).await.unwrap();
    }

    /// Returns the only number in a query's result.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.client().await.query_one(query, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn rows(&self, query: &str) -> Vec<Row> {
        self.client().await.query(query, &[]).await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        let client = client(&self.server).await;
        client.batch_execute(&format!("SET search_path TO {}", self.name)).await.unwrap();
        client
    }

    /// Returns a command that runs one test of this binary on this schema.
    pub(crate) fn child(&self, test: &str) -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        child.env(CHILD, self.uri(PATIENT)).stdout(Stdio::piped());
        child
    }
}

impl Drop for TestSchema {
    fn drop(&mut self) {
        // A server that the tests started ends with the process. The schema of a failed test is kept for inspection.
        if std::env::var_os(scratchbook_test_servers::POSTGRES_VARIABLE).is_none() || std::thread::panicking() {
            return;
        }
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let drop = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
            runtime.block_on(async { client(&server).await.batch_execute(&drop).await }).unwrap();
        });
        dropping.join().unwrap();
    }
}

/// Opens a connection for the tests.
pub(crate) async fn client(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns the URI for this process, if it is a child process.
pub(crate) fn of_parent() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Returns everything that an error shows, including its sources.
pub(crate) fn everything(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text += &format!(" {error} {error:?}");
        source = error.source();
    }
    text
}
