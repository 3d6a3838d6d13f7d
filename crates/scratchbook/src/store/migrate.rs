//! Bringing tables up to date apart from using them.

/// A numbered step of the tables' history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// From 1.
    pub version: u32,
    /// What it is for.
    pub name: String,
    /// The statements, as they are run.
    pub sql: String,
}

/// Whether migrations are only looked for or carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationRun {
    /// Only looked for: nothing is changed.
    Dry,
    /// Carried out.
    Real,
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl Migration {
    /// A step as refinery holds it.
    pub(crate) fn of(migration: &refinery::Migration) -> Self {
        Self {
            version: migration.version().unsigned_abs(),
            name: migration.name().to_owned(),
            sql: migration.sql().unwrap_or_default().to_owned(),
        }
    }
}
