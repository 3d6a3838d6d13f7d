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

impl Migration {
    /// A step of a store of your own.
    #[must_use]
    pub fn new(version: u32, name: impl Into<String>, sql: impl Into<String>) -> Self {
        Self { version, name: name.into(), sql: sql.into() }
    }
}
