//! What an import makes of the content of files and databases, without a database to write to. For the fuzz targets.

use scratchbook::store::export::Counts;
use scratchbook::{Error, Event};
use serde_json::{Map, Value};

use super::{adk, jsonl};

/// The keys of a state that can be kept, and why others cannot.
pub type AdkState = (Map<String, Value>, Vec<(String, Error)>);

/// Checks the lines of an export, and returns how many there are of each type.
///
/// # Errors
///
/// As `scratchbook import`: `InvalidArgument`, `DataCorrupted` for a file that was cut, `Unsupported` for a newer one.
pub fn count_lines(bytes: &[u8]) -> Result<Counts, Error> {
    jsonl::count_lines(bytes)
}

/// Reads the JSON of an event in google-adk's table.
///
/// # Errors
///
/// `InvalidArgument` if it is not an event, or one that is not stored.
pub fn adk_event(text: &str) -> Result<Event, Error> {
    adk::read_event(text)
}

/// Reads the JSON of a session's state in google-adk's table.
///
/// # Errors
///
/// `InvalidArgument` if it is not an object.
pub fn adk_state(text: &str) -> Result<AdkState, Error> {
    adk::read_state(text)
}
