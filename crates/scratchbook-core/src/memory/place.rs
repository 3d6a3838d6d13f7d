//! The place of a session in lists.

use std::sync::Arc;

use crate::plan::query::ListPosition;
use crate::session::SessionKey;

/// A place with the same order as [`ListPosition`]. It shares its names with the session's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SharedListPosition {
    pub(super) micros: i64,
    pub(super) user_id: Arc<str>,
    pub(super) session_id: Arc<str>,
}

impl SharedListPosition {
    pub(super) fn new(micros: i64, key: &SessionKey) -> Self {
        let (user_id, session_id) = key.shared_ids();
        Self { micros, user_id, session_id }
    }

    pub(super) fn to_position(&self) -> ListPosition {
        let (user_id, session_id) = (self.user_id.to_string(), self.session_id.to_string());
        ListPosition { micros: self.micros, user_id, session_id }
    }
}

impl From<&ListPosition> for SharedListPosition {
    fn from(position: &ListPosition) -> Self {
        let (user_id, session_id) = (position.user_id.as_str().into(), position.session_id.as_str().into());
        Self { micros: position.micros, user_id, session_id }
    }
}
