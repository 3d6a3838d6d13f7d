//! Measures the limit of the machine: the same rows written and read without scratchbook, and bytes copied.
//!
//! The tables are scratchbook's, and scratchbook creates them. `tasks` is the number of events in one transaction.

mod memory;
mod pgbench;
mod postgres;
mod rows;
mod sqlite;

use scratchbook_compare::protocol::{CellRequest, Hello, Measurement};

use crate::failure::{CellFailure, Result};
use crate::store::BenchStore;

pub(crate) use postgres::connect;

/// The limit of a store.
pub(crate) enum StoreLimit {
    Memory,
    Sqlite(sqlite::SqliteLimit),
    Postgres(postgres::PostgresLimit),
    Pgbench(pgbench::PgbenchLimit),
}

impl StoreLimit {
    pub(crate) fn open(store: &str, location: &str, service: &str) -> Result<Self> {
        match (store, service) {
            ("memory", "memcpy") => Ok(Self::Memory),
            ("sqlite", "rusqlite") => Ok(Self::Sqlite(sqlite::SqliteLimit::open(prepared(store, location)?)?)),
            ("postgres", "UNNEST") => {
                Ok(Self::Postgres(postgres::PostgresLimit::open(prepared(store, location)?, postgres::Way::Unnest)?))
            }
            ("postgres", "COPY") => {
                Ok(Self::Postgres(postgres::PostgresLimit::open(prepared(store, location)?, postgres::Way::Copy)?))
            }
            ("postgres", "pgbench") => Ok(Self::Pgbench(pgbench::PgbenchLimit::open(prepared(store, location)?)?)),
            _ => Err(CellFailure::Unsupported(format!("there is no limit {service} of {store}"))),
        }
    }

    pub(crate) fn hello(&self) -> Hello {
        let (store, service, version, configuration) = match self {
            Self::Memory => ("memory", "memcpy", String::new(), "copies the JSON of the events"),
            Self::Sqlite(_) => (
                "sqlite",
                "rusqlite",
                rusqlite::version().to_owned(),
                "the same rows and indexes, one thread, WAL, synchronous=full; a transaction for as many events as tasks",
            ),
            Self::Postgres(bare) => bare.description(),
            Self::Pgbench(bare) => (
                "postgres",
                "pgbench",
                bare.version(),
                "the same rows and indexes by one prepared statement for each event, a connection for each task",
            ),
        };
        Hello {
            system: "limit".to_owned(),
            service: Some(service.to_owned()),
            version,
            store: store.to_owned(),
            configuration: configuration.to_owned(),
        }
    }

    pub(crate) fn measure(&mut self, request: &CellRequest) -> Result<Measurement> {
        match self {
            Self::Memory => memory::measure(request),
            Self::Sqlite(bare) => bare.measure(request),
            Self::Postgres(bare) => bare.measure(request),
            Self::Pgbench(bare) => bare.measure(request),
        }
    }
}

/// Opens scratchbook's store, which creates its tables.
fn prepared(store: &str, location: &str) -> Result<BenchStore> {
    BenchStore::open(store, location)
}

/// Creates a session for each task, and returns their users and ids.
async fn addresses(store: &BenchStore, request: &CellRequest) -> Result<Vec<(String, String)>> {
    let mut addresses = Vec::new();
    for task in 0..request.tasks {
        let id = format!("{}-{}-{}-{task}", request.size, request.tasks, request.round);
        let session = store.session(&id, request.size).await?;
        addresses.push((session.user_id().to_owned(), id));
    }
    Ok(addresses)
}

fn unsupported(request: &CellRequest) -> CellFailure {
    CellFailure::Unsupported(format!("there is no bare way to measure {}", request.workload))
}
