//! How many bytes a page has, and what is read at once.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind};
use crate::json::bytes_of;
use crate::state::ScopeMap;

/// What a page always has, because it comes with its first item, has at most this many bytes where pages are bounded.
pub const MOST_AT_ONCE: u64 = 64 << 20;

/// The room of a page. It is full when the next item would take it beyond its bytes; one item always fits.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    left: u64,
    is_empty: bool,
    is_full: bool,
}

impl Room {
    /// The room of an empty page with this many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { left: bytes, is_empty: true, is_full: false }
    }

    /// Takes an item of this many bytes; false if it is for another page, as are all after it.
    pub fn takes(&mut self, bytes: u64) -> bool {
        let fits = !self.is_full && (self.is_empty || bytes <= self.left);
        (self.is_empty, self.is_full) = (false, !fits);
        self.left = self.left.saturating_sub(bytes);
        fits
    }
}

/// Which users' states are counted in a list of sessions: each once, and that of the first session not, which is in
/// every page.
#[derive(Debug, Default)]
pub(crate) struct Users(HashSet<String>);

impl Users {
    /// Whether the state of a session's user counts with this session.
    pub(crate) fn counts(&mut self, user_id: &str) -> bool {
        let is_first = self.0.is_empty();
        !self.0.contains(user_id) && self.0.insert(user_id.to_owned()) && !is_first
    }
}

/// How many bytes the keys of a scope have, as JSON text.
pub(crate) fn bytes_of_values(values: &ScopeMap) -> u64 {
    values.iter().map(|(name, value)| name.len() as u64 + bytes_of(value.as_ref())).sum()
}

/// The error for what cannot be read in one piece.
pub fn too_much() -> Error {
    let message = format!(
        "what was asked for has more than {MOST_AT_ONCE} bytes in one piece; name the keys of the state that are wanted, \
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
        // What would fit behind what does not is for the next page, too.
        assert!(!room.takes(0));
    }
}
