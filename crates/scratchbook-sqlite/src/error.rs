//! Converts SQLite's errors, so that no type of rusqlite appears in the public interface.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};

use scratchbook_core::error::{Error, ErrorKind};

const FULL: &str = "the disk, or the size the database may have, is full; make room";

/// The reason why a step inside the store failed: an error of SQLite, or a refusal of ours.
#[derive(Debug)]
pub(super) enum StoreFailure {
    Sqlite(rusqlite::Error),
    Ours(Error),
}

/// The result of everything that runs on a connection.
pub(super) type Fallible<T> = std::result::Result<T, StoreFailure>;

impl From<rusqlite::Error> for StoreFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for StoreFailure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl StoreFailure {
    /// Returns whether another program's lock prevented the step.
    pub(super) fn is_busy(&self) -> bool {
        let busy = [Some(ErrorCode::DatabaseBusy), Some(ErrorCode::DatabaseLocked)];
        matches!(self, Self::Sqlite(error) if busy.contains(&error.sqlite_error_code()))
    }

    /// Returns whether what was read exceeds a limit of ours.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, Self::Ours(error) if error.kind() == ErrorKind::PayloadTooLarge)
    }

    /// Returns the public error, which names the file.
    pub(super) fn into_error(self, path: &Path) -> Error {
        let error = match self {
            Self::Ours(error) => return error,
            Self::Sqlite(error) => error,
        };
        let (kind, what) = describe(&error);
        if matches!(kind, ErrorKind::InvalidArgument | ErrorKind::PayloadTooLarge) {
            // The request is at fault and not the file.
            return Error::new(kind, what).with_source(error);
        }
        Error::new(kind, format!("{}: {what}", path.display())).with_source(error).for_operator()
    }
}

/// Returns the kind of an SQLite error, and a hint how to fix it.
pub(super) fn describe(error: &rusqlite::Error) -> (ErrorKind, &'static str) {
    use rusqlite::Error as E;
    let Some(code) = error.sqlite_error_code() else {
        return match error {
            E::InvalidColumnType(..) | E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) => {
                (ErrorKind::DataCorrupted, "a row holds what scratchbook never writes")
            }
            E::NulError(_) | E::InvalidPath(_) => {
                (ErrorKind::InvalidArgument, "no file can have this path; give another")
            }
            _ => (ErrorKind::Internal, "SQLite refused a statement"),
        };
    };
    match code {
        // The disk has no room for the shared memory beside the log.
        _ if error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
            (ErrorKind::ResourceExhausted, FULL)
        }
        _ if error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMMAP) => (
            ErrorKind::FailedPrecondition,
            "its file system has no shared memory (mmap), which SQLite needs beside its log; put the database on a local \
             disk, such as a named volume of a container",
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            ErrorKind::Unavailable,
            "another program holds the database's lock; close a transaction left open there, then try again",
        ),
        ErrorCode::DiskFull => (ErrorKind::ResourceExhausted, FULL),
        ErrorCode::TooBig => (ErrorKind::PayloadTooLarge, "a value is larger than SQLite can hold; split it"),
        ErrorCode::OutOfMemory => (ErrorKind::ResourceExhausted, "out of memory"),
        ErrorCode::DatabaseCorrupt => {
            (ErrorKind::DataCorrupted, "the database file is damaged; restore a backup of it")
        }
        ErrorCode::NotADatabase => (ErrorKind::FailedPrecondition, "the file is not a SQLite database; name another"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            (ErrorKind::PermissionDenied, "the database cannot be written; allow it, or name another")
        }
        ErrorCode::CannotOpen => {
            (ErrorKind::Unavailable, "the database cannot be opened; check its folder and permissions")
        }
        ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed => {
            (ErrorKind::Unavailable, "reading or writing the file failed; check the disk, then try again")
        }
        _ => (ErrorKind::Internal, "SQLite refused a statement"),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Error, ffi};

    use super::describe;
    use scratchbook_core::error::ErrorKind;

    #[test]
    fn missing_shared_memory_is_told_apart_from_a_full_disk_and_a_failed_one() {
        let kind = |code| describe(&Error::SqliteFailure(ffi::Error::new(code), None)).0;
        assert_eq!(kind(ffi::SQLITE_IOERR_SHMSIZE), ErrorKind::ResourceExhausted);
        assert_eq!(kind(ffi::SQLITE_IOERR_READ), ErrorKind::Unavailable);
        assert_eq!(kind(ffi::SQLITE_IOERR_SHMMAP), ErrorKind::FailedPrecondition);
    }
}
