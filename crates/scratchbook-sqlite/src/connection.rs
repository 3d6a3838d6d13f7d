//! Opens connections: the checks before a file is opened, and the settings of each connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{Fallible, StoreFailure};
use super::files::{DatabaseFiles, Extent, FileAccess, FileState, beside, find_or_make, log_of, private};
use super::locks::{FileLock, io_error};
use super::options::{SqliteMode, SqliteOptions, Synchronous};
use super::schema;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// How long a connection waits for SQLite's own locks. Only programs that do not know our lock hold them for long.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The capacity of a connection's statement cache. It exceeds the number of statements, so each is compiled only once.
const STATEMENTS: usize = 96;

/// A database opened for writing, with its lock and its files.
#[derive(Debug)]
pub(super) struct OpenedDatabase {
    pub(super) connection: Connection,
    pub(super) lock: FileLock,
    pub(super) files: Arc<DatabaseFiles>,
    pub(super) extent: Extent,
    /// The page size, in bytes.
    pub(super) page: u64,
}

/// Opens the database for writing and creates it if it is missing.
pub(super) fn open_writer(path: &Path, options: &SqliteOptions) -> Result<OpenedDatabase> {
    let opened =
        check_path(path, options.mode).and_then(|()| set_up_writer(path, options).map_err(|e| e.into_error(path)));
    match opened {
        Err(_) if options.mode == SqliteMode::ReadOnly && path.is_file() && !can_make_files_beside(path) => {
            set_up_reading(path, options).map_err(|e| e.into_error(path))
        }
        opened => opened,
    }
}

/// Opens a database for reading in a folder where no file can be created, such as on a read-only file system. Refuses a
/// database whose log has commits. SQLite uses no log and no locks here; [`DatabaseFiles::check_unchanged`] detects a
/// writer.
fn set_up_reading(path: &Path, options: &SqliteOptions) -> Fallible<OpenedDatabase> {
    let expected = find_or_make(path)?;
    let path = fs::canonicalize(path).map_err(|e| io_error(path, "the file cannot be found", e))?;
    let state = FileState::of(&path)?;
    if let Some(log) = log_of(&path) {
        return Err(unread_log(&path, &log).into());
    }
    let connection = open_reader(&path, FileAccess::Immutable)?;
    check_current(&connection, &path)?;
    let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let page = u64::from(page.max(1));
    let lock = FileLock::unopened(&path, options.lock_timeout);
    let files = DatabaseFiles::immutable(expected, path, state)?;
    let extent = Extent { stored: files.check()? / page, pages: count_pages(&connection)? };
    Ok(OpenedDatabase { connection, lock, files: Arc::new(files), extent, page })
}

fn unread_log(path: &Path, log: &Path) -> Error {
    let message = format!(
        "{} may not be written, and {} has commits that are not in the database yet; open a copy of both in a folder of \
         yours",
        path.parent().unwrap_or(path).display(),
        log.display()
    );
    Error::new(ErrorKind::PermissionDenied, message)
}

/// Refuses to read a database that is not ours or lacks tables.
fn check_current(connection: &Connection, path: &Path) -> Fallible<()> {
    if schema::missing(connection, path)?.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{}: it has no tables or those of an older scratchbook, and this mode changes none; open it once for writing",
        path.display()
    );
    Err(Error::new(ErrorKind::FailedPrecondition, message).into())
}

fn set_up_writer(path: &Path, options: &SqliteOptions) -> Fallible<OpenedDatabase> {
    if options.mode != SqliteMode::Create && !path.exists() {
        let message = format!("there is no file {}, and this mode makes none", path.display());
        return Err(Error::new(ErrorKind::NotFound, message).into());
    }
    let found = find_or_make(path)?;
    let mut connection = open(&literal(path)?, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(read_only(path, options.mode).into());
    }
    // This checks that the database is ours before any file is created beside it.
    schema::check(&connection, path)?;
    if options.mode == SqliteMode::ReadOnly {
        check_current(&connection, path)?;
    }
    let path = fs::canonicalize(path).map_err(|e| io_error(path, "the file cannot be found", e))?;
    let mut lock = FileLock::beside(&path, options.lock_timeout)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    // Read-only mode does not change the file, so it also accepts a file that uses no write-ahead log.
    let reads_log = mode == "wal" || options.mode != SqliteMode::ReadOnly;
    if mode != "wal" && reads_log {
        lock.hold(|| use_wal(&connection, &path))?;
    }
    connection.pragma_update(
        None,
        "synchronous",
        match options.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        },
    )?;
    // On macOS a plain fsync does not reach the disk. On other systems this setting has no effect.
    connection.pragma_update(None, "fullfsync", options.synchronous == Synchronous::Full)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    // SQLite checkpoints the log at 8 MB instead of 4 MB, so a page that is written again and again is copied fewer
    // times. The log still fits in caches.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 2_048, |_| Ok(()))?;
    // Deleted and overwritten data must not stay readable in the file's free pages.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    // Savepoints then use memory instead of a file for the pages that they may have to restore.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if options.mode != SqliteMode::ReadOnly {
        schema::prepare(&mut connection, &path, &mut lock)?;
    }
    let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let page = u64::from(page.max(1));
    if let Some(bytes) = options.max_size_bytes {
        let pages = i64::try_from((bytes / page).max(1)).unwrap_or(i64::MAX);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    let log: &[&str] = if reads_log { &["-wal", "-shm"] } else { &[] };
    let files = DatabaseFiles::of(found, path, log)?;
    let extent = Extent { stored: files.check_all()? / page, pages: count_pages(&connection)? };
    Ok(OpenedDatabase { connection, lock, files: Arc::new(files), extent, page })
}

/// Returns the number of pages of the database, including those in its log.
pub(super) fn count_pages(connection: &Connection) -> Fallible<u64> {
    Ok(connection.pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0))?.into())
}

fn use_wal(connection: &Connection, path: &Path) -> Fallible<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let message = format!("{}: its file system cannot share a write-ahead log; use a local disk", path.display());
    Err(StoreFailure::Ours(Error::new(ErrorKind::FailedPrecondition, message)))
}

/// Opens an existing database for reading.
pub(super) fn open_reader(path: &Path, access: FileAccess) -> Fallible<Connection> {
    let connection = match access {
        // Not SQLITE_OPEN_READ_ONLY: if a crash has left a log behind, the first connection must be able to recover it.
        FileAccess::Shared => open(&literal(path)?, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        FileAccess::Immutable => {
            open(&immutable_uri(path)?, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -8_192)?;
    Ok(connection)
}

/// Opens a database to copy it as it is, even if its tables are those of an older version. Nothing is changed in it.
pub(super) fn open_to_copy(path: &Path) -> Fallible<Connection> {
    let path = &fs::canonicalize(path).map_err(|e| io_error(path, "the file cannot be found", e))?;
    let log = log_of(path);
    let access = if can_make_files_beside(path) { FileAccess::Shared } else { FileAccess::Immutable };
    if let (FileAccess::Immutable, Some(log)) = (access, &log) {
        return Err(unread_log(path, log).into());
    }
    let connection = open_reader(path, access)?;
    // What a crash has left in the log stays there: closing would move it into the database.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, log.is_some())?;
    schema::missing(&connection, path)?;
    Ok(connection)
}

fn open(name: &Path, flags: OpenFlags) -> Fallible<Connection> {
    let connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // This comes first, because the statements below may already find the file locked.
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Query plans must not depend on bound values. Otherwise SQLite recompiles a statement with a bound LIMIT on
    // each call.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Returns the absolute path. SQLite never reads it as a URI, because it cannot begin with `file:`.
pub(super) fn literal(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| io_error(path, "the path cannot be made absolute", e))
}

/// Returns the URI that makes SQLite assume that nobody changes the file.
fn immutable_uri(path: &Path) -> Result<PathBuf> {
    let path = literal(path)?;
    let Some(text) = path.to_str() else {
        return Err(Error::invalid(format!(
            "{}: the path is not UTF-8; open a copy under another name",
            path.display()
        )));
    };
    let escaped = [("%", "%25"), ("?", "%3f"), ("#", "%23"), ("\\", "/")];
    let text = escaped.iter().fold(text.to_owned(), |text, (c, code)| text.replace(c, code));
    let root = if text.starts_with('/') { "" } else { "/" };
    Ok(format!("file:{root}{text}?immutable=1").into())
}

/// Refuses invalid paths with the reason. SQLite would only report that it cannot open the file.
fn check_path(path: &Path, mode: SqliteMode) -> Result<()> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(Error::invalid(format!(
            "the path '{}' is no file's; name one, or use the store 'memory:'",
            path.display()
        )));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let found = fs::metadata(folder).map_err(|e| {
        let what = match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such folder for the database; make it first",
            _ => "the folder of the database cannot be read",
        };
        io_error(folder, what, e)
    })?;
    if found.permissions().readonly() {
        return Err(read_only(folder, mode));
    }
    // A file marked read-only is not changed, even if the system would let root write to it.
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Error::invalid(format!("{} is a folder; name a file in it", path.display())))
        }
        Ok(found) if found.permissions().readonly() => Err(read_only(path, mode)),
        _ => Ok(()),
    }
}

/// Returns whether files can be created beside a database. The file that tests this is removed at once.
fn can_make_files_beside(path: &Path) -> bool {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.parent().and_then(|folder| fs::metadata(folder).ok()).is_some_and(|folder| folder.permissions().readonly())
    {
        return false;
    }
    let probe = beside(&path, &format!("-probe-{}", SystemEnvironment.new_id()));
    let made = private().write(true).create_new(true).open(&probe);
    made.is_ok_and(|_| fs::remove_file(&probe).is_ok())
}

fn read_only(path: &Path, mode: SqliteMode) -> Error {
    let what = match mode {
        SqliteMode::ReadOnly => {
            "may not be written, which reading takes as well, for SQLite's log and locks; open a copy in a folder of yours"
        }
        SqliteMode::Create | SqliteMode::Existing => {
            "is read-only; allow writing, or name another file; to only read it, add ?mode=ro to its name"
        }
    };
    let message = format!("{} {what}", path.display());
    Error::new(ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use rusqlite::{StatementStatus, params};

    use super::{FileAccess, SqliteOptions, Synchronous, open_reader, open_writer};

    #[test]
    fn a_statement_is_compiled_once_whatever_is_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let writer = open_writer(&path, &SqliteOptions::default()).unwrap().connection;
        for connection in [writer, open_reader(&path, FileAccess::Shared).unwrap()] {
            let sql = "SELECT seq FROM events WHERE app_name = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare(sql).unwrap();
            for limit in 1..10 {
                assert!(!statement.exists(params!["app", limit, limit]).unwrap());
            }
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn a_commit_reaches_the_disk_unless_the_options_say_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        for (options, expected) in
            [(SqliteOptions::default(), 2), (SqliteOptions::default().with_synchronous(Synchronous::Normal), 1)]
        {
            let opened = open_writer(&folder.path().join("agents.db"), &options).unwrap();
            let pragma = |name| opened.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!(pragma("synchronous"), expected);
        }
    }
}
