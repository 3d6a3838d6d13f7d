//! A client that writes to one server and reads from another, such as a server before a standby.

use std::sync::Arc;

use async_trait::async_trait;
use scratchbook::SessionKey;

use super::{Append, Client, Failure, FeedPart, Lists, Stored, View};

/// Writes by one client and reads by another. The feed is read by the client for writes, because only the server for
/// writes promises a feed.
#[derive(Clone, Debug)]
pub struct ReadElsewhere {
    /// The client for writes and the feed.
    pub writes: Arc<dyn Client>,
    /// The client for reads.
    pub reads: Arc<dyn Client>,
}

#[async_trait]
impl Client for ReadElsewhere {
    async fn create(&self, session: &SessionKey) -> Result<(), Failure> {
        self.writes.create(session).await
    }

    async fn append(&self, session: &SessionKey, append: &Append) -> Result<Stored, Failure> {
        self.writes.append(session, append).await
    }

    async fn read(&self, session: &SessionKey, keys: &[String]) -> Result<View, Failure> {
        self.reads.read(session, keys).await
    }

    async fn read_at(&self, session: &SessionKey, seq: u64) -> Result<Lists, Failure> {
        self.reads.read_at(session, seq).await
    }

    async fn feed(&self, app: &str, cursor: Option<&str>) -> Result<FeedPart, Failure> {
        self.writes.feed(app, cursor).await
    }

    async fn verify(&self, session: &SessionKey) -> Result<(), Failure> {
        self.writes.verify(session).await
    }
}
