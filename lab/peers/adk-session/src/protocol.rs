//! The requests of the harness, and the failures of a cell.

use std::fmt::Display;

use serde_json::Value;

/// Why a cell has no numbers.
#[derive(Debug)]
pub(crate) enum PeerFailure {
    /// The system cannot do this, for a reason in one sentence.
    Unsupported(String),
    Error(String),
}

pub(crate) type Result<T> = std::result::Result<T, PeerFailure>;

impl<E: Display> From<E> for PeerFailure {
    fn from(error: E) -> Self {
        Self::Error(error.to_string())
    }
}

/// A request for one cell: the workload, the size, the number of tasks, and the duration.
#[derive(Clone, Debug)]
pub(crate) struct PeerRequest {
    pub(crate) workload: String,
    pub(crate) size: usize,
    pub(crate) tasks: usize,
    pub(crate) seconds: f64,
}

impl PeerRequest {
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line)?;
        let number = |name: &str, missing: f64| value[name].as_f64().unwrap_or(missing);
        Ok(Self {
            workload: value["workload"].as_str().unwrap_or_default().to_owned(),
            size: number("size", 0.0) as usize,
            tasks: number("tasks", 1.0) as usize,
            seconds: number("seconds", 1.0),
        })
    }
}
