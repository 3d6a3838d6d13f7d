//! Where time and ids come from, so that a test can say what they are.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// The clock and the source of ids that stores and runners use.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// The time now, in seconds since 1970.
    fn now(&self) -> f64;

    /// A new id, different from every other.
    fn new_id(&self) -> String;
}

/// The system's clock, and UUIDs of version 7, which sort by the time they were made.
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
