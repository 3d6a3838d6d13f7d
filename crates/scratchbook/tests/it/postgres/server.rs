//! Schemas on the server that the tests share.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use scratchbook::Error;
use scratchbook::store::PostgresSessionService;
use tokio_postgres::{Client, NoTls, Row};

/// Tells a child process which schema to work on, as a URI.
const CHILD: &str = "SCRATCHBOOK_TEST_POSTGRES_CHILD";

/// A machine that many tests keep busy may take long to let somebody in.
const PATIENT: &str = "&connect_timeout=60";

/// A schema of one test's own.
#[derive(Debug)]
pub(crate) struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// One that is not there yet.
    pub(crate) fn new() -> Self {
        Self::on(&scratchbook_test_servers::postgres().unwrap())
    }

    /// One on another server.
    pub(crate) fn on(server: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Self { server: server.to_owned(), name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The server's own URI.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// A URI with more parameters, each with its `&`.
    pub(crate) fn uri(&self, parameters: &str) -> String {
        self.uri_by(&self.server, parameters)
    }

    /// The same by another way to the server.
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

    /// The one number that a query gives.
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

    /// This test binary again, running only the test named, on this schema.
    pub(crate) fn child(&self, test: &str) -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        child.env(CHILD, self.uri(PATIENT)).stdout(Stdio::piped());
        child
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // Our own server goes with the process. What failed is left as it is, to be looked at.
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

/// A connection of the tests' own.
pub(crate) async fn client(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The URI that a child process is to work on, in it.
pub(crate) fn of_parent() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// All that an error shows, its sources included.
pub(crate) fn everything(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text += &format!(" {error} {error:?}");
        source = error.source();
    }
    text
}
