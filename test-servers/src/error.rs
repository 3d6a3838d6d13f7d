//! The only error type of this crate: a sentence for the person who runs the tests.

use std::fmt;

/// The reason why there is no server.
#[derive(Clone, Debug)]
pub struct Error {
    message: String,
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Creates an error from what was tried and the error of the operating system.
    pub(crate) fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
