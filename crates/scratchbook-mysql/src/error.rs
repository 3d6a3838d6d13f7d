//! Translates MySQL's errors. Many of its own messages quote values, so only those are passed on that cannot.

use std::error::Error as StdError;
use std::io;

use mysql_async::{DriverError, Error as MySqlError, ServerError};

use super::tls;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_database::{CommitFate, Failure};

/// What was running when the error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A connection was being made.
    Connecting,
    /// A statement that only reads was sent.
    Reading,
    /// A statement that may have committed was sent.
    Writing,
    /// A statement of a migration was sent.
    Migrating,
}

/// Returns the failure for an error.
pub(super) fn failure(place: &str, stage: Stage, error: &MySqlError) -> Failure {
    if let MySqlError::Server(error) = error {
        return server(place, stage, error);
    }
    if let Some(error) = cause::<rustls::Error>(error)
        && stage == Stage::Connecting
    {
        return Failure::new(CommitFate::NeverApplied, tls::describe(error).context(place));
    }
    let (fate, kind, what) = match (error, stage) {
        (MySqlError::Driver(DriverError::NoClientSslFlagFromServer), _) => (
            CommitFate::NeverApplied,
            ErrorKind::FailedPrecondition,
            "the server has no encryption; set it up, or sslmode=disable",
        ),
        (
            MySqlError::Driver(
                DriverError::UnknownAuthPlugin { .. }
                | DriverError::MysqlOldPasswordDisabled
                | DriverError::CleartextPluginDisabled,
            ),
            _,
        ) => (
            CommitFate::NeverApplied,
            ErrorKind::FailedPrecondition,
            "the user signs in by a method that is not supported; use mysql_native_password, caching_sha2_password or \
             ed25519",
        ),
        (_, Stage::Connecting) => (
            CommitFate::NotSent,
            ErrorKind::Unavailable,
            "the server cannot be reached; check that it runs, and host and port or unix_socket",
        ),
        (_, Stage::Reading | Stage::Writing | Stage::Migrating) => {
            (CommitFate::Unknown, ErrorKind::Unavailable, "the connection was lost before the answer")
        }
    };
    let mut public = Error::new(kind, format!("{place}: {what}"));
    // An error of the operating system quotes no data; the driver's own errors may contain what was sent.
    if let Some(error) = cause::<io::Error>(error).filter(|error| error.get_ref().is_none()) {
        public = public.with_source(io::Error::new(error.kind(), error.to_string()));
    }
    Failure::new(fate, public)
}

/// Returns the failure of a call that took too long; its connection is closed.
pub(super) fn too_slow(place: &str, seconds: f64) -> Failure {
    let what = format!("{place}: no answer within {seconds} s (statement_timeout_ms); the connection was given up");
    Failure::new(CommitFate::Unknown, Error::new(ErrorKind::Unavailable, what))
}

/// Returns the failure for a connection that could not be made in time.
pub(super) fn unreached(place: &str, seconds: f64) -> Failure {
    let what = format!("{place}: no connection within {seconds} s (connect_timeout)");
    Failure::new(CommitFate::NotSent, Error::new(ErrorKind::Unavailable, what))
}

/// Returns whether a connection is still usable after this error.
pub(super) fn leaves_connection(error: &MySqlError) -> bool {
    matches!(error, MySqlError::Server(ServerError { code: 1062 | 1205 | 1213, .. }))
}

/// Returns whether a server is read-only or refuses all statements, so that another server may be the right one.
pub(super) fn leads_elsewhere(error: &MySqlError) -> bool {
    matches!(error, MySqlError::Server(ServerError { code: 1047 | 1290 | 1792 | 1836 | 3032, .. }))
}

/// Returns the first cause of a type.
pub(super) fn cause<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        // An I/O error contains another error that is not its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn server(place: &str, stage: Stage, error: &ServerError) -> Failure {
    use ErrorKind as Kind;
    let (mut fate, kind, what) = match error.code {
        1045 | 1698 => (
            CommitFate::NeverApplied,
            Kind::Unauthenticated,
            "the user or the password is wrong, or the user has to encrypt (sslmode=require)",
        ),
        1049 => (CommitFate::NeverApplied, Kind::NotFound, "there is no such database; make it with CREATE DATABASE"),
        1044 | 1142 | 1143 | 1227 | 1370 | 1419 => (
            CommitFate::NeverApplied,
            Kind::PermissionDenied,
            "the user may not do this; grant it what docs/schema.md lists",
        ),
        1130 => (CommitFate::NeverApplied, Kind::PermissionDenied, "the server takes no connections from this host"),
        3159 => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "the server takes encrypted connections alone; sslmode=require",
        ),
        1040 | 1203 | 1226 => (
            CommitFate::NotSent,
            Kind::ResourceExhausted,
            "the server has no connection left (max_connections); raise it, or lower pool_size",
        ),
        1129 => (CommitFate::NotSent, Kind::Unavailable, "the server has blocked this host after errors (FLUSH HOSTS)"),
        1213 | 3101 => (CommitFate::RolledBack, Kind::Unavailable, "another writer came first again and again"),
        1205 => (
            CommitFate::LockTimeout,
            Kind::Unavailable,
            "another transaction holds a lock for long; end it, then try again",
        ),
        1020 | 1050 | 1062 | 1304 => (CommitFate::RolledBack, Kind::Unavailable, "another writer came first"),
        1243 | 1615 => (CommitFate::RolledBack, Kind::Unavailable, "the tables were changed meanwhile"),
        1290 | 1792 | 1836 => (
            CommitFate::RolledBack,
            Kind::Unavailable,
            "the server is read-only: a replica, or one set so; name the primary",
        ),
        1047 => (CommitFate::RolledBack, Kind::Unavailable, "the node is not ready (wsrep_ready)"),
        1053 | 1077 | 1079 | 1180 | 1181 | 1158..=1161 | 1317 | 1927 | 1969 | 3024 | 3032 | 3168 | 3169 | 4031 => {
            (CommitFate::Unknown, Kind::Unavailable, "the server ended the statement")
        }
        1026 | 1030 | 1598 | 3100 | 3200 => (
            CommitFate::Unknown,
            Kind::Unavailable,
            "the server failed to write, possibly its binary log after the commit",
        ),
        1021 | 1114 => (CommitFate::NeverApplied, Kind::ResourceExhausted, "the server's disk is full; make room"),
        1037 | 1038 | 1041 | 1206 => (CommitFate::NeverApplied, Kind::ResourceExhausted, "the server is out of memory"),
        1118 | 1197 => (
            CommitFate::NeverApplied,
            Kind::PayloadTooLarge,
            "more than one transaction may hold; raise innodb_log_file_size and max_binlog_cache_size, or split it",
        ),
        1153 => (
            CommitFate::NeverApplied,
            Kind::PayloadTooLarge,
            "larger than the server takes at once; raise max_allowed_packet, or split it",
        ),
        1461 => (
            CommitFate::NeverApplied,
            Kind::ResourceExhausted,
            "the server has no prepared statement left; raise max_prepared_stmt_count",
        ),
        1034 | 1712 => {
            (CommitFate::NeverApplied, Kind::DataCorrupted, "a table of the database is damaged; restore a backup")
        }
        1305 if error.message.contains("FUNCTION") => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "the server lacks a function that this scratchbook calls; use another version of the server",
        ),
        1054 | 1146 | 1305 | 1318 if stage == Stage::Migrating => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "the tables are not those of an earlier version; restore a backup, or use another table_prefix",
        ),
        1054 | 1146 | 1305 | 1318 => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "a table or procedure of scratchbook's is missing or of another version; run 'scratchbook migrate'",
        ),
        1665 => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "the server logs statements; set binlog_format to ROW or MIXED",
        ),
        1071 => (
            CommitFate::NeverApplied,
            Kind::FailedPrecondition,
            "keys do not fit an index; innodb_page_size has to be 16k or more",
        ),
        _ if matches!(stage, Stage::Writing | Stage::Migrating) && !is_surely_refused(error) => {
            (CommitFate::Unknown, Kind::Internal, "MySQL failed at a statement, which may have been done")
        }
        _ => (CommitFate::NeverApplied, Kind::Internal, "MySQL refused a statement"),
    };
    if stage == Stage::Connecting
        && matches!(fate, CommitFate::Unknown | CommitFate::RolledBack | CommitFate::LockTimeout)
    {
        fate = CommitFate::NotSent;
    }
    let ServerError { code, state, message } = error;
    let said = if QUOTES_NO_VALUE.contains(code) { format!(": {message}") } else { String::new() };
    let what = format!("{what} (error {code}, SQLSTATE {state}{said})");
    if kind == Kind::PayloadTooLarge {
        // The request is at fault, not the database.
        return Failure { fate, error: Error::new(kind, what) };
    }
    Failure::new(fate, Error::new(kind, format!("{place}: {what}")))
}

/// The errors whose messages name only objects, users, files and settings. A syntax error quotes the statement, in which
/// our values are question marks.
const QUOTES_NO_VALUE: [u16; 36] = [
    1021, 1026, 1030, 1044, 1045, 1046, 1049, 1050, 1054, 1064, 1071, 1114, 1118, 1129, 1130, 1142, 1143, 1146, 1193,
    1227, 1235, 1273, 1290, 1304, 1305, 1318, 1370, 1419, 1449, 1665, 3032, 3098, 3100, 3101, 3159, 3569,
];

/// Returns whether an error that is not listed was caused by the statement or its values, and so occurred before any
/// commit.
fn is_surely_refused(error: &ServerError) -> bool {
    // Most errors have the state HY000. Of these errors, the following are about values, character sets, JSON and
    // missing objects.
    let of_values = matches!(error.code, 1193 | 1231 | 1264..=1267 | 1292 | 1364..=1366 | 1525 | 1644 | 4035..=4045);
    // These states are for errors of values, constraints, statements and permissions, and not for errors of
    // transactions or connections.
    of_values || ["0A", "21", "22", "23", "28", "3D", "42", "45"].iter().any(|class| error.state.starts_with(class))
}

#[cfg(test)]
mod tests {
    use std::io;

    use mysql_async::{Error as MySqlError, IoError, ServerError};

    use super::{Stage, failure};
    use scratchbook_core::error::ErrorKind;
    use scratchbook_database::CommitFate;

    fn server(code: u16) -> MySqlError {
        MySqlError::Server(ServerError { code, message: "a 'secret' value".into(), state: "HY000".into() })
    }

    #[test]
    fn what_is_tried_again_follows_from_the_number() {
        for (code, fate, kind) in [
            (1213, CommitFate::RolledBack, ErrorKind::Unavailable),
            (1205, CommitFate::LockTimeout, ErrorKind::Unavailable),
            (1047, CommitFate::RolledBack, ErrorKind::Unavailable),
            (1290, CommitFate::RolledBack, ErrorKind::Unavailable),
            (1180, CommitFate::Unknown, ErrorKind::Unavailable),
            (1053, CommitFate::Unknown, ErrorKind::Unavailable),
            (1040, CommitFate::NotSent, ErrorKind::ResourceExhausted),
            (1021, CommitFate::NeverApplied, ErrorKind::ResourceExhausted),
            (1045, CommitFate::NeverApplied, ErrorKind::Unauthenticated),
            (1366, CommitFate::NeverApplied, ErrorKind::Internal),
            (3101, CommitFate::RolledBack, ErrorKind::Unavailable),
            (3100, CommitFate::Unknown, ErrorKind::Unavailable),
            (1026, CommitFate::Unknown, ErrorKind::Unavailable),
            (3032, CommitFate::Unknown, ErrorKind::Unavailable),
            (9999, CommitFate::Unknown, ErrorKind::Internal),
        ] {
            let failure = failure("mysql://db/x", Stage::Writing, &server(code));
            assert_eq!((failure.fate, failure.error.kind()), (fate, kind), "{code}");
            assert!(failure.error.to_string().contains(&code.to_string()), "{}", failure.error);
        }
    }

    #[test]
    fn words_of_the_server_are_passed_on_unless_they_may_quote_a_value() {
        for (code, is_passed_on) in
            [(1045, true), (1146, true), (3100, true), (3569, true), (1062, false), (9999, false)]
        {
            let error = failure("db", Stage::Writing, &server(code)).error;
            let shown = format!("{error} {error:?}");
            assert_eq!(shown.contains("a 'secret' value"), is_passed_on, "{shown}");
        }
    }

    #[test]
    fn advice_to_migrate_is_given_for_a_missing_procedure_outside_of_migrations_alone() {
        let missing = |what: &str, stage| {
            let error =
                ServerError { code: 1305, message: format!("{what} a.b does not exist"), state: "42000".into() };
            let error = failure("db", stage, &MySqlError::Server(error)).error;
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
            assert!(error.to_string().contains(&format!("{what} a.b does not exist")), "{error}");
            error.to_string().contains("run 'scratchbook migrate'")
        };
        assert!(missing("PROCEDURE", Stage::Writing));
        assert!(!missing("PROCEDURE", Stage::Migrating));
        assert!(!missing("FUNCTION", Stage::Reading));
        assert!(!missing("FUNCTION", Stage::Migrating));
    }

    #[test]
    fn a_lost_connection_is_unknown_and_one_never_made_is_not() {
        let lost = || MySqlError::Io(IoError::Io(io::ErrorKind::ConnectionReset.into()));
        assert_eq!(failure("db", Stage::Writing, &lost()).fate, CommitFate::Unknown);
        assert_eq!(failure("db", Stage::Connecting, &lost()).fate, CommitFate::NotSent);
        assert_eq!(failure("db", Stage::Connecting, &server(1053)).fate, CommitFate::NotSent);
    }

    #[test]
    fn an_unknown_error_of_what_cannot_have_committed_is_a_refusal() {
        for stage in [Stage::Connecting, Stage::Reading] {
            assert_eq!(failure("db", stage, &server(9999)).fate, CommitFate::NeverApplied);
        }
        let error = ServerError { code: 9999, message: String::new(), state: "42000".into() };
        assert_eq!(failure("db", Stage::Writing, &MySqlError::Server(error)).fate, CommitFate::NeverApplied);
    }
}
