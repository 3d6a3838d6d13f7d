//! Hearing of commits by other processes, and telling them of ours.
//!
//! `NOTIFY` takes a lock on the whole database when it is committed, so it is no part of an append: a task of the process
//! that has committed sends it some time later, and only where somebody listens, which each write is told by the way.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use uuid::Uuid;

use super::Postgres;
use super::read::column;
use scratchbook_core::session::{CommitNotifier, Whose};
use scratchbook_database::Attempt;

/// How long at most until it is looked whether anything was committed: where no notice comes through, as behind a pooler.
const LOOK: Duration = Duration::from_secs(1);

/// The same if notices come through, for commits whose notice was never sent.
const LOOK_BESIDE_NOTICES: Duration = Duration::from_secs(30);

/// How often those who write are told that somebody listens still, who believe it for thrice as long.
const SAY: Duration = Duration::from_secs(10);

/// More notices than these are one that says nothing of whose it was.
const MOST: usize = 1000;

/// How long a process believes what its last write learned of listeners. After that it asks again, when it has a commit to
/// report.
const KNOWN: Duration = Duration::from_secs(1);

/// What a notice says that is to show only that notices come through.
const HELLO: &str = "!";

/// The notices that came and that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    heard: Mutex<Vec<String>>,
    more: Notify,
}

impl Notices {
    /// One more has come.
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

/// Whether somebody listens, as the last write learned, and when that was.
#[derive(Debug, Default)]
pub(super) struct ListenerState(Mutex<Option<(bool, Instant)>>);

impl ListenerState {
    fn learn(&self, heard: bool) {
        *self.lock() = Some((heard, Instant::now()));
    }

    /// Not every write learns it: if it is unknown, somebody may.
    pub(super) fn may_exist(&self) -> bool {
        self.lock().is_none_or(|(heard, at)| heard || at.elapsed() >= KNOWN)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(bool, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What notices of one service begin with.
pub(super) fn new_sender() -> String {
    format!("@{}", Uuid::new_v4().simple())
}

impl Postgres {
    pub(super) async fn listen_for_commits(&self, notifier: &CommitNotifier) {
        if let Err(error) = self.listen_on(notifier).await {
            tracing::debug!(%error, "no notices of commits");
        }
    }

    async fn listen_on(&self, notifier: &CommitNotifier) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (client, notices) = self.connections.listener().await?;
        let statements = &self.statements.listen;
        let answer = Duration::from_secs(30);
        timeout(answer, client.batch_execute(&statements.listen)).await??;
        let (mut seen, mut said, mut looked) = (String::new(), None, Instant::now());
        let (mut is_known, mut comes_through) = (false, false);
        // What was committed before we listened.
        notifier.notify();
        // Shows whether notices come through. A server that takes no writes sends none.
        let _ = self.say_hello().await;
        while notifier.is_heard() {
            if said.is_none_or(|at: Instant| at.elapsed() >= SAY) {
                // A server that takes no writes refuses this, and so does one that does not allow it to our role; then
                // looking is all that is left.
                is_known = timeout(answer, client.batch_execute(&statements.say)).await?.is_ok();
                said = Some(Instant::now());
            }
            if let Ok(texts) = timeout(LOOK, notices.next()).await {
                comes_through = true;
                notifier.notify_whose(texts.iter().flat_map(|text| self.whose(text)));
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

    /// Whose commits another service reports; our own were heard of when they were made.
    fn whose(&self, text: &str) -> Vec<Whose> {
        if text.starts_with(&self.sender) {
            return Vec::new();
        }
        // One that does not begin so is of an older version, which says nothing of whose it was.
        let sent = text.get(self.sender.len()..).filter(|_| text.starts_with('@')).unwrap_or_default();
        if sent == HELLO { Vec::new() } else { Whose::parse(sent) }
    }

    async fn say_hello(&self) -> Attempt<()> {
        let lease = self.connections.lease().await?;
        lease.query(&self.statements.listen.notify, &[&vec![format!("{}{HELLO}", self.sender)]]).await.map(drop)
    }

    /// Tells other processes, if any listens.
    pub(super) async fn send_notices(&self, texts: &[String]) -> Attempt<()> {
        let texts: Vec<String> = texts.iter().map(|text| format!("{}{text}", self.sender)).collect();
        let lease = self.connections.lease().await?;
        let rows = lease.query(&self.statements.listen.announce, &[&texts]).await?;
        if let Some(row) = rows.first() {
            self.learn_listeners(row, 0);
        }
        Ok(())
    }

    /// Keeps what a write was told.
    pub(super) fn learn_listeners(&self, row: &tokio_postgres::Row, index: usize) {
        if let Ok(heard) = column::<bool>(row, index, || "whether anybody listens".to_owned()) {
            self.listeners.learn(heard);
        }
    }
}

async fn snapshot(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    client.query_one(sql, &[]).await?.try_get(0)
}
