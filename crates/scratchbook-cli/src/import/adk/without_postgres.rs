//! Replaces PostgreSQL in a program without the feature `postgres`. Such a program cannot read PostgreSQL
//! databases.

use scratchbook::{Error, ErrorKind, Result};

use super::sqlite::Sqlite;

/// Opens nothing.
#[derive(Debug)]
pub(super) struct AdkPostgres;

impl AdkPostgres {
    /// Always fails with `Unsupported`. The type of the result is only formally the other kind of database.
    pub(super) async fn open(_: &str) -> Result<Sqlite> {
        let message = "this scratchbook was built without PostgreSQL; build it with --features postgres";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
