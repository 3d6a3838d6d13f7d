//! The size of pages, in bytes.

use std::collections::HashSet;

use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::json::bytes_of;
use crate::session::StateBytes;
use crate::state::ScopeMap;

/// The room left in a page. It is full when the next item would exceed its bytes; the first item always fits.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    left: u64,
    is_empty: bool,
    is_full: bool,
}

impl Room {
    /// Creates the room of an empty page of this many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { left: bytes, is_empty: true, is_full: false }
    }

    /// Adds an item of this many bytes; returns `false` if this item and all later ones belong to the next page.
    pub fn takes(&mut self, bytes: u64) -> bool {
        let fits = !self.is_full && (self.is_empty || bytes <= self.left);
        (self.is_empty, self.is_full) = (false, !fits);
        self.left = self.left.saturating_sub(bytes);
        fits
    }
}

/// Counts the state of each user once in a list of sessions. The state of the first session's user does not count,
/// because it is in every page.
#[derive(Debug, Default)]
pub(crate) struct CountedUsers(HashSet<String>);

impl CountedUsers {
    /// Whether the bytes of a session now include the state of its user.
    pub(crate) fn counts(&mut self, user_id: &str) -> bool {
        let is_first = self.0.is_empty();
        !self.0.contains(user_id) && self.0.insert(user_id.to_owned()) && !is_first
    }
}

/// Returns the size of the keys of a scope as JSON text, in bytes.
pub(crate) fn bytes_of_values(values: &ScopeMap) -> u64 {
    values.iter().map(|(name, value)| key_bytes(name, value)).sum()
}

/// Returns the size of a key and its value as JSON text, in bytes.
pub(crate) fn key_bytes(name: &str, value: &Value) -> u64 {
    name.len() as u64 + bytes_of(value)
}

/// Returns the error for state too large to be read whole.
pub fn too_much() -> Error {
    let max = StateBytes::MAX;
    let message = format!(
        "what was asked for has more than {max} bytes of state in one piece; name the keys of the state that are wanted, \
         or list the state page by page"
    );
    Error::new(ErrorKind::PayloadTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_item_whatever_its_size_and_no_more_than_fit() {
        let mut room = Room::new(10);
        assert!(room.takes(99) && !room.takes(1) && !room.takes(0));
        let mut room = Room::new(10);
        assert!(room.takes(4) && room.takes(6) && !room.takes(1));
        // Items after one that does not fit belong to the next page, too.
        assert!(!room.takes(0));
    }
}
