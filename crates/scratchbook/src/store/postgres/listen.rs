//! Hearing of commits by other processes, and telling them of ours.
//!
//! `NOTIFY` takes a lock on the whole database when it is committed, so it is no part of an append: a task of the process
//! that has committed sends it some time later, and only where somebody listens, which each write is told by the way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use super::Postgres;
use super::read::column;
use crate::session::CommitNotifier;
use crate::store::database::Attempt;

/// How long at most until it is looked whether anything was committed: where no notice comes through, as behind a pooler.
const LOOK: Duration = Duration::from_secs(1);

/// How often those who write are told that somebody listens still, who believe it for thrice as long.
const SAY: Duration = Duration::from_secs(10);

impl Postgres {
    pub(super) async fn hear(&self, notifier: &CommitNotifier) {
        if let Err(error) = self.hear_on(notifier).await {
            tracing::debug!(%error, "no notices of commits");
        }
    }

    async fn hear_on(&self, notifier: &CommitNotifier) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (client, notices) = self.connections.listener().await?;
        let statements = &self.statements.listen;
        let answer = Duration::from_secs(30);
        timeout(answer, client.batch_execute(&statements.listen)).await??;
        let (mut seen, mut said) = (String::new(), None);
        // What was committed before we listened.
        notifier.notify();
        while notifier.is_heard() {
            if said.is_none_or(|at: Instant| at.elapsed() >= SAY) {
                // A server that takes no writes tells nobody; then there is nothing but to look.
                let _ = timeout(answer, client.batch_execute(&statements.say)).await?;
                said = Some(Instant::now());
            }
            if timeout(LOOK, notices.notified()).await.is_ok() {
                notifier.notify();
                continue;
            }
            let now = timeout(answer, snapshot(&client, &statements.now)).await??;
            if std::mem::replace(&mut seen, now.clone()) != now {
                notifier.notify();
            }
        }
        Ok(())
    }

    pub(super) async fn tell(&self) -> Attempt<()> {
        let lease = self.connections.lease().await?;
        lease.query(&self.statements.listen.notify, &[]).await?;
        Ok(())
    }

    /// Keeps what a write was told.
    pub(super) fn learn_heard(&self, row: &tokio_postgres::Row, index: usize) {
        if let Ok(heard) = column::<bool>(row, index, || "whether anybody listens".to_owned()) {
            self.heard.store(heard, Ordering::Relaxed);
        }
    }
}

async fn snapshot(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    client.query_one(sql, &[]).await?.try_get(0)
}
