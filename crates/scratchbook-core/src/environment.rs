//! The source of time and ids, which tests can replace.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// The clock and the id source of stores and runners.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// Returns the current time, in seconds since 1970.
    fn now(&self) -> f64;

    /// Returns a new unique id.
    fn new_id(&self) -> String;
}

/// The system's clock, and version 7 UUIDs, which sort by creation time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_micros() as f64 / 1e6)
    }

    fn new_id(&self) -> String {
        Uuid::now_v7().to_string()
    }
}
