//! One error type with kinds; status codes, exit codes and exceptions are derived from the kind.

mod conflict;

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;

pub use conflict::{ConflictCause, KeyConflict, KeyWriter};

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an error, which programs can handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are invalid and can never be accepted: a key, id, number or shape.
    InvalidArgument,
    /// The named session, template key, artifact or file does not exist.
    NotFound,
    /// The object to be created already exists with different content.
    AlreadyExists,
    /// The write was refused because of a concurrent write.
    Conflict,
    /// The call cannot work in the present state: the service is closed, the schema is newer, or the database is not
    /// scratchbook's.
    FailedPrecondition,
    /// A resource is used up but may be available again later: disk space, a queue, a quota.
    ResourceExhausted,
    /// A value, event, delta, artifact, request body or response exceeds a limit in bytes; a retry does not help.
    PayloadTooLarge,
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller lacks permission, or the file system denies access.
    PermissionDenied,
    /// The store cannot be reached at the moment; a retry may work later.
    Unavailable,
    /// This store does not support the call.
    Unsupported,
    /// Stored data cannot be read back.
    DataCorrupted,
    /// A defect, in this library or in code that it calls.
    Internal,
}

impl ErrorKind {
    /// Returns the name in snake case, as in logs and JSON responses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::FailedPrecondition => "failed_precondition",
            Self::ResourceExhausted => "resource_exhausted",
            Self::PayloadTooLarge => "payload_too_large",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::DataCorrupted => "data_corrupted",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error: its kind, a message that says how to fix it, and its cause.
///
/// `Display` prints only the message; the cause is in [`source`](StdError::source).
///
/// ```
/// use scratchbook::{ErrorKind, SessionKey};
///
/// let error = SessionKey::new("app", "user", "a\nb").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert!(!error.is_retryable());
/// ```
pub struct Error {
    inner: Box<ErrorFields>,
}

struct ErrorFields {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    conflicts: Vec<KeyConflict>,
    /// Whether the call may have taken effect, so that a retry could apply it a second time.
    may_have_taken_effect: bool,
    /// Whether the reason concerns the operator of the program and not its caller.
    for_operator: bool,
    /// Whether an event of the run already reports the error.
    is_reported: bool,
}

impl Error {
    /// Creates an error of this kind, also for stores, tools and agents of your own.
    ///
    /// The message starts in lower case and names the invalid value and a valid one; it contains no secrets and no
    /// state values.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let inner = ErrorFields {
            kind,
            message,
            source: None,
            conflicts: Vec::new(),
            may_have_taken_effect: false,
            for_operator: false,
            is_reported: false,
        };
        Self { inner: Box::new(inner) }
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Adds `context: ` before the message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.inner.message = format!("{context}: {}", self.inner.message);
        self
    }

    /// Returns the class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether a retry without changes may succeed later. This is `false` if the call may have taken effect and a retry
    /// would apply it a second time.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let may_pass =
            matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::ResourceExhausted | ErrorKind::Conflict);
        may_pass && !self.inner.may_have_taken_effect
    }

    /// Marks the error as meant for the operator of the program: the program's store, disk, setting or account has
    /// failed, and the message may name an address, a path or a user. The caller's request was not at fault.
    ///
    /// A server responds with [`public_message`](Self::public_message) and logs the rest.
    ///
    /// ```
    /// use scratchbook::{Error, ErrorKind};
    ///
    /// let full = || Error::new(ErrorKind::ResourceExhausted, "/data/agents.db: the disk is full; make room");
    /// assert_eq!(full().public_message(), full().to_string());
    /// assert!(full().for_operator().is_for_operator());
    /// assert!(!full().for_operator().public_message().contains("/data"));
    /// ```
    #[must_use]
    pub fn for_operator(mut self) -> Self {
        self.inner.for_operator = true;
        self
    }

    /// Whether the reason is [for the operator](Self::for_operator).
    #[must_use]
    pub fn is_for_operator(&self) -> bool {
        self.inner.for_operator
    }

    /// Returns the message for callers of the program: the whole message, unless the reason is [for the
    /// operator](Self::for_operator).
    #[must_use]
    pub fn public_message(&self) -> &str {
        match self.inner.for_operator {
            false => &self.inner.message,
            true if self.is_retryable() => "the store cannot do this just now; try again later",
            true if self.inner.may_have_taken_effect => {
                "the store may have done this; read the data before you try again. Those who run it find the reason in \
                 its log"
            }
            true => "the store cannot do this; those who run it find the reason in its log",
        }
    }

    /// Returns the kind for callers of the program: the error's own kind, unless the reason is [for the
    /// operator](Self::for_operator). For those errors the kind is `Unavailable` if a retry may succeed later,
    /// `DataCorrupted` if stored data is damaged, and otherwise `Internal`, because a caller cannot fix it.
    #[must_use]
    pub fn public_kind(&self) -> ErrorKind {
        match self.kind() {
            kind if !self.inner.for_operator => kind,
            ErrorKind::Unavailable | ErrorKind::ResourceExhausted if self.is_retryable() => ErrorKind::Unavailable,
            ErrorKind::DataCorrupted => ErrorKind::DataCorrupted,
            _ => ErrorKind::Internal,
        }
    }

    /// Returns a copy of the error without its cause, which cannot be cloned, and without conflicts.
    #[doc(hidden)]
    pub fn again(&self) -> Self {
        let mut error = Self::new(self.kind(), self.inner.message.as_str());
        error.inner.may_have_taken_effect = self.inner.may_have_taken_effect;
        error.inner.for_operator = self.inner.for_operator;
        error
    }

    /// Marks the error as [not retryable](Self::is_retryable), whatever its kind: the call may have taken effect, and a
    /// retry would apply it a second time.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        self.inner.may_have_taken_effect = true;
        self
    }

    /// Returns the keys that caused a write to be refused with `Conflict`; empty for every other error.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sessions = InMemorySessionService::new();
    /// let app = StateOwner::app("shop")?;
    /// sessions.put_state(&app, StateDelta::new().with("open", false)?, "admin".into()).await?;
    ///
    /// let delta = StateDelta::new().with_expect("open", true)?.with_increment("sold", 1)?;
    /// let error = sessions.put_state(&app, delta, "till".into()).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Conflict);
    /// let conflict = &error.conflicts()[0];
    /// assert_eq!((conflict.key.as_str(), &conflict.found), ("app:open", &Some(false.into())));
    /// assert_eq!(conflict.writer.as_ref().map(|writer| writer.author.as_str()), Some("admin"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn conflicts(&self) -> &[KeyConflict] {
        &self.inner.conflicts
    }

    /// Creates the error for a write that was refused because of these keys. The message names keys and writers, never
    /// values.
    #[must_use]
    pub fn conflict(conflicts: Vec<KeyConflict>) -> Self {
        let listed = conflict::listed(&conflicts);
        let mut error = Self::new(ErrorKind::Conflict, format!("{listed}; read again, then try again"));
        error.inner.conflicts = conflicts;
        error
    }

    /// Sets the values that the writer had read, except for failed guards, whose values are already known.
    pub(crate) fn with_read(mut self, read: impl Fn(&str) -> Option<Value>) -> Self {
        for conflict in self.inner.conflicts.iter_mut().filter(|conflict| conflict.cause == ConflictCause::Changed) {
            conflict.read = read(&conflict.key);
        }
        self
    }

    /// Marks the error as reported by an event of the run.
    #[doc(hidden)]
    pub fn reported(mut self) -> Self {
        self.inner.is_reported = true;
        self
    }

    #[doc(hidden)]
    pub fn is_reported(&self) -> bool {
        self.inner.is_reported
    }

    /// Creates an `InvalidArgument` error, as [`new`](Self::new) does: the arguments can never be accepted.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates a `FailedPrecondition` error, as [`new`](Self::new) does.
    #[must_use]
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::FailedPrecondition, message)
    }

    /// Creates a `NotFound` error, as [`new`](Self::new) does.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Lets a function change each conflict. Stops at its first error.
    #[doc(hidden)]
    pub fn map_conflicts(mut self, change: impl Fn(&mut KeyConflict) -> Result<()>) -> Result<Self> {
        self.inner.conflicts.iter_mut().try_for_each(change)?;
        Ok(self)
    }

    /// Creates a `DataCorrupted` error, as [`new`](Self::new) does.
    #[must_use]
    pub fn corrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DataCorrupted, message)
    }

    /// Creates an `Internal` error for a defect, as [`new`](Self::new) does.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Conflicts contain values, which must not get into logs; the message names their keys.
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.inner.kind).field("message", &self.inner.message);
        if let Some(source) = &self.inner.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.inner.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
