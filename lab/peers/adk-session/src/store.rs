//! The session services, each in its best published configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use adk_session::{InMemorySessionService, PostgresSessionService, SessionService, SqliteSessionService};
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use crate::protocol::{PeerFailure, Result};

/// How many connections to PostgreSQL are open.
const CONNECTIONS: u32 = 16;
const WAIT: Duration = Duration::from_secs(60);

/// The database of the sessions.
#[derive(Clone)]
pub(crate) enum PeerDatabase {
    Memory,
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A service, with the pool that it uses.
#[derive(Clone)]
pub(crate) struct PooledService {
    pub(crate) service: Arc<dyn SessionService>,
    pub(crate) database: PeerDatabase,
}

impl PooledService {
    pub(crate) async fn open(kind: &str, location: &str) -> Result<Self> {
        match kind {
            "memory" => Ok(Self { service: Arc::new(InMemorySessionService::new()), database: PeerDatabase::Memory }),
            "sqlite" => Self::sqlite(location).await,
            "postgres" => Self::postgres(location).await,
            other => Err(PeerFailure::Error(format!("the store '{other}' is not one of memory, sqlite, postgres"))),
        }
    }

    /// Opens SQLite with one connection. With more, a transaction fails at its write if another transaction has written
    /// since the first one read.
    async fn sqlite(location: &str) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(Path::new(location).join("sessions.db"))
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(WAIT)
            .test_before_acquire(false)
            .connect_with(options)
            .await?;
        let service = SqliteSessionService::from_pool(pool.clone());
        service.migrate().await?;
        Ok(Self { service: Arc::new(service), database: PeerDatabase::Sqlite(pool) })
    }

    async fn postgres(location: &str) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .min_connections(CONNECTIONS)
            .acquire_timeout(WAIT)
            .test_before_acquire(false)
            .connect(location)
            .await?;
        let service = PostgresSessionService::from_pool(pool.clone());
        service.migrate().await?;
        Ok(Self { service: Arc::new(service), database: PeerDatabase::Postgres(pool) })
    }

    /// Returns the runner's first line: what is measured, and with which configuration.
    pub(crate) fn about(&self) -> Value {
        let (service, store, words) = match self.database {
            PeerDatabase::Memory => ("InMemorySessionService", "memory", "as it comes".to_owned()),
            PeerDatabase::Sqlite(_) => {
                let words = "sqlx, one held connection without a ping before use, WAL mode, synchronous=FULL";
                ("SqliteSessionService", "sqlite", words.to_owned())
            }
            PeerDatabase::Postgres(_) => {
                let words = format!("sqlx, {CONNECTIONS} held connections without a ping before use");
                ("PostgresSessionService", "postgres", words)
            }
        };
        let configuration = format!("{words}; Tokio with all cores, mimalloc, release profile with thin LTO");
        json!({
            "system": "adk-session",
            "service": service,
            "version": "2.3.0",
            "store": store,
            "configuration": configuration,
        })
    }

    /// Returns how many bytes the store has on the disk.
    pub(crate) async fn disk(&self) -> Result<f64> {
        match &self.database {
            PeerDatabase::Memory => Err(PeerFailure::Unsupported("this store keeps nothing on a disk.".to_owned())),
            PeerDatabase::Sqlite(pool) => {
                sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(pool).await?;
                let size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
                Ok(sqlx::query_scalar::<_, i64>(size).fetch_one(pool).await? as f64)
            }
            PeerDatabase::Postgres(pool) => {
                let size = "SELECT pg_database_size(current_database())";
                Ok(sqlx::query_scalar::<_, i64>(size).fetch_one(pool).await? as f64)
            }
        }
    }
}
