//! Why a cell could not be measured.

use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, CellFailure>;

/// Why a cell could not be measured.
#[derive(Debug)]
pub(crate) enum CellFailure {
    /// The workload does not exist here, for this reason.
    Unsupported(String),
    Failed(String),
}

impl CellFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Display for CellFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unsupported(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl<E: std::error::Error> From<E> for CellFailure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::Failed(message)
    }
}
