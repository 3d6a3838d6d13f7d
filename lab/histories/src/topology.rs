//! The stores and servers that are attacked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scratchbook::store::connect;
use scratchbook_test_servers::{Proxy, Replication};

use crate::check::{Report, check};
use crate::client::{HistoryClient, HttpClient, LibraryClient, ReadElsewhere};
use crate::database::Database;
use crate::drive::{HistoryRun, WORKERS};
use crate::faults::{FaultCounts, FaultError, FaultTargets, Faults};
use crate::history::{Note, Notes, write_file};
use crate::servers::ServerProcess;
use crate::workload::Workload;

/// The longest pause between two faults.
const PAUSE: Duration = Duration::from_secs(3);

/// A store, and how many processes use it.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// What is promised. Other violations are counted, but are no failure.
    promise: Promise,
    /// Whether the topology is part of every run of the tests, because it needs only one database server.
    pub is_short: bool,
    /// How many server processes there are; 0 for the library.
    processes: usize,
    start: fn() -> Result<Database, FaultError>,
}

/// What is promised of a topology.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// It is strictly serializable.
    Everything,
    /// Each acknowledged write is stored once and whole, and nothing is damaged. Reads may be stale.
    Writes,
    Nothing,
}

/// What happened to a topology.
#[derive(Debug)]
pub struct TopologyOutcome {
    /// The result of checking the transactions.
    pub report: Report,
    /// The faults.
    pub faults: FaultCounts,
    /// When the faults happened, and to what.
    pub notes: Vec<Note>,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct TopologyOptions {
    /// The command `histories`, which also serves.
    pub program: PathBuf,
    /// How long transactions run.
    pub time: Duration,
    /// The seed of everything random except times. Two runs with one seed therefore differ.
    pub seed: u64,
    /// Where the history is written, as JSON lines. The logs of a cluster in which there was a violation are copied to a
    /// folder beside it.
    pub history: Option<PathBuf>,
}

impl Topology {
    /// All topologies.
    pub const ALL: [Self; 19] = [
        Self::promised("memory", 0, || Ok(Database::Memory)).short(),
        Self::promised("sqlite", 1, Database::file).short(),
        Self::promised("sqlite-4", 4, Database::file).short(),
        Self::promised("sqlite-4-full-disk", 4, Database::file_on_small_disk),
        Self::promised("postgres-3", 3, Database::postgres).short(),
        Self::promised("postgres-3-full-disk", 3, Database::postgres_on_small_disk),
        Self::promised("postgres-3-sync-standby", 3, || Database::standby(Replication::Synchronous)),
        Self::not_promised("postgres-3-async-standby", 3, || Database::standby(Replication::Asynchronous)),
        Self::promised("postgres-3-reads-sync-standby", 3, || Database::read_standby(Replication::Synchronous))
            .only_writes(),
        // The last reads may be stale too, so they do not show whether a write is lost.
        Self::not_promised("postgres-3-reads-async-standby", 3, || Database::read_standby(Replication::Asynchronous)),
        Self::not_promised("postgres-3-patroni", 3, || Database::patroni(Replication::Asynchronous)),
        Self::promised("postgres-3-patroni-sync", 3, || Database::patroni(Replication::Synchronous)).only_writes(),
        // A read just before the server is killed may show a commit that is lost.
        Self::promised("mariadb-3", 3, Database::mariadb).short().only_writes(),
        Self::promised("mariadb-3-binary-log", 3, Database::mariadb_with_binary_log),
        Self::promised("mariadb-3-full-disk", 3, Database::mariadb_on_small_disk).only_writes(),
        Self::promised("mysql-3", 3, Database::mysql),
        Self::promised("galera-writes-one-node", 3, || Database::galera(false)).only_writes(),
        Self::not_promised("galera-writes-three-nodes", 3, || Database::galera(true)),
        Self::not_promised("galera-writes-three-nodes-strict", 3, Database::strict_galera),
    ];

    const fn promised(name: &'static str, processes: usize, start: fn() -> Result<Database, FaultError>) -> Self {
        Self { name, promise: Promise::Everything, is_short: false, processes, start }
    }

    const fn not_promised(name: &'static str, processes: usize, start: fn() -> Result<Database, FaultError>) -> Self {
        Self { promise: Promise::Nothing, ..Self::promised(name, processes, start) }
    }

    const fn only_writes(self) -> Self {
        Self { promise: Promise::Writes, ..self }
    }

    const fn short(self) -> Self {
        Self { is_short: true, ..self }
    }

    /// Returns whether a run of the topology has broken a promise.
    #[must_use]
    pub fn is_broken_by(&self, report: &Report) -> bool {
        match self.promise {
            Promise::Everything => !report.violations.is_empty(),
            Promise::Writes => report.written == 0 || report.wrong_writes > 0,
            Promise::Nothing => false,
        }
    }

    /// Runs transactions on the topology while faults happen, and checks what they show.
    ///
    /// # Errors
    ///
    /// The topology cannot be started, or does not come back after the faults.
    pub async fn run(self, options: TopologyOptions) -> Result<TopologyOutcome, FaultError> {
        let database = tokio::task::spawn_blocking(self.start).await??;
        let (clients, servers, proxies) = self.serve(&database, &options.program).await?;
        let workload = Workload::new(&options.seed.to_string(), 2, 2)?;
        let run = HistoryRun::begin(clients, workload).await?;
        let mut notes = Notes::since(run.begun());
        if let Some(program) = database.elected_by() {
            notes.add("leaders are elected", program);
        }
        let targets = FaultTargets { servers, proxies, database, failures: run.failures(), notes };
        let faults = Faults::begin(targets, PAUSE, options.seed);
        let worked = run.work(WORKERS, options.time, options.seed).await;
        // The servers and proxies live until everything was read.
        let (FaultTargets { notes, database, servers: _servers, proxies: _proxies, failures: _ }, faults) =
            tokio::task::spawn_blocking(|| faults.heal()).await??;
        let notes = notes.into_inner();
        let (observed, ended) = run.end().await;
        if let Some(path) = &options.history {
            write_file(path, &observed.entries, &notes)?;
        }
        worked.and(ended)?;
        let report = tokio::task::spawn_blocking(move || check(&observed)).await?;
        if let Some(path) = options.history.filter(|_| !report.violations.is_empty()) {
            database.keep_logs(&path.with_extension("logs"))?;
        }
        Ok(TopologyOutcome { report, faults, notes })
    }

    /// Starts the server processes. Returns their clients, the processes, and the proxies before the database.
    async fn serve(
        self,
        database: &Database,
        program: &Path,
    ) -> Result<(Vec<Arc<dyn HistoryClient>>, Vec<ServerProcess>, Vec<Proxy>), FaultError> {
        let (mut proxies, mut servers, mut clients) = (Vec::new(), Vec::new(), Vec::<Arc<dyn HistoryClient>>::new());
        if self.processes == 0 {
            clients.push(Arc::new(LibraryClient::new(connect(&database.uri(0)).await?)));
        }
        // The last process starts first and creates the tables. The process before a standby, which cannot create
        // tables, finds them.
        for process in (0..self.processes).rev() {
            let mut uri = database.uri(process);
            if let Some(port) = database.port(process) {
                let proxy = Proxy::start(port)?;
                uri = proxy.uri(&uri)?;
                proxies.insert(0, proxy);
            }
            let server = ServerProcess::start(program, &uri)?;
            clients.insert(0, Arc::new(HttpClient::new(&server.url(), None)?));
            servers.insert(0, server);
        }
        if let Database::ReadStandby(_) = database {
            let reads = clients.remove(0);
            let elsewhere =
                |writes| Arc::new(ReadElsewhere { writes, reads: Arc::clone(&reads) }) as Arc<dyn HistoryClient>;
            clients = clients.into_iter().map(elsewhere).collect();
        }
        Ok((clients, servers, proxies))
    }
}
