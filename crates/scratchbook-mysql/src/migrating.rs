//! The migrations, as they are run and as they are printed.

use refinery_core::AsyncMigrate;
use refinery_core::traits::r#async::{AsyncQuery, AsyncTransaction};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::lease::Lease;
use super::row::RowCells;
use super::script::{made, statements, with_prefix};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::migrate::Migration;
use scratchbook_database::{Attempt, Failure};

/// Every version of the tables, by number.
const MIGRATIONS: &[(&str, &str)] = &[("V1__init", include_str!("migrations/V1__init.sql"))];

/// The version that this program needs.
pub(super) const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The name of the table of applied migrations.
pub(super) const HISTORY: &str = "scratchbook_migrations";

/// The procedures that this program calls.
pub(super) const PROCEDURES: [&str; 2] = ["scratchbook_write_1", "scratchbook_lock_1"];

/// The settings for a client that runs a printed migration: a procedure keeps the SQL mode in which it was created.
const SETUP: &str = "SET NAMES utf8mb4;\nSET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n";

/// The state of the tables in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchemaState {
    /// The version of the tables; 0 if there are none.
    pub(super) version: i32,
    /// Whether each procedure exists and can be called by us.
    pub(super) procedures: [bool; PROCEDURES.len()],
}

impl SchemaState {
    /// Returns the missing procedures.
    pub(super) fn missing(self) -> impl Iterator<Item = &'static str> {
        PROCEDURES.into_iter().zip(self.procedures).filter(|(_, there)| !there).map(|(name, _)| name)
    }
}

/// Returns the names of all tables, views and procedures that the user can see.
pub(super) async fn names(lease: &mut Lease<'_>) -> Attempt<Vec<String>> {
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
        UNION ALL SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()";
    let names = lease.rows(sql, Vec::new()).await?.into_iter();
    let names = names.map(|row| RowCells::from(row).text(0, || "the name of a table".to_owned()));
    Ok(names.collect::<Result<_>>()?)
}

/// Returns the quoted name of the table of applied migrations.
pub(super) fn history(prefix: &str) -> String {
    format!("`{prefix}{HISTORY}`")
}

/// Returns all migrations with the prefix filled in.
pub(super) fn embedded(prefix: &str) -> Result<Vec<refinery_core::Migration>> {
    MIGRATIONS.iter().map(|(name, sql)| unapplied(name, sql, prefix)).collect()
}

fn unapplied(name: &str, sql: &str, prefix: &str) -> Result<refinery_core::Migration> {
    let migration = refinery_core::Migration::unapplied(name, &with_prefix(sql, prefix));
    migration.map_err(|e| Error::internal(format!("the migration {name} cannot be read")).with_source(e))
}

/// Returns the statements that create lost procedures, if any are lost. A copy may lack procedures, because mysqldump
/// omits them by default.
pub(super) fn lost_procedures(seen: SchemaState, prefix: &str) -> Result<Option<String>> {
    let names: Vec<_> = seen.missing().map(|name| format!("{prefix}{name}")).collect();
    let mut sql = String::new();
    for migration in embedded(prefix)?.iter().filter(|migration| migration.version() <= seen.version) {
        for procedure in statements(migration.sql().unwrap_or_default()) {
            if made(&procedure).is_some_and(|name| names.iter().any(|missing| missing == name)) {
                sql += procedure.trim_end();
                sql += "//\n";
            }
        }
    }
    Ok((!sql.is_empty()).then(|| format!("{SETUP}DELIMITER //\n{sql}DELIMITER ;\n")))
}

/// Returns the public description of a migration, with the given statements.
fn described(migration: &refinery_core::Migration, sql: String) -> Migration {
    Migration::new(migration.version().unsigned_abs(), migration.name(), sql)
}

/// Returns what a database lacks: the statements for lost procedures, then the migrations above the database's version,
/// each with the statement that records it.
pub(super) fn lacking(seen: SchemaState, prefix: &str) -> Result<Vec<Migration>> {
    let all = embedded(prefix)?;
    let mut lost = lost_procedures(seen, prefix)?;
    if seen.version == NEWEST {
        return Ok(all.last().zip(lost).map(|(newest, sql)| described(newest, sql)).into_iter().collect());
    }
    let described = all.into_iter().filter(|migration| migration.version() > seen.version).map(|migration| {
        let table = history(prefix);
        let name = migration.name();
        let checksum = migration.checksum();
        let version = migration.version();
        // The history table comes first, because it identifies the tables as ours even if the rest is interrupted.
        let sql = format!(
            "{}{SETUP}{};\n\n{}\nINSERT INTO {table} (version, name, applied_on, checksum)\nVALUES ({version}, \
             '{name}', DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ'), '{checksum}');\n",
            lost.take().unwrap_or_default(),
            Migrating::assert_migrations_table_query(&table).trim_end().trim_end_matches(';'),
            migration.sql().unwrap_or_default(),
        );
        self::described(&migration, sql)
    });
    Ok(described.collect())
}

/// A connection in the form that refinery needs.
pub(super) struct Migrating<'a> {
    pub(super) lease: Lease<'a>,
    /// The last failure, kept here because refinery only returns it wrapped in an error of its own.
    pub(super) failure: Option<Failure>,
}

impl Migrating<'_> {
    /// Runs a statement. Does not create a view or a procedure that exists, because other processes may be using it.
    async fn run(&mut self, statement: &str) -> Attempt<()> {
        if let Some(name) = made(statement)
            && names(&mut self.lease).await?.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            return Ok(());
        }
        self.lease.query(statement).await.map(drop)
    }
}

impl AsyncTransaction for Migrating<'_> {
    type Error = Error;

    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(&'a mut self, files: T) -> Result<usize> {
        let mut count = 0;
        for statement in files.flat_map(statements) {
            count += 1;
            if let Err(Failure { fate, error }) = self.run(&statement).await {
                let first = statement.lines().next().unwrap_or_default();
                let error = Error::new(error.kind(), format!("{first} ...: {error}"));
                self.failure = Some(Failure::new(fate, error.again()));
                return Err(error);
            }
        }
        Ok(count)
    }
}

impl AsyncQuery<Vec<refinery_core::Migration>> for Migrating<'_> {
    async fn query<'a>(&'a mut self, query: &'a str) -> Result<Vec<refinery_core::Migration>> {
        let rows = match self.lease.rows(query, Vec::new()).await {
            Ok(rows) => rows,
            Err(Failure { fate, error }) => {
                self.failure = Some(Failure::new(fate, error.again()));
                return Err(error);
            }
        };
        let place = || "the history of migrations".to_owned();
        let applied = rows.into_iter().map(|row| {
            let mut cells = RowCells::from(row);
            let version = cells.integer(0, place)?;
            let name = cells.text(1, place)?;
            let time = cells.text(2, place)?;
            let checksum = cells.text(3, place)?;
            Ok(refinery_core::Migration::applied(
                i32::try_from(version).unwrap_or(i32::MAX),
                name,
                OffsetDateTime::parse(&time, &Rfc3339).unwrap_or(OffsetDateTime::UNIX_EPOCH),
                checksum.parse().unwrap_or_default(),
            ))
        });
        applied.collect()
    }
}

impl AsyncMigrate for Migrating<'_> {}
