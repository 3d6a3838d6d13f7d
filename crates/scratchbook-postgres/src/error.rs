//! Errors of PostgreSQL: whether the statement was applied, and the message for the caller.
//!
//! The server's messages may quote values (class 22), and its details, contexts and hints quote keys and parameters, so
//! none of these is passed on.

use std::error::Error as StdError;
use std::io;

use deadpool_postgres::{PoolError, TimeoutType, Timeouts};
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::connector::refuses_settings;
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_database::describe_tls;
pub(crate) use scratchbook_database::{CommitFate, Failure};

/// The constraints that two valid concurrent writes can violate.
const RACED: &[&str] = &["events_by_id", "artifacts_pkey"];

/// Returns whether a constraint is in [`RACED`]. The constraint of a partition has a number after the name.
fn is_raced(constraint: &str) -> bool {
    RACED.contains(&constraint.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_'))
}

/// Returns the failure of a statement.
pub(super) fn of_statement(place: &str, error: &tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(db) => of_database(place, db),
        None => of_driver(place, error, CommitFate::Unknown),
    }
}

/// Returns the failure to get a connection.
pub(super) fn of_pool(place: &str, error: PoolError, timeouts: &Timeouts) -> Failure {
    let unreached =
        |kind, what: String| Failure::new(CommitFate::NotSent, Error::new(kind, format!("{place}: {what}")));
    match error {
        PoolError::Backend(error) => match error.as_db_error() {
            Some(db) if is_bad_option(db) => {
                let message = ServerMessage::new(db);
                let what = "the server does not take an option of the connection; see 'options'";
                let error = Error::invalid(format!("{place}: {what}{}", message.text())).with_source(message);
                Failure::new(CommitFate::NeverApplied, error)
            }
            Some(_) if refuses_settings(&error) => {
                let what = "a pooler before the server refuses the connection's 'options'; name the schema with \
                    schema=NAME, set other settings with ALTER ROLE ... SET, or let PgBouncer ignore them with \
                    ignore_startup_parameters = options";
                Failure::new(CommitFate::NeverApplied, Error::invalid(format!("{place}: {what}")))
            }
            // Nothing can have been written before the first statement.
            Some(db) => match of_database(place, db) {
                Failure { fate: CommitFate::Unknown | CommitFate::RolledBack | CommitFate::LockTimeout, error } => {
                    Failure::new(CommitFate::NotSent, error)
                }
                failure => failure,
            },
            None => of_driver(place, &error, CommitFate::NotSent),
        },
        PoolError::Timeout(TimeoutType::Wait) => unreached(
            ErrorKind::ResourceExhausted,
            format!("no connection was free within {}; raise pool_size", seconds(timeouts.wait)),
        ),
        PoolError::Timeout(_) => unreached(
            ErrorKind::Unavailable,
            format!(
                "no connection within {}; check host and port, and whether a pooler before the server has a server \
                 connection left",
                seconds(timeouts.create)
            ),
        ),
        PoolError::Closed => scratchbook_core::store::closed().into(),
        error => {
            let no_connection = Error::internal(format!("{place}: no connection")).with_source(error);
            Failure::new(CommitFate::NeverApplied, no_connection)
        }
    }
}

fn seconds(time: Option<std::time::Duration>) -> String {
    format!("{} s", time.unwrap_or_default().as_secs_f64())
}

/// Returns whether the server says that it will accept connections soon.
pub(super) fn is_starting(failure: &Failure) -> bool {
    let code =
        failure.error.source().and_then(|source| source.downcast_ref::<ServerMessage>()).map(|message| &message.code);
    let starting = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
    code.is_some_and(|code| starting.contains(code))
}

/// Returns whether a connection is unusable after this error: it has ended, its server is no longer the right one, or
/// it caches plans of tables that were changed.
pub(super) fn ends_connection(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        None => !matches!(error.to_string().as_str(), text if text.starts_with("error serializing")),
        Some(db) => {
            is_fatal(db) || *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION || has_old_plan(db) || is_pooler(db)
        }
    }
}

/// Returns the failure for an error of the driver: on the wire, in the handshake, or in a parameter.
fn of_driver(place: &str, error: &tokio_postgres::Error, fate: CommitFate) -> Failure {
    // The driver exposes the kinds of its errors only in their texts.
    let text = error.to_string();
    // The cause is in the message, so it is not repeated as a source.
    let fail = |fate, kind, what: &str| Failure::new(fate, Error::new(kind, format!("{place}: {what}")));
    if text.starts_with("error performing TLS handshake") {
        return of_handshake(place, error);
    }
    if text.starts_with("authentication error") || text.starts_with("invalid configuration") {
        let what = format!("the server asks for what was not given: {}", reason(error));
        return fail(CommitFate::NeverApplied, ErrorKind::Unauthenticated, &what);
    }
    if text.starts_with("error serializing") || text.starts_with("error encoding") {
        let what = "a statement could not be sent: a value is larger than a message may be, 1 GB; split it";
        return Error::new(ErrorKind::PayloadTooLarge, what).into();
    }
    if text.starts_with("error connecting") {
        let what = format!("no connection ({}); check that the server runs, and host and port", reason(error));
        return fail(CommitFate::NotSent, ErrorKind::Unavailable, &what);
    }
    fail(fate, ErrorKind::Unavailable, &format!("the connection was lost ({})", reason(error)))
}

fn of_handshake(place: &str, error: &tokio_postgres::Error) -> Failure {
    let why = reason(error);
    let io = source_of::<io::Error>(error);
    let tls = io.and_then(|io| io.get_ref()).and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (fate, kind, what) = match (tls, io) {
        (Some(tls), _) => (CommitFate::NeverApplied, ErrorKind::FailedPrecondition, describe_tls(tls)),
        (None, None) => {
            let what = format!("no encrypted connection ({why}); see sslmode");
            (CommitFate::NeverApplied, ErrorKind::FailedPrecondition, what)
        }
        (None, Some(_)) => {
            let what = format!("the connection was lost while encryption was set up ({why}); try again");
            (CommitFate::NotSent, ErrorKind::Unavailable, what)
        }
    };
    Failure::new(fate, Error::new(kind, format!("{place}: {what}")))
}

/// Returns the innermost cause, in one line.
fn reason(error: &tokio_postgres::Error) -> String {
    let chain = std::iter::successors(Some(error as &dyn StdError), |error| (*error).source());
    chain.last().map(ToString::to_string).unwrap_or_default()
}

fn source_of<T: StdError + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref::<T>())
}

/// The parts of the server's message that quote no values. `Display` shows only the code. The error that has this as
/// its source contains the rest in its own message.
#[derive(Debug)]
struct ServerMessage {
    code: SqlState,
    message: Option<String>,
    constraint: Option<String>,
}

impl std::fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SQLSTATE {}", self.code.code())
    }
}

impl StdError for ServerMessage {}

impl ServerMessage {
    fn new(db: &DbError) -> Self {
        let quotes_nothing = ["08", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "XX"];
        let class = db.code().code().get(..2).unwrap_or_default();
        // A syntax error quotes our statement, which contains no values.
        let message = quotes_nothing.contains(&class).then(|| db.message().to_owned());
        Self { code: db.code().clone(), message, constraint: db.constraint().map(str::to_owned) }
    }

    /// Returns the text to append to a message.
    fn text(&self) -> String {
        match (&self.message, &self.constraint) {
            (Some(message), _) => format!(" ({message})"),
            (None, Some(constraint)) => format!(" (constraint {constraint})"),
            (None, None) => String::new(),
        }
    }
}

fn of_database(place: &str, db: &DbError) -> Failure {
    let (fate, kind, what) = meaning(db);
    let message = ServerMessage::new(db);
    if matches!(kind, ErrorKind::InvalidArgument | ErrorKind::PayloadTooLarge) {
        // The request is at fault, not the database.
        return Error::new(kind, what).with_source(message).into();
    }
    Failure::new(fate, Error::new(kind, format!("{place}: {what}{}", message.text())).with_source(message))
}

/// Returns whether the server does not know a setting in the URI, or its value.
fn is_bad_option(db: &DbError) -> bool {
    let codes = [
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        SqlState::SYNTAX_ERROR,
    ];
    codes.contains(db.code())
}

fn is_fatal(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

fn has_old_plan(db: &DbError) -> bool {
    *db.code() == SqlState::FEATURE_NOT_SUPPORTED && db.routine() == Some("RevalidateCachedQuery")
}

/// Returns whether a pooler drops prepared statements, because it sends each statement to another server connection.
fn is_pooler(db: &DbError) -> bool {
    [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(db.code())
}

/// Returns the fate of the statement, the kind of the error, and the advice for it.
fn meaning(db: &DbError) -> (CommitFate, ErrorKind, &'static str) {
    use ErrorKind as K;
    let code = db.code();
    let class = code.code().get(..2).unwrap_or_default();
    if *code == SqlState::UNIQUE_VIOLATION && db.constraint().is_some_and(is_raced) {
        return (CommitFate::RolledBack, K::Unavailable, "another writer was faster; try again");
    }
    if has_old_plan(db) {
        return (CommitFate::RolledBack, K::Unavailable, "the tables were changed; try again");
    }
    match code {
        code if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => (
            CommitFate::RolledBack,
            K::Unavailable,
            "the database has undone this in favour of another writer; try again",
        ),
        code if *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN => {
            (CommitFate::Unknown, K::Unavailable, "the server does not know whether this was done; try again")
        }
        code if *code == SqlState::LOCK_NOT_AVAILABLE => (
            CommitFate::LockTimeout,
            K::Unavailable,
            "another transaction holds a lock for long; end it, then try again",
        ),
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            (CommitFate::NotSent, K::Unavailable, "the server takes no writes; name the primary, or all hosts")
        }
        code if *code == SqlState::INVALID_PASSWORD => {
            (CommitFate::NeverApplied, K::Unauthenticated, "the server does not accept the user or the password")
        }
        code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION && db.message().contains("encryption") => {
            (CommitFate::NeverApplied, K::FailedPrecondition, "the server does not accept this encryption; see sslmode")
        }
        code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            (CommitFate::NeverApplied, K::Unauthenticated, "the server does not accept the user")
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            (CommitFate::NeverApplied, K::NotFound, "there is no such database; create it, or name another")
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            (CommitFate::NeverApplied, K::PermissionDenied, "the role may not do this; grant it the right")
        }
        code if *code == SqlState::TOO_MANY_CONNECTIONS => {
            (CommitFate::NotSent, K::ResourceExhausted, "the server has no connection left; lower pool_size")
        }
        code if *code == SqlState::CANNOT_CONNECT_NOW => {
            (CommitFate::NotSent, K::Unavailable, "the server is starting or stopping; try again")
        }
        code if *code == SqlState::QUERY_CANCELED => {
            (CommitFate::NeverApplied, K::Unavailable, "the server has cancelled this; see its statement_timeout")
        }
        code if [SqlState::CHARACTER_NOT_IN_REPERTOIRE, SqlState::UNTRANSLATABLE_CHARACTER].contains(code) => {
            (CommitFate::NeverApplied, K::InvalidArgument, "PostgreSQL cannot hold U+0000 in a name; leave it out")
        }
        _ if is_pooler(db) => (
            CommitFate::NeverApplied,
            K::FailedPrecondition,
            "a connection pooler loses prepared statements; set PgBouncer's max_prepared_statements",
        ),
        _ if is_fatal(db) || class == "08" || class == "57" => {
            (CommitFate::Unknown, K::Unavailable, "the server has ended the connection; try again")
        }
        _ => match class {
            "3F" | "42" => (
                CommitFate::NeverApplied,
                K::FailedPrecondition,
                "the tables are not as they should be; open the database once with migrate=auto",
            ),
            "53" => {
                (CommitFate::NeverApplied, K::ResourceExhausted, "the server has run out of disk or memory; make room")
            }
            "54" => {
                (CommitFate::NeverApplied, K::PayloadTooLarge, "a value is larger than PostgreSQL can hold; split it")
            }
            "58" => {
                (CommitFate::NeverApplied, K::Unavailable, "the server cannot read or write its files; check its disk")
            }
            "23" => (CommitFate::NeverApplied, K::DataCorrupted, "a stored row breaks a rule of the tables"),
            _ => (CommitFate::NeverApplied, K::Internal, "PostgreSQL refused a statement"),
        },
    }
}
