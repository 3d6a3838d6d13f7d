//! What is read of a database of google-adk's, wherever it is.

use async_trait::async_trait;
use scratchbook::{Result, SessionKey};

/// Reads the tables, all of it in one snapshot.
#[async_trait]
pub(in crate::import) trait Rows: Send + Sync {
    /// How many events there are in all.
    async fn count_events(&self) -> Result<u64>;

    /// Every app that has sessions or state.
    async fn apps(&self) -> Result<Vec<String>>;

    /// The users of an app who have sessions or state, in order, after one of them.
    async fn users(&self, app: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>>;

    /// The state of a user or of the app, as JSON text; `None` where there is no row.
    async fn state(&self, app: &str, user: Option<&str>) -> Result<Option<String>>;

    /// A user's sessions, the one updated longest ago first, after one of them: the last writer of a user's key comes
    /// last, as it did there.
    async fn sessions(&self, app: &str, user: &str, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>>;

    /// A session's events in google-adk's own order, after one of them.
    async fn events(&self, session: &SessionKey, after: Option<&str>, limit: usize) -> Result<Vec<EventRow>>;

    /// Whether a session has an event of this id.
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool>;
}

/// A row of `sessions`.
#[derive(Debug)]
pub(in crate::import) struct SessionRow {
    pub(super) id: String,
    /// The session's own state, as JSON text.
    pub(super) state: String,
    /// In seconds since 1970, where it is a time.
    pub(super) create_time: Option<f64>,
    /// In seconds since 1970, where it is a time.
    pub(super) update_time: Option<f64>,
}

/// A row of `events`.
#[derive(Debug)]
pub(in crate::import) struct EventRow {
    pub(super) id: String,
    /// The event as JSON text; `Err` where it is none.
    pub(super) data: Result<String>,
    pub(super) time: Option<f64>,
    /// What stands above the JSON: google-adk reads these from their columns in one layout, from the JSON in the other.
    pub(super) columns: Option<Columns>,
}

/// Columns that count more than the JSON beside them.
#[derive(Debug)]
pub(in crate::import) struct Columns {
    pub(super) invocation_id: String,
}
