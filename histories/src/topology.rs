//! The stores and servers that are attacked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scratchbook::store::connect;
use scratchbook_test_servers::{MariaDb, MariaDbOptions, Postgres, PostgresOptions, Proxy};
use tempfile::TempDir;

use crate::check::{Report, check};
use crate::client::{Client, Failure, HttpClient, LibraryClient};
use crate::drive::Run;
use crate::faults::{Counts, Database, Error, Faults, Parts};
use crate::history::write_lines;
use crate::servers::ServerProcess;
use crate::workload::Workload;

/// How many workers run transactions.
const WORKERS: usize = 12;

/// The longest pause between two faults.
const PAUSE: Duration = Duration::from_secs(3);

/// A store, and how many processes use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// The store in memory, in one process.
    Memory,
    /// SQLite with this many processes.
    Sqlite(usize),
    /// A PostgreSQL server with this many processes.
    Postgres(usize),
    /// A MariaDB server with this many processes.
    MariaDb(usize),
}

/// What happened to a topology.
#[derive(Debug)]
pub struct Outcome {
    /// What the transactions show.
    pub report: Report,
    /// The faults.
    pub faults: Counts,
}

/// What a run needs.
#[derive(Debug)]
pub struct Options<'a> {
    /// The command `histories`, which also serves.
    pub program: &'a Path,
    /// How long transactions run.
    pub time: Duration,
    /// The seed of everything random. Times are not part of it, so that two runs differ nevertheless.
    pub seed: u64,
    /// Where the history is written, as JSON lines.
    pub history: Option<&'a Path>,
}

impl Topology {
    /// The topologies by their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("memory", Self::Memory),
        ("sqlite", Self::Sqlite(1)),
        ("sqlite-4", Self::Sqlite(4)),
        ("postgres-3", Self::Postgres(3)),
        ("mariadb-3", Self::MariaDb(3)),
    ];

    /// Runs transactions on it while faults happen, and checks what they show.
    ///
    /// # Errors
    ///
    /// The topology cannot be started, or does not come back after the faults.
    pub async fn run(self, options: &Options<'_>) -> Result<Outcome, Error> {
        let folder = tempfile::tempdir()?;
        let (clients, parts) = self.start(options.program, &folder).await?;
        let workload = Workload::new(&options.seed.to_string(), 2, 2)?;
        let run = Run::begin(clients, workload).await.map_err(in_words)?;
        let faults = Faults::begin(parts, PAUSE, options.seed);
        let worked = run.work(WORKERS, options.time, options.seed).await;
        let (_parts, faults) = tokio::task::spawn_blocking(|| faults.heal()).await??;
        let (observed, ended) = run.end().await;
        if let Some(path) = options.history {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            write_lines(&observed.entries, &mut std::io::BufWriter::new(std::fs::File::create(path)?))?;
        }
        worked.and(ended).map_err(in_words)?;
        Ok(Outcome { report: check(&observed), faults })
    }

    /// Starts the servers, and returns their clients and what can fail.
    async fn start(self, program: &Path, folder: &TempDir) -> Result<(Vec<Arc<dyn Client>>, Parts), Error> {
        let (database, uri, port, processes) = match self {
            Self::Memory => {
                let client: Arc<dyn Client> = Arc::new(LibraryClient::new(connect("memory:").await?));
                let parts = Parts { servers: Vec::new(), proxies: Vec::new(), database: Database::Embedded };
                return Ok((vec![client], parts));
            }
            Self::Sqlite(processes) => {
                (Database::Embedded, format!("sqlite://{}/sessions.db", folder.path().display()), None, processes)
            }
            Self::Postgres(processes) => {
                let server = Postgres::start(&PostgresOptions::default())?;
                let (uri, port) = (server.uri(), server.port());
                (Database::Postgres(server), uri, Some(port), processes)
            }
            Self::MariaDb(processes) => {
                let server = MariaDb::start(&MariaDbOptions::default())?;
                let (uri, port) = (server.uri(), server.port());
                (Database::MariaDb(server), uri, Some(port), processes)
            }
        };
        let (mut proxies, mut servers, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..processes {
            let uri = match port {
                Some(port) => {
                    let proxy = Proxy::start(port)?;
                    let uri = proxy.uri(&uri)?;
                    proxies.push(proxy);
                    uri
                }
                None => uri.clone(),
            };
            let server = ServerProcess::start(program, &uri)?;
            let client: Arc<dyn Client> = Arc::new(HttpClient::new(server.url())?);
            clients.push(client);
            servers.push(server);
        }
        Ok((clients, Parts { servers, proxies, database }))
    }
}

fn in_words(failure: Failure) -> Error {
    format!("{failure:?}").into()
}
