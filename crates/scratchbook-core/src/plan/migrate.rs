//! Migrations of the tables, run apart from normal use.

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
