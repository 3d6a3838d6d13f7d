//! Migrations of the tables, run apart from normal use.

use crate::error::{Error, ErrorKind};

/// A numbered migration of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The version, from 1.
    pub version: u32,
    /// Its purpose.
    pub name: String,
    /// The statements, as executed.
    pub sql: String,
}

/// Whether migrations are only listed or executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationRun {
    /// The migrations are only listed, and nothing is changed.
    Dry,
    /// The migrations are executed.
    Real,
}

impl Migration {
    /// Creates a migration, for a store of your own.
    #[must_use]
    pub fn new(version: u32, name: impl Into<String>, sql: impl Into<String>) -> Self {
        Self { version, name: name.into(), sql: sql.into() }
    }
}

/// Returns the error for a database at `place` whose version 1 of the tables is not this build's. Version 1 changes only
/// until 0.1.0; a store finds out by a hash of it that is stored in the database.
#[must_use]
pub fn other_version_1(place: &str) -> Error {
    let message = format!(
        "{place}: the tables were made by a build whose version 1 of the tables is not that of this build, which cannot \
         open them. Stop the writers, and carry the data over into a new database, with `export` of that build and \
         `import` of this one: old/scratchbook export --database OLD | scratchbook import --from jsonl - --database NEW. \
         Where forks come from, the numbers of events after pruned ones, and cursors of feeds do not come along"
    );
    Error::new(ErrorKind::FailedPrecondition, message)
}
