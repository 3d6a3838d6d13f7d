//! One error type with kinds; status codes, exit codes and exceptions are functions of the kind.

mod conflict;

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;

pub use conflict::{ConflictCause, KeyConflict, KeyWriter};

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a class a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something that can never be right: a bad key, id, number or shape.
    InvalidArgument,
    /// The session, template key, artifact or file named does not exist.
    NotFound,
    /// The thing to be made is there already, with other content.
    AlreadyExists,
    /// The write was refused because somebody else's came first.
    Conflict,
    /// The system is not in a state in which the call can work: closed, a newer schema, not a database of ours.
    FailedPrecondition,
    /// Something ran out that may be there again later: disk space, a queue, a quota.
    ResourceExhausted,
    /// A value, event, delta, artifact, body or answer has more bytes than a limit allows; it never gets smaller by itself.
    PayloadTooLarge,
    /// The caller is not known.
    Unauthenticated,
    /// The caller, or the file system, does not allow it.
    PermissionDenied,
    /// The store cannot be reached just now; the same call may work later.
    Unavailable,
    /// This store cannot do what was asked.
    Unsupported,
    /// Stored data cannot be read back.
    DataCorrupted,
    /// A defect, ours or that of code called by us.
    Internal,
}

impl ErrorKind {
    /// The kind's name in snake case, as logs and JSON answers show it.
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

/// An error: its kind, a message that says what would be right, and what caused it.
///
/// `Display` prints the message alone; the cause is in [`source`](StdError::source).
///
/// ```
/// use scratchbook::{ErrorKind, SessionKey};
///
/// let error = SessionKey::new("app", "user", "a\nb").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert!(!error.is_retryable());
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    conflicts: Vec<KeyConflict>,
    /// Whether the call may have been done, so that doing it again could do it twice.
    may_be_done: bool,
    /// Whether its reason concerns who runs the program, and not who called.
    for_operator: bool,
    /// Whether an event of the run tells of it already.
    told: bool,
}

impl Error {
    /// An error of this kind, for stores, tools and agents of your own.
    ///
    /// The message starts in lower case and names the value that was wrong and what would be right;
    /// it holds no secret and no state value.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let inner = Inner {
            kind,
            message,
            source: None,
            conflicts: Vec::new(),
            may_be_done: false,
            for_operator: false,
            told: false,
        };
        Self { inner: Box::new(inner) }
    }

    /// The same error with the cause it came from.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// The same error with `context: ` before its message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.inner.message = format!("{context}: {}", self.inner.message);
        self
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether the same call may succeed later without a change. It is not said of a call that may have been done, in a
    /// store where a second one would do it twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let may_pass =
            matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::ResourceExhausted | ErrorKind::Conflict);
        may_pass && !self.inner.may_be_done
    }

    /// The same error, whose reason is for those who run the program: a store, a disk, a setting or an account of theirs has
    /// failed, and the message may name an address, a path or a user. What others asked for was not at fault.
    ///
    /// A server answers callers [`public_message`](Self::public_message) and logs the rest.
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

    /// Whether its reason is [for those who run the program](Self::for_operator).
    #[must_use]
    pub fn is_for_operator(&self) -> bool {
        self.inner.for_operator
    }

    /// The message as callers of the program may read it: the whole, unless its reason is
    /// [for those who run the program](Self::for_operator).
    #[must_use]
    pub fn public_message(&self) -> &str {
        match self.inner.for_operator {
            false => &self.inner.message,
            true if self.is_retryable() => "the store cannot do this just now; try again later",
            true => "the store cannot do this; those who run it find the reason in its log",
        }
    }

    /// The kind as callers of the program may know it: its own, unless its reason is
    /// [for those who run the program](Self::for_operator). Then it is `Unavailable` if the same call may succeed later,
    /// `DataCorrupted` if stored data is damaged, and otherwise `Internal`: a caller cannot mend it.
    #[must_use]
    pub fn public_kind(&self) -> ErrorKind {
        match self.kind() {
            kind if !self.inner.for_operator => kind,
            ErrorKind::Unavailable | ErrorKind::ResourceExhausted => ErrorKind::Unavailable,
            ErrorKind::DataCorrupted => ErrorKind::DataCorrupted,
            _ => ErrorKind::Internal,
        }
    }

    /// The same error once more, without its cause, which can be had only once, and without conflicts.
    #[doc(hidden)]
    pub fn again(&self) -> Self {
        let mut error = Self::new(self.kind(), self.inner.message.as_str());
        error.inner.may_be_done = self.inner.may_be_done;
        error.inner.for_operator = self.inner.for_operator;
        error
    }

    /// The same error, [not retryable](Self::is_retryable) whatever its kind: the call may have been done, and a second one
    /// would do it twice.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        self.inner.may_be_done = true;
        self
    }

    /// The keys for whose sake a write was refused as a `Conflict`; empty for every other error.
    ///
    /// ```
    /// use scratchbook::*;
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

    /// A write that was refused for the sake of these keys. The message names keys and writers, never values.
    #[must_use]
    pub fn conflict(conflicts: Vec<KeyConflict>) -> Self {
        let listed = conflict::listed(&conflicts);
        let mut error = Self::new(ErrorKind::Conflict, format!("{listed}; read again, then try again"));
        error.inner.conflicts = conflicts;
        error
    }

    /// The same error with the values that its writer had read, where they are not known yet.
    pub(crate) fn with_read(mut self, read: impl Fn(&str) -> Option<Value>) -> Self {
        for conflict in self.inner.conflicts.iter_mut().filter(|conflict| conflict.cause == ConflictCause::Changed) {
            conflict.read = read(&conflict.key);
        }
        self
    }

    /// The same error, of which an event of the run tells already.
    #[doc(hidden)]
    pub fn told(mut self) -> Self {
        self.inner.told = true;
        self
    }

    #[doc(hidden)]
    pub fn is_told(&self) -> bool {
        self.inner.told
    }

    /// An `InvalidArgument`: something that can never be right. As [`new`](Self::new).
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// A `FailedPrecondition`. As [`new`](Self::new).
    #[must_use]
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::FailedPrecondition, message)
    }

    /// A `NotFound`. As [`new`](Self::new).
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The same error with what each conflict becomes.
    #[doc(hidden)]
    pub fn map_conflicts(mut self, change: impl Fn(&mut KeyConflict) -> Result<()>) -> Result<Self> {
        self.inner.conflicts.iter_mut().try_for_each(change)?;
        Ok(self)
    }

    /// A `DataCorrupted`. As [`new`](Self::new).
    #[must_use]
    pub fn corrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DataCorrupted, message)
    }

    /// An `Internal`: a defect. As [`new`](Self::new).
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
        // Conflicts hold values, which belong into no log; the message names their keys.
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
