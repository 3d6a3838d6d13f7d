//! Notices of commits between processes.
//!
//! `NOTIFY` takes a lock on the whole database when it commits, so it is not part of an append. The process that has
//! committed sends the notice from a task some time later, and only if another process listens. The result of each
//! write also says whether another process listens.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use uuid::Uuid;

use super::Postgres;
use super::read::column;
use scratchbook_core::session::{CommitNotifier, CommitScope};
use scratchbook_database::{Attempt, Listen};

/// The polling interval if notices do not arrive, as behind a pooler.
const LOOK: Duration = Duration::from_secs(1);

/// The polling interval if notices arrive. Polling then finds commits whose notice was never sent.
const LOOK_BESIDE_NOTICES: Duration = Duration::from_secs(30);

/// How often a listener announces itself. Writers consider it present for three times as long.
const SAY: Duration = Duration::from_secs(10);

/// If this many notices are pending, they are replaced by one that wakes the watchers of all owners.
const MOST: usize = 1000;

/// How long a process relies on its last information about listeners. Later, it reads the information again before it
/// announces a commit.
const KNOWN: Duration = Duration::from_secs(1);

/// The content of a notice that is sent only to find out whether notices arrive.
const HELLO: &str = "!";

/// The notices that have arrived and were not processed yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    heard: Mutex<Vec<String>>,
    more: Notify,
}

impl Notices {
    /// Adds a notice.
    pub(super) fn push(&self, text: &str) {
        let mut heard = self.heard();
        if heard.len() >= MOST {
            heard.clear();
            heard.push(String::new());
        } else {
            heard.push(text.to_owned());
        }
        self.more.notify_one();
    }

    async fn next(&self) -> Vec<String> {
        loop {
            let heard = std::mem::take(&mut *self.heard());
            if !heard.is_empty() {
                return heard;
            }
            self.more.notified().await;
        }
    }

    fn heard(&self) -> MutexGuard<'_, Vec<String>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether another process listens, according to the last write that checked this, and the time of that write.
#[derive(Debug, Default)]
pub(super) struct ListenerState(Mutex<Option<(bool, Instant)>>);

impl ListenerState {
    fn learn(&self, heard: bool) {
        *self.lock() = Some((heard, Instant::now()));
    }

    /// Returns whether another process may be listening. Not every write reads this. If the information is missing or
    /// old, the result is `true`.
    fn may_exist(&self) -> bool {
        self.lock().is_none_or(|(heard, at)| heard || at.elapsed() >= KNOWN)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(bool, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the prefix of the notices of one service.
pub(super) fn new_sender() -> String {
    format!("@{}", Uuid::new_v4().simple())
}

#[async_trait]
impl Listen for Postgres {
    async fn listen(&self, notifier: &CommitNotifier) {
        if let Err(error) = self.listen_on(notifier).await {
            tracing::debug!(%error, "cannot listen for commits");
        }
    }

    fn may_be_listened_to(&self) -> bool {
        self.listeners.may_exist()
    }

    async fn announce(&self, scopes: &[CommitScope]) -> Attempt<()> {
        let texts: Vec<String> =
            CommitScope::to_texts(scopes).iter().map(|text| format!("{}{text}", self.sender)).collect();
        let lease = self.connections.lease().await?;
        let rows = lease.query(&self.statements.listen.announce, &[&texts]).await?;
        if let Some(row) = rows.first() {
            self.learn_listeners(row, 0);
        }
        Ok(())
    }
}

impl Postgres {
    async fn listen_on(&self, notifier: &CommitNotifier) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (client, notices) = self.connections.listener().await?;
        let statements = &self.statements.listen;
        let answer = Duration::from_secs(30);
        timeout(answer, client.batch_execute(&statements.listen)).await??;
        let mut seen = String::new();
        let mut said = None;
        let mut looked = Instant::now();
        let mut is_known = false;
        let mut comes_through = false;
        // This covers commits from before we listened.
        notifier.notify();
        // This finds out whether notices arrive. A read-only server sends none.
        let _ = self.say_hello().await;
        while notifier.is_heard() {
            if said.is_none_or(|at: Instant| at.elapsed() >= SAY) {
                // A read-only server refuses this, and so does a server on which our role lacks the permission. Polling
                // is all that is left then.
                is_known = timeout(answer, client.batch_execute(&statements.say)).await?.is_ok();
                said = Some(Instant::now());
            }
            if let Ok(texts) = timeout(LOOK, notices.next()).await {
                comes_through = true;
                notifier.notify_scopes(texts.iter().flat_map(|text| self.scope(text)));
            }
            let pause = if is_known && comes_through { LOOK_BESIDE_NOTICES } else { LOOK };
            if looked.elapsed() < pause {
                continue;
            }
            looked = Instant::now();
            let now = timeout(answer, snapshot(&client, &statements.now)).await??;
            if std::mem::replace(&mut seen, now.clone()) != now {
                notifier.notify();
            }
        }
        Ok(())
    }

    /// Returns whose commits a notice of another service reports. Notices of our own are ignored: their commits were
    /// reported in this process when they were made.
    fn scope(&self, text: &str) -> Vec<CommitScope> {
        if text.starts_with(&self.sender) {
            return Vec::new();
        }
        // A notice without the prefix is from an older version, which does not say whose commit it was.
        let sent = text.get(self.sender.len()..).filter(|_| text.starts_with('@')).unwrap_or_default();
        if sent == HELLO { Vec::new() } else { CommitScope::parse(sent) }
    }

    async fn say_hello(&self) -> Attempt<()> {
        let lease = self.connections.lease().await?;
        lease.query(&self.statements.listen.notify, &[&vec![format!("{}{HELLO}", self.sender)]]).await.map(drop)
    }

    /// Remembers whether another process listens, as read by a write.
    pub(super) fn learn_listeners(&self, row: &tokio_postgres::Row, index: usize) {
        if let Ok(heard) = column::<bool>(row, index, || "whether anybody listens".to_owned()) {
            self.listeners.learn(heard);
        }
    }
}

async fn snapshot(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    client.query_one(sql, &[]).await?.try_get(0)
}
