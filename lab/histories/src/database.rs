//! The databases behind the servers that are attacked, and how each of them fails.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use scratchbook_test_servers::{
    Galera, MariaDb, MySql, MySqlOptions, Patroni, Postgres, PostgresOptions, Proxy, Replication, SmallDisk,
    StandbyPair,
};
use tempfile::TempDir;

use crate::drive::FailedCalls;
use crate::faults::FaultError;
use crate::history::Notes;
use crate::servers::until_started;

/// How long a load balancer needs to notice that a node of a cluster is dead.
const NOTICE: Duration = Duration::from_secs(1);

/// How long a disk stays full at most if no call fails.
const FULL: Duration = Duration::from_secs(20);

/// How many times to look, [`NOTICE`] apart, whether calls still fail because of an earlier fault.
const SETTLING: usize = 12;

/// The pause between two looks at the number of failed calls.
const CHECK: Duration = Duration::from_millis(20);

/// How many times to check, [`NOTICE`] apart, whether a server has recovered from a full disk by itself.
const RECOVERY_CHECKS: usize = 5;

/// A database.
#[derive(Debug)]
pub enum Database {
    /// The store in memory.
    Memory,
    /// A SQLite file in a folder.
    File(TempDir),
    /// A SQLite file on a disk that can become full.
    FileOnSmallDisk(SmallDisk),
    /// A PostgreSQL server.
    Postgres(Postgres),
    /// A PostgreSQL server whose data is on a disk that can become full.
    PostgresOnSmallDisk {
        /// The disk. It is unmounted before the server removes its folder.
        disk: SmallDisk,
        /// The server.
        server: Postgres,
    },
    /// A PostgreSQL server with a standby that takes over.
    Standby(StandbyPair),
    /// A PostgreSQL server with a standby for reads.
    ReadStandby(StandbyPair),
    /// Three PostgreSQL servers under Patroni, which elects the server for writes.
    Patroni(Patroni),
    /// A MariaDB server.
    MariaDb(MariaDb),
    /// A MariaDB server whose data is on a disk that can become full.
    MariaDbOnSmallDisk {
        /// The disk. It is unmounted before the server removes its folder.
        disk: SmallDisk,
        /// The server.
        server: MariaDb,
    },
    /// A MySQL server.
    MySql(MySql),
    /// Three MariaDB servers in a Galera cluster.
    Galera {
        /// The nodes.
        cluster: Galera,
        /// Whether each server process writes to its own node. Otherwise all processes write to the first node.
        is_written_everywhere: bool,
    },
}

/// How the leader of a cluster fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaderLoss {
    /// The leader is killed.
    Killed,
    /// The leader's whole node stops running for longer than its lease lasts, and then continues.
    Frozen,
    /// The same, but the leader's PostgreSQL stops some seconds before the rest.
    Stalled,
    /// The leader does not reach the server that stores its lease.
    CutOff,
}

impl LeaderLoss {
    /// Returns the name of the fault.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Killed => "leader killed",
            Self::Frozen => "leader frozen",
            Self::Stalled => "leader stalled and frozen",
            Self::CutOff => "leader cut off",
        }
    }
}

impl Database {
    pub(crate) fn file() -> Result<Self, FaultError> {
        Ok(Self::File(tempfile::tempdir()?))
    }

    pub(crate) fn file_on_small_disk() -> Result<Self, FaultError> {
        Ok(Self::FileOnSmallDisk(SmallDisk::mount()?))
    }

    pub(crate) fn postgres() -> Result<Self, FaultError> {
        Ok(Self::Postgres(Postgres::start(&PostgresOptions::default())?))
    }

    /// Starts a server that needs space on the disk for each part of its log: it neither writes zeros to new files of the
    /// log nor uses old ones again.
    pub(crate) fn postgres_on_small_disk() -> Result<Self, FaultError> {
        let options =
            PostgresOptions::default().with_setting("wal_init_zero", "off").with_setting("wal_recycle", "off");
        let server = Postgres::start(&options)?;
        server.stop()?;
        let disk = SmallDisk::under(&server.folder().join("data"))?;
        server.restart()?;
        Ok(Self::PostgresOnSmallDisk { disk, server })
    }

    pub(crate) fn standby(replication: Replication) -> Result<Self, FaultError> {
        Ok(Self::Standby(StandbyPair::start_with(replication)?))
    }

    pub(crate) fn read_standby(replication: Replication) -> Result<Self, FaultError> {
        Ok(Self::ReadStandby(StandbyPair::start_with(replication)?))
    }

    pub(crate) fn patroni(replication: Replication) -> Result<Self, FaultError> {
        Ok(Self::Patroni(Patroni::start(replication)?))
    }

    pub(crate) fn mariadb() -> Result<Self, FaultError> {
        Ok(Self::MariaDb(MariaDb::start(&MySqlOptions::default())?))
    }

    /// Starts a server with a binary log that is synced at each commit. Commits become visible only after this.
    pub(crate) fn mariadb_with_binary_log() -> Result<Self, FaultError> {
        let options = MySqlOptions::default().with_line("log_bin = binlog").with_line("sync_binlog = 1");
        Ok(Self::MariaDb(MariaDb::start(&options)?))
    }

    pub(crate) fn mariadb_on_small_disk() -> Result<Self, FaultError> {
        let server = MariaDb::start(&MySqlOptions::default())?;
        server.stop()?;
        let disk = SmallDisk::under(&server.folder().join("data"))?;
        server.restart()?;
        Ok(Self::MariaDbOnSmallDisk { disk, server })
    }

    pub(crate) fn mysql() -> Result<Self, FaultError> {
        Ok(Self::MySql(MySql::start(&MySqlOptions::default())?))
    }

    pub(crate) fn galera(is_written_everywhere: bool) -> Result<Self, FaultError> {
        Ok(Self::Galera { cluster: Galera::start()?, is_written_everywhere })
    }

    /// Starts a cluster in which every statement waits for the commits of other nodes, and in which nodes compare the
    /// changed rows of transactions by all their keys. A transaction cannot lock a row that has changed since the
    /// transaction began.
    pub(crate) fn strict_galera() -> Result<Self, FaultError> {
        let cluster = Galera::start_with(&[
            "wsrep_sync_wait = 7",
            "wsrep_certification_rules = strict",
            "wsrep_certify_nonPK = ON",
            "innodb_snapshot_isolation = ON",
        ])?;
        Ok(Self::Galera { cluster, is_written_everywhere: true })
    }

    /// Returns the URI for the server process with this number. It has the port that [`port`](Self::port) returns.
    pub(crate) fn uri(&self, process: usize) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::File(_) | Self::FileOnSmallDisk(_) => {
                format!("sqlite://{}", self.path().unwrap_or(Path::new("")).join("sessions.db").display())
            }
            Self::Postgres(server) | Self::PostgresOnSmallDisk { server, .. } => server.uri(),
            Self::Standby(pair) => pair.primary().uri(),
            Self::ReadStandby(pair) if process == 0 => pair.standby().uri(),
            Self::ReadStandby(pair) => pair.primary().uri(),
            Self::Patroni(cluster) => cluster.uri(),
            Self::MariaDb(server) | Self::MariaDbOnSmallDisk { server, .. } => server.uri(),
            Self::MySql(server) => server.uri(),
            Self::Galera { cluster, .. } => cluster.nodes()[self.node(process)].uri(),
        }
    }

    /// Returns the port that the server process with this number connects to; `None` for a file, or if the process
    /// connects to several ports.
    pub(crate) fn port(&self, process: usize) -> Option<u16> {
        match self {
            Self::Memory | Self::File(_) | Self::FileOnSmallDisk(_) | Self::Patroni(_) => None,
            Self::Postgres(server) | Self::PostgresOnSmallDisk { server, .. } => Some(server.port()),
            Self::Standby(pair) => Some(pair.primary().port()),
            Self::ReadStandby(pair) if process == 0 => Some(pair.standby().port()),
            Self::ReadStandby(pair) => Some(pair.primary().port()),
            Self::MariaDb(server) | Self::MariaDbOnSmallDisk { server, .. } => Some(server.port()),
            Self::MySql(server) => Some(server.port()),
            Self::Galera { cluster, .. } => Some(cluster.nodes()[self.node(process)].port()),
        }
    }

    /// Returns the lock file of a SQLite database.
    pub(crate) fn lock_file(&self) -> Option<PathBuf> {
        self.path().map(|folder| folder.join("sessions.db-lock"))
    }

    /// Kills the database server and starts it again, if there is only one server. Does nothing otherwise.
    pub(crate) fn kill(&self) -> Result<(), FaultError> {
        match self {
            Self::Postgres(server) | Self::PostgresOnSmallDisk { server, .. } => {
                Ok(server.kill().and_then(|()| until_started(|| server.restart()))?)
            }
            Self::ReadStandby(pair) => {
                let server = pair.primary();
                server.kill().and_then(|()| until_started(|| server.restart()))?;
                Ok(pair.wait_until_it_streams()?)
            }
            Self::MariaDb(server) | Self::MariaDbOnSmallDisk { server, .. } => {
                Ok(server.kill().and_then(|()| until_started(|| server.restart()))?)
            }
            Self::MySql(server) => Ok(server.kill().and_then(|()| until_started(|| server.restart()))?),
            _ => Ok(()),
        }
    }

    /// Kills the primary, lets its standby take over, and starts a new standby. Does nothing for a database without a
    /// standby that takes over.
    pub(crate) fn fail_over(&mut self, proxies: &[Proxy]) -> Result<(), FaultError> {
        let Self::Standby(pair) = self else { return Ok(()) };
        pair.fail_over()?;
        for proxy in proxies {
            proxy.forward_to(pair.standby().port());
            proxy.cut();
        }
        Ok(pair.replace_primary()?)
    }

    /// Kills a node of a cluster, sends its server processes to another node, and sends them back when it has joined
    /// again. Does nothing without a cluster.
    pub(crate) fn kill_node(&self, proxies: &[Proxy], random: &mut fastrand::Rng) -> Result<(), FaultError> {
        let Self::Galera { cluster, .. } = self else { return Ok(()) };
        let (dead, moved) = (random.usize(..cluster.nodes().len()), 1 + random.usize(..cluster.nodes().len() - 1));
        let other = (dead + moved) % cluster.nodes().len();
        let send = |to: usize| {
            for (_, proxy) in proxies.iter().enumerate().filter(|(process, _)| self.node(*process) == dead) {
                proxy.forward_to(cluster.nodes()[to].port());
                proxy.cut();
            }
        };
        cluster.nodes()[dead].kill()?;
        sleep(NOTICE);
        send(other);
        cluster.rejoin(dead)?;
        send(dead);
        Ok(())
    }

    /// Lets the leader of a cluster fail. Heals it when another leader is elected and has taken writes for some time.
    /// Returns whether there was a leader. Notes which nodes lead.
    pub(crate) fn lose_leader(
        &mut self,
        loss: LeaderLoss,
        time: Duration,
        notes: &mut Notes,
    ) -> Result<bool, FaultError> {
        let Self::Patroni(cluster) = self else { return Ok(false) };
        let Some(leader) = cluster.leader() else { return Ok(false) };
        match loss {
            LeaderLoss::Killed => cluster.kill(leader)?,
            LeaderLoss::Frozen => cluster.freeze(leader)?,
            LeaderLoss::Stalled => cluster.stall(leader)?,
            LeaderLoss::CutOff => cluster.cut_off(leader),
        }
        notes.add(loss.name(), format!("node {leader}"));
        // If no other node has everything that was acknowledged, no leader is elected until the old leader is back.
        if let Ok(other) = cluster.wait_for_other_leader(leader) {
            notes.add("leader elected", format!("node {other}"));
            sleep(time);
        }
        notes.add("leader comes back", format!("node {leader}"));
        match loss {
            LeaderLoss::Killed => cluster.rejoin(leader)?,
            LeaderLoss::Frozen | LeaderLoss::Stalled => cluster.thaw(leader)?,
            LeaderLoss::CutOff => cluster.reconnect(leader),
        }
        // If this is the one that came back, it has taken the lease from the one that was elected.
        let last = cluster.wait_until_whole()?;
        notes.add("leader of the whole cluster", format!("node {last}"));
        // A leader that has taken the lease from another one may never choose a synchronous standby.
        if cluster.wait_until_replaceable().is_err() {
            notes.add("leader without a chosen standby", format!("node {last}"));
        }
        Ok(true)
    }

    /// Copies the logs of the nodes of a cluster to a folder. Does nothing for other databases.
    pub(crate) fn keep_logs(&self, folder: &Path) -> Result<(), FaultError> {
        let Self::Patroni(cluster) = self else { return Ok(()) };
        Ok(cluster.keep_logs(folder)?)
    }

    /// Returns which program, in which version, decides which node leads.
    pub(crate) fn elected_by(&self) -> Option<&str> {
        let Self::Patroni(cluster) = self else { return None };
        Some(cluster.version())
    }

    /// Returns the disk that can become full; `None` if the database is on another one.
    pub(crate) fn disk(&self) -> Option<&SmallDisk> {
        match self {
            Self::FileOnSmallDisk(disk)
            | Self::PostgresOnSmallDisk { disk, .. }
            | Self::MariaDbOnSmallDisk { disk, .. } => Some(disk),
            _ => None,
        }
    }

    /// Fills the disk until calls fail and for some time after that, and then starts a database server that has ended
    /// because of it. Returns whether calls failed: a database may need no space for a while. Does nothing without a disk
    /// of its own.
    pub(crate) fn fill_disk(&self, time: Duration, failures: &FailedCalls) -> Result<bool, FaultError> {
        let Some(disk) = self.disk() else { return Ok(false) };
        // Failures of an earlier fault have to be over.
        for _ in 0..SETTLING {
            let count = failures.count();
            sleep(NOTICE);
            if failures.count() == count {
                break;
            }
        }
        disk.fill()?;
        let (before, begun) = (failures.count(), Instant::now());
        while failures.count() == before && begun.elapsed() < FULL {
            sleep(CHECK);
        }
        let has_failed = failures.count() > before;
        if has_failed {
            sleep(time);
        }
        disk.empty()?;
        let is_up = || match self {
            Self::PostgresOnSmallDisk { server, .. } => server.ask("SELECT 1").is_ok(),
            Self::MariaDbOnSmallDisk { server, .. } => server.ask("SELECT 1").is_ok(),
            _ => true,
        };
        for _ in 0..RECOVERY_CHECKS {
            if is_up() {
                return Ok(has_failed);
            }
            sleep(NOTICE);
        }
        self.kill().map(|()| has_failed)
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::File(folder) => Some(folder.path()),
            Self::FileOnSmallDisk(disk) => Some(disk.path()),
            _ => None,
        }
    }

    /// Returns the node of a cluster that a server process writes to.
    fn node(&self, process: usize) -> usize {
        match self {
            Self::Galera { cluster, is_written_everywhere: true } => process % cluster.nodes().len(),
            _ => 0,
        }
    }
}
