//! Reads google-adk's databases in SQLite files. The two layouts differ in the form of times and in the order of
//! events.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};
use scratchbook::store::without_password;
use scratchbook::{Error, ErrorKind, Result, SessionKey};

use super::super::source::MAX_TEXT;
use super::layout::{DetectedTables, Layout};
use super::rows::{AdkDatabase, AdkEventRow, AdkSessionRow, EventOverrides};

/// A file that is open for reading on one snapshot.
#[derive(Debug)]
pub(super) struct Sqlite {
    /// The mutex is uncontended: there is only one caller at a time.
    connection: Mutex<Connection>,
    name: String,
    layout: Layout,
    unnamed: Mutex<BTreeSet<String>>,
}

impl Sqlite {
    pub(super) fn open(path: &Path, layout: Layout) -> Result<Self> {
        let name = path.display().to_string();
        let connection = connect(path).map_err(|e| failed(&name, e))?;
        let found = look(&connection).map_err(|e| failed(&name, e))?;
        found.check(layout, &name, &format!("sqlite:///{name}"))?;
        Ok(Self { connection: Mutex::new(connection), name, layout, unnamed: Mutex::default() })
    }

    fn query<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = || connection.prepare_cached(sql)?.query_map(params, read)?.collect::<Result<_, _>>();
        rows().map_err(|e| failed(&self.name, e))
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.query(sql, params, read)?.into_iter().next())
    }

    /// Reads names or ids. Rows without one are left out: they are `what`, and can be addressed by no text.
    fn names(&self, what: &str, sql: &str, params: impl rusqlite::Params) -> Result<Vec<String>> {
        let names = self.query(sql, params, |row| Ok(name(row.get_ref(0)?)))?;
        Ok(names.into_iter().filter_map(|name| self.named(what, name)).collect())
    }

    fn named<T>(&self, what: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned());
        }
        found
    }
}

#[async_trait]
impl AdkDatabase for Sqlite {
    async fn count_events(&self) -> Result<u64> {
        let count = self.one("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0))?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    async fn apps(&self) -> Result<Vec<String>> {
        let sql = "SELECT app_name FROM sessions UNION SELECT app_name FROM app_states
            UNION SELECT app_name FROM user_states ORDER BY app_name";
        self.names("an app", sql, [])
    }

    async fn users(&self, app: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let sql = "SELECT user_id FROM sessions WHERE app_name = ?1 AND (?2 IS NULL OR user_id > ?2)
            UNION SELECT user_id FROM user_states WHERE app_name = ?1 AND (?2 IS NULL OR user_id > ?2)
            ORDER BY user_id LIMIT ?3";
        self.names(&format!("a user of the app {app}"), sql, params![app, after, limit_of(limit)])
    }

    async fn state(&self, app: &str, user: Option<&str>) -> Result<Option<Result<String>>> {
        let state = |row: &Row<'_>| Ok(text(row.get_ref(0)?, "state"));
        let column = bounded("state");
        let Some(user) = user else {
            return self.one(&format!("SELECT {column} FROM app_states WHERE app_name = ?1"), [app], state);
        };
        let sql = format!("SELECT {column} FROM user_states WHERE app_name = ?1 AND user_id = ?2");
        self.one(&sql, [app, user], state)
    }

    fn unnamed(&self) -> Vec<String> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    async fn sessions(&self, app: &str, user: &str, after: Option<&str>, limit: usize) -> Result<Vec<AdkSessionRow>> {
        let sql = format!(
            "SELECT id, {}, create_time, update_time FROM sessions
            WHERE app_name = ?1 AND user_id = ?2 AND (?3 IS NULL OR (update_time, id) > (
                SELECT update_time, id FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3
            ))
            ORDER BY update_time, id LIMIT ?4",
            bounded("state")
        );
        let rows = self.query(&sql, params![app, user, after, limit_of(limit)], |row| {
            let time = |column| Ok::<_, rusqlite::Error>(seconds(row.get_ref(column)?, self.layout));
            let (create_time, update_time) = (time(2)?, time(3)?);
            let Some(id) = name(row.get_ref(0)?) else { return Ok(None) };
            Ok(Some(AdkSessionRow { id, state: text(row.get_ref(1)?, "state"), create_time, update_time }))
        })?;
        let what = format!("a session of {app}/{user}");
        Ok(rows.into_iter().filter_map(|row| self.named(&what, row)).collect())
    }

    async fn events(&self, session: &SessionKey, after: Option<&str>, limit: usize) -> Result<Vec<AdkEventRow>> {
        // This is the order of each service: events with equal times are ordered by when they were appended, or by id.
        // ADK for TypeScript, whose times are integers, does not define an order for them.
        let order = match self.layout {
            Layout::Sqlite => "timestamp, rowid",
            Layout::Database => "timestamp, iif(typeof(timestamp) = 'integer', rowid, 0), id",
        };
        let sql = format!(
            "SELECT id, invocation_id, timestamp, {} FROM events
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND (?4 IS NULL OR ({order}) > (
                SELECT {order} FROM events
                WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND id = ?4
            ))
            ORDER BY {order} LIMIT ?5",
            bounded("event_data")
        );
        let (app, user, session) = (session.app_name(), session.user_id(), session.session_id());
        self.query(&sql, params![app, user, session, after, limit_of(limit)], |row| {
            let mut data = match row.get_ref(3)? {
                ValueRef::Null => Ok("{}".to_owned()),
                data => text(data, "event_data"),
            };
            let id = name(row.get_ref(0)?).unwrap_or_else(|| {
                data = Err(Error::invalid("its id is no text"));
                String::new()
            });
            let columns = match (self.layout, text(row.get_ref(1)?, "invocation_id")) {
                (Layout::Sqlite, _) => None,
                (Layout::Database, Ok(invocation_id)) => Some(EventOverrides { invocation_id }),
                (Layout::Database, Err(why)) => {
                    data = Err(why);
                    None
                }
            };
            Ok(AdkEventRow { id, data, time: seconds(row.get_ref(2)?, self.layout), columns })
        })
    }

    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND id = ?4";
        let params = params![session.app_name(), session.user_id(), session.session_id(), id];
        Ok(self.one(sql, params, |_| Ok(()))?.is_some())
    }
}

/// Returns the expression for a column of texts: of a text that is too large to be read, it gives the length alone.
fn bounded(column: &str) -> String {
    format!("iif(octet_length({column}) > {MAX_TEXT}, octet_length({column}), {column})")
}

/// Reads a name or an id. A BLOB with the same bytes is another value in SQLite.
fn name(value: ValueRef<'_>) -> Option<String> {
    value.as_str().ok().map(str::to_owned)
}

/// Reads a text that a program may have stored as a BLOB.
fn text(value: ValueRef<'_>, column: &str) -> Result<String> {
    match value {
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            String::from_utf8(text.to_vec()).map_err(|_| Error::invalid(format!("its {column} is not UTF-8")))
        }
        ValueRef::Integer(bytes) if bytes.unsigned_abs() > MAX_TEXT => {
            let message = format!("its {column} must have at most {MAX_TEXT} bytes (64 MiB), and has {bytes}");
            Err(Error::new(ErrorKind::PayloadTooLarge, message))
        }
        _ => Err(Error::invalid(format!("its {column} is no text"))),
    }
}

/// Reads a time: a number of seconds, or a date and a time of day in UTC. In the layout whose times are otherwise text,
/// ADK for TypeScript stores integer milliseconds.
fn seconds(value: ValueRef<'_>, layout: Layout) -> Option<f64> {
    match (value, layout) {
        (ValueRef::Real(seconds), _) => Some(seconds),
        (ValueRef::Integer(seconds), Layout::Sqlite) => Some(seconds as f64),
        (ValueRef::Integer(millis), Layout::Database) => Some(millis as f64 / 1000.0),
        (ValueRef::Text(text), _) => {
            let time: DateTime = std::str::from_utf8(text).ok()?.parse().ok()?;
            let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
            Some(time.as_microsecond() as f64 / 1e6)
        }
        _ => None,
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let connection = if is_at_rest(&absolute) {
        // Reading in WAL mode would create files beside the database, so the file is opened as immutable. This is safe
        // because nobody has the database open if there is no log file.
        Connection::open_with_flags(immutable(&absolute), flags | OpenFlags::SQLITE_OPEN_URI)?
    } else {
        Connection::open_with_flags(&absolute, flags)?
    };
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch("BEGIN")?;
    Ok(connection)
}

/// Returns whether a database is in WAL mode and has no log file now.
fn is_at_rest(path: &Path) -> bool {
    let mut header = [0; 20];
    // The header is read and the file is closed before SQLite opens it, because closing it later would drop SQLite's
    // locks.
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    read.is_ok() && header[18] == 2 && !PathBuf::from(log).exists()
}

fn immutable(path: &Path) -> String {
    let encode = |c: char| match c {
        '%' | '?' | '#' => format!("%{:02X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("file:{}?immutable=1", path.to_string_lossy().chars().map(encode).collect::<String>())
}

fn look(connection: &Connection) -> rusqlite::Result<DetectedTables> {
    let names =
        |sql: &str| connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>();
    let tables = names("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let event_columns = names("SELECT name FROM pragma_table_info('events')")?;
    let mut found = DetectedTables { tables, event_columns, version: None };
    if found.tables.iter().any(|name| name == "adk_internal_metadata") {
        let sql = "SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'";
        found.version = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    }
    Ok(found)
}

fn failed(name: &str, error: rusqlite::Error) -> Error {
    // The name may be a database URI with a password.
    let name = &without_password(name);
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) if !Path::new(name).exists() => {
            (ErrorKind::NotFound, format!("there is no file {name}; name the database of google-adk"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (ErrorKind::PermissionDenied, format!("{name} cannot be opened for reading"))
        }
        Some(ErrorCode::NotADatabase) => (ErrorKind::FailedPrecondition, format!("{name} is no SQLite database")),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, format!("{name} is being written to; try again, or stop google-adk first"))
        }
        Some(ErrorCode::ReadOnly) => (
            ErrorKind::FailedPrecondition,
            format!(
                "{name} was left in the middle of a write, and is not written to here; open it with google-adk once"
            ),
        ),
        _ => (ErrorKind::DataCorrupted, format!("{name} cannot be read")),
    };
    Error::new(kind, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_python_makes_of_them() {
        let text = |text: &'static str| seconds(ValueRef::Text(text.as_bytes()), Layout::Database);
        assert_eq!(text("2023-11-14 22:13:20.123457"), Some(1_700_000_000.123457));
        assert_eq!(text("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(text("yesterday"), None);
        assert_eq!(seconds(ValueRef::Real(1.25), Layout::Sqlite), Some(1.25));
        assert_eq!(seconds(ValueRef::Integer(1_250), Layout::Database), Some(1.25), "ADK for TypeScript's");
    }

    #[test]
    fn nothing_is_written_beside_a_file_at_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("50% ? done#.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        let tables = "CREATE TABLE sessions (id); CREATE TABLE events (event_data, timestamp);";
        writer.execute_batch(tables).unwrap();
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        Sqlite::open(&path, Layout::Sqlite).unwrap();
        drop(writer);
        assert_eq!(files(), 1, "the last writer has tidied up");
        let open = Sqlite::open(&path, Layout::Sqlite).unwrap();
        assert_eq!(files(), 1);
        assert!(open.connection.lock().unwrap().execute("INSERT INTO sessions VALUES (1)", []).is_err());
    }
}
