//! A client that writes to one server and reads from another, such as a server before a standby.

use std::sync::Arc;

use async_trait::async_trait;
use scratchbook::SessionKey;
use scratchbook::session::StateOwner;

use super::{CallFailure, CommittedEvent, CursorForm, EventAppend, FeedPart, HistoryClient, Lists, StateView};

/// Writes by one client and reads by another. The feed is read by the client for writes, because only the server for
/// writes promises a feed.
#[derive(Clone, Debug)]
pub struct ReadElsewhere {
    /// The client for writes and the feed.
    pub writes: Arc<dyn HistoryClient>,
    /// The client for reads.
    pub reads: Arc<dyn HistoryClient>,
}

#[async_trait]
impl HistoryClient for ReadElsewhere {
    fn cursor_form(&self) -> CursorForm {
        self.writes.cursor_form()
    }

    async fn create(&self, session: &SessionKey) -> Result<(), CallFailure> {
        self.writes.create(session).await
    }

    async fn append(&self, session: &SessionKey, append: &EventAppend) -> Result<CommittedEvent, CallFailure> {
        self.writes.append(session, append).await
    }

    async fn read(&self, session: &SessionKey, keys: &[String]) -> Result<StateView, CallFailure> {
        self.reads.read(session, keys).await
    }

    async fn read_at(&self, session: &SessionKey, seq: u64) -> Result<Lists, CallFailure> {
        self.reads.read_at(session, seq).await
    }

    async fn feed(&self, app: &str, cursor: Option<&str>) -> Result<FeedPart, CallFailure> {
        self.writes.feed(app, cursor).await
    }

    async fn verify(&self, session: &SessionKey) -> Result<(), CallFailure> {
        self.writes.verify(session).await
    }

    async fn verify_state(&self, owner: &StateOwner) -> Result<(), CallFailure> {
        self.writes.verify_state(owner).await
    }
}
