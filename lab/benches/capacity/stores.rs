//! The stores that are measured. Each flushes what it commits.

use std::path::PathBuf;
use std::sync::Arc;

use scratchbook::store::Synchronous;
use scratchbook::{SessionService, connect};
use scratchbook_test_servers::{MariaDb, MySqlOptions, Postgres, PostgresOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::disk::{self, Size};
use scratchbook_benches::cpu;

type OpenStore = dyn Fn(&Runtime) -> MeasuredStore;

pub(crate) const STORES: [(&str, &OpenStore); 4] = [
    ("PostgreSQL", &MeasuredStore::postgres),
    ("PostgreSQL, partitioned", &MeasuredStore::partitioned),
    ("MariaDB", &MeasuredStore::mariadb),
    ("SQLite", &MeasuredStore::sqlite),
];

/// A store, and the server or folder that it uses.
pub(crate) struct MeasuredStore {
    service: Arc<dyn SessionService>,
    home: Home,
}

enum Home {
    Postgres(Postgres),
    MariaDb(MariaDb),
    Sqlite(TempDir),
}

impl MeasuredStore {
    fn postgres(runtime: &Runtime) -> Self {
        let options = PostgresOptions::default().with_setting("shared_buffers", "512MB");
        let server = Postgres::start(&options.with_setting("max_wal_size", "4GB")).unwrap();
        let service = runtime.block_on(connect(&server.uri())).unwrap().sessions;
        Self { service, home: Home::Postgres(server) }
    }

    /// Starts PostgreSQL, and partitions the tables with the statements of docs/partitions.sql.
    fn partitioned(runtime: &Runtime) -> Self {
        let measured = Self::postgres(runtime);
        if let Home::Postgres(server) = &measured.home {
            server.ask(include_str!("../../../docs/partitions.sql")).unwrap();
        }
        measured
    }

    fn mariadb(runtime: &Runtime) -> Self {
        let options = MySqlOptions::default().with_line("innodb_buffer_pool_size = 512M");
        let server = MariaDb::start(&options.with_line("innodb_log_file_size = 1G")).unwrap();
        let service = runtime.block_on(connect(&server.uri())).unwrap().sessions;
        Self { service, home: Home::MariaDb(server) }
    }

    fn sqlite(runtime: &Runtime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = runtime.block_on(scratchbook_benches::sqlite(&file(&folder), Synchronous::Full));
        Self { service, home: Home::Sqlite(folder) }
    }

    pub(crate) fn service(&self) -> Arc<dyn SessionService> {
        Arc::clone(&self.service)
    }

    /// Returns the processor time that the server has used, in seconds. SQLite has no server.
    pub(crate) fn cpu(&self) -> f64 {
        let id = match &self.home {
            Home::Postgres(server) => server.folder().join("data/postmaster.pid"),
            Home::MariaDb(server) => server.folder().join("pid"),
            Home::Sqlite(_) => return 0.0,
        };
        let text = std::fs::read_to_string(id).unwrap();
        cpu::with_children(text.lines().next().unwrap().trim().parse().unwrap())
    }

    /// Returns how many bytes were written so far to the log that makes commits durable. SQLite's log starts again at
    /// each checkpoint, and is not counted.
    pub(crate) fn logged(&self) -> u64 {
        match &self.home {
            Home::Postgres(server) => server.ask("SELECT pg_current_wal_lsn() - '0/0'").unwrap().parse().unwrap(),
            Home::MariaDb(server) => {
                let row = server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").unwrap();
                row.split('\t').nth(1).unwrap().trim().parse().unwrap()
            }
            Home::Sqlite(_) => 0,
        }
    }

    pub(crate) fn sizes(&self) -> Vec<Size> {
        match &self.home {
            Home::Postgres(server) => disk::postgres(server),
            Home::MariaDb(server) => disk::mariadb(server),
            Home::Sqlite(folder) => {
                // The file is copied, since a second copy of SQLite in this process would drop the locks of the first
                // one.
                let copy = folder.path().join("copy.db");
                std::fs::copy(file(folder), &copy).unwrap();
                std::fs::copy(file(folder).with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
                disk::sqlite(&copy)
            }
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("capacity.db")
}
