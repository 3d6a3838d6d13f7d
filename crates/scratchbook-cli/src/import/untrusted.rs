//! Functions for the fuzz targets: they read the content of files and databases as an import does, but write to no
//! database.

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
/// As for `scratchbook import`: `InvalidArgument`; `DataCorrupted` for a truncated file; `Unsupported` for a file of a
/// newer version.
pub fn count_lines(bytes: &[u8]) -> Result<Counts, Error> {
    jsonl::count_lines(bytes)
}

/// Reads the JSON of an event in google-adk's table.
///
/// # Errors
///
/// `InvalidArgument` if the text is not an event, or if a store would refuse the event.
pub fn adk_event(text: &str) -> Result<Event, Error> {
    adk::read_event(text)
}

/// Reads the JSON of a session's state in google-adk's table.
///
/// # Errors
///
/// `InvalidArgument` if the text is not an object.
pub fn adk_state(text: &str) -> Result<AdkState, Error> {
    adk::read_state(text)
}
