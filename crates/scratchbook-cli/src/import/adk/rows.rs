//! The rows of a google-adk database, and the trait that reads them.

use async_trait::async_trait;
use scratchbook::{Result, SessionKey};

/// Reads the tables of a google-adk database in one snapshot.
#[async_trait]
pub(in crate::import) trait AdkDatabase: Send + Sync {
    /// Counts all events.
    async fn count_events(&self) -> Result<u64>;

    /// Returns the apps that have sessions or state.
    async fn apps(&self) -> Result<Vec<String>>;

    /// Returns the users of an app who have sessions or state, in order, after the user `after`.
    async fn users(&self, app: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>>;

    /// Returns the state of a user or an app as JSON text; `None` if there is no row.
    async fn state(&self, app: &str, user: Option<&str>) -> Result<Option<Result<String>>>;

    /// Returns a user's sessions after the session `after`, the least recently updated first, so that the last write to
    /// a user's key is imported last.
    async fn sessions(&self, app: &str, user: &str, after: Option<&str>, limit: usize) -> Result<Vec<AdkSessionRow>>;

    /// Returns a session's events in google-adk's order, after the event `after`.
    async fn events(&self, session: &SessionKey, after: Option<&str>, limit: usize) -> Result<Vec<AdkEventRow>>;

    /// Returns the rows that were left out so far because a name or an id in them is no text.
    fn unnamed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether a session has an event with this id.
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool>;
}

/// A row of `sessions`.
#[derive(Debug)]
pub(in crate::import) struct AdkSessionRow {
    pub(super) id: String,
    /// The session's own state as JSON text; `Err` if the column is not text.
    pub(super) state: Result<String>,
    /// The time in seconds since 1970; `None` if the column holds no valid time.
    pub(super) create_time: Option<f64>,
    /// The time in seconds since 1970; `None` if the column holds no valid time.
    pub(super) update_time: Option<f64>,
}

/// A row of `events`.
#[derive(Debug)]
pub(in crate::import) struct AdkEventRow {
    /// The id; empty if the column is not text.
    pub(super) id: String,
    /// The event as JSON text; `Err` if a column is not text.
    pub(super) data: Result<String>,
    pub(super) time: Option<f64>,
    /// Columns that take precedence over the JSON, in the layout in which google-adk reads them.
    pub(super) columns: Option<EventOverrides>,
}

/// Columns that take precedence over the JSON.
#[derive(Debug)]
pub(in crate::import) struct EventOverrides {
    pub(super) invocation_id: String,
}
