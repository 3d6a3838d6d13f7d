//! Recognizes scratchbook's databases and brings their tables up to date.

use std::path::Path;

use refinery_core::Runner;
use rusqlite::{Connection, OptionalExtension};

use super::error::{Fallible, StoreFailure, describe};
use super::locks::FileLock;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::migrate::{Migration, other_version_1};

/// Every version of the tables, by number.
const MIGRATIONS: &[(&str, &str)] = &[("V1__init", include_str!("migrations/V1__init.sql"))];

/// The version that this program needs.
const NEWEST: i32 = MIGRATIONS.len() as i32;

/// Marks a database as ours: "sbk1" in the file's header.
const APPLICATION_ID: i32 = 0x7362_6b31;
const MIGRATIONS_TABLE: &str = "scratchbook_migrations";

/// Refuses a file that is not a scratchbook database.
pub(super) fn check(connection: &Connection, path: &Path) -> Fallible<()> {
    schema_state(connection, path).map(|_| ())
}

enum SchemaState {
    Empty,
    Version(i32),
}

/// Returns the migrations that a database lacks. Refuses a database that is not ours, or that is newer than this build.
pub(super) fn missing(connection: &Connection, path: &Path) -> Fallible<Vec<Migration>> {
    let version = match schema_state(connection, path)? {
        SchemaState::Empty => 0,
        SchemaState::Version(version) => version,
    };
    refuse_newer(path, version)?;
    Ok(embedded()?.iter().filter(|m| m.version() > version).map(described).collect())
}

/// Returns every migration, in order.
pub(super) fn all() -> Result<Vec<Migration>> {
    Ok(embedded()?.iter().map(described).collect())
}

fn embedded() -> Result<Vec<refinery_core::Migration>> {
    let migration = |(name, sql): &(&str, &str)| {
        let migration = refinery_core::Migration::unapplied(name, sql);
        migration.map_err(|e| Error::internal(format!("the migration {name} cannot be read")).with_source(e))
    };
    MIGRATIONS.iter().map(migration).collect()
}

fn described(migration: &refinery_core::Migration) -> Migration {
    let sql = migration.sql().unwrap_or_default();
    Migration::new(migration.version().unsigned_abs(), migration.name(), sql)
}

/// Creates or migrates the tables. Refuses a database that is not ours, or that is newer than this build.
///
/// Several processes may do this at the same time, so the check that is made without the lock is repeated under the
/// lock.
pub(super) fn prepare(connection: &mut Connection, path: &Path, lock: &mut FileLock) -> Fallible<()> {
    if is_current(connection, path)? && mark(connection)? == APPLICATION_ID {
        return Ok(());
    }
    lock.hold(|| migrate(connection, path))
}

fn migrate(connection: &mut Connection, path: &Path) -> Fallible<()> {
    let is_current = is_current(connection, path)?;
    // Set before the first table is created, so that a file left behind by a crash is recognized as ours.
    if mark(connection)? != APPLICATION_ID {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if is_current {
        return Ok(());
    }
    let mut runner = Runner::new(&embedded()?).set_grouped(true);
    runner.set_migration_table_name(MIGRATIONS_TABLE);
    runner.run(connection).map_err(|e| {
        let what = format!("the tables cannot be brought up to version {NEWEST}");
        let reason = std::iter::successors(Some(&e as &(dyn std::error::Error + 'static)), |e| e.source())
            .find_map(|e| e.downcast_ref::<rusqlite::Error>());
        let (kind, what) = match reason.map(describe) {
            Some((kind, why)) if kind != ErrorKind::Internal => (kind, format!("{what}: {why}")),
            _ => (ErrorKind::FailedPrecondition, what),
        };
        StoreFailure::Ours(Error::new(kind, format!("{}: {what}", path.display())).with_source(e))
    })?;
    tracing::debug!(version = NEWEST, "migrated the database");
    Ok(())
}

fn is_current(connection: &Connection, path: &Path) -> Fallible<bool> {
    let SchemaState::Version(version) = schema_state(connection, path)? else {
        return Ok(false);
    };
    refuse_newer(path, version)?;
    Ok(version == NEWEST)
}

fn refuse_newer(path: &Path, version: i32) -> Fallible<()> {
    if version <= NEWEST {
        return Ok(());
    }
    let path = path.display();
    Err(refused(format!(
        "{path}: its tables have version {version}, this build knows up to {NEWEST}; use a newer scratchbook"
    )))
}

/// Reads everything in one snapshot: tables that another process creates at the same time are seen completely or
/// not at all.
fn schema_state(connection: &Connection, path: &Path) -> Fallible<SchemaState> {
    let snapshot = connection.unchecked_transaction()?;
    let state = read_state(&snapshot, path)?;
    snapshot.commit()?;
    Ok(state)
}

fn read_state(connection: &Connection, path: &Path) -> Fallible<SchemaState> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let has_ours = connection.query_row(known, [MIGRATIONS_TABLE], |_| Ok(())).optional()?.is_some();
    let is_ours = match mark(connection)? {
        APPLICATION_ID => true,
        // What `.dump` writes has our tables, but not the mark.
        0 => tables == 0 || has_ours,
        _ => false,
    };
    if !is_ours {
        return Err(refused(format!(
            "{}: a SQLite database, but not a scratchbook database; name another",
            path.display()
        )));
    }
    if !has_ours {
        return Ok(SchemaState::Empty);
    }
    let applied =
        format!("SELECT coalesce(max(version), 0), max(iif(version = 1, checksum, NULL)) FROM {MIGRATIONS_TABLE}");
    let (version, first): (i32, Option<String>) =
        connection.query_row(&applied, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ours = embedded()?.first().map(|first| first.checksum().to_string());
    if first.is_some() && first != ours {
        return Err(StoreFailure::Ours(other_version_1(&path.display().to_string())));
    }
    Ok(SchemaState::Version(version))
}

/// Returns the mark of the program that a database belongs to; 0 if it has no mark.
fn mark(connection: &Connection) -> Fallible<i32> {
    Ok(connection.pragma_query_value(None, "application_id", |row| row.get(0))?)
}

fn refused(message: String) -> StoreFailure {
    StoreFailure::Ours(Error::new(ErrorKind::FailedPrecondition, message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::Connection;

    use super::{FileLock, prepare};
    use scratchbook_core::error::ErrorKind;

    #[test]
    fn a_disk_without_room_for_the_tables_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update_and_check(None, "max_page_count", 4, |_| Ok(())).unwrap();
        let mut lock = FileLock::beside(&path, Duration::from_secs(1)).unwrap();
        let error = prepare(&mut connection, &path, &mut lock).unwrap_err().into_error(&path);
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
        assert!(error.to_string().contains("make room"), "{error}");
    }
}
