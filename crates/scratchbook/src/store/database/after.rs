//! What follows a commit and nobody waits for: telling those who wait for commits, here and in other processes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::Dialect;
use super::gate::Pass;
use crate::session::{CommitNotices, CommitNotifier};

/// How long other processes are told nothing more after they were told something.
const PAUSE: Duration = Duration::from_millis(20);

/// How long until it is tried again to hear of other processes.
const DEAF: Duration = Duration::from_secs(1);

/// What is done after commits.
pub(super) struct AfterCommit<D> {
    pub(super) dialect: Arc<D>,
    notifier: CommitNotifier,
    /// Something was committed of which other processes were not told yet.
    untold: AtomicBool,
    telling: AtomicBool,
    /// One at a time: nobody waits for them.
    pub(super) checkpoints: Semaphore,
}

impl<D: Dialect> AfterCommit<D> {
    pub(super) fn new(dialect: &Arc<D>) -> Self {
        Self {
            dialect: Arc::clone(dialect),
            notifier: CommitNotifier::new(),
            untold: AtomicBool::new(false),
            telling: AtomicBool::new(false),
            checkpoints: Semaphore::new(1),
        }
    }

    /// Something was committed. Costs next to nothing where nobody listens.
    pub(super) fn committed(self: &Arc<Self>, pass: &Pass) {
        self.notifier.notify();
        if !self.dialect.is_listened_to() {
            return;
        }
        self.untold.store(true, Ordering::SeqCst);
        if !self.telling.swap(true, Ordering::SeqCst) {
            let (after, pass) = (Arc::clone(self), pass.clone());
            tokio::spawn(async move {
                let _pass = pass;
                after.tell().await;
            });
        }
    }

    async fn tell(&self) {
        loop {
            while self.untold.swap(false, Ordering::SeqCst) {
                if let Err(failure) = self.dialect.announce().await {
                    // They look for themselves every second.
                    tracing::debug!(error = %failure.error, "other processes were not told of a commit");
                }
                tokio::time::sleep(PAUSE).await;
            }
            self.telling.store(false, Ordering::SeqCst);
            // What was committed between the two has found somebody telling.
            if !self.untold.load(Ordering::SeqCst) || self.telling.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}

/// Those who wait for commits, and the task that hears of other processes while there are any.
pub(super) struct Listeners<D> {
    after: Arc<AfterCommit<D>>,
    runtime: Handle,
    /// The task, as long as it runs.
    task: Arc<Mutex<Option<AbortHandle>>>,
}

impl<D> fmt::Debug for Listeners<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}

impl<D: Dialect> Listeners<D> {
    pub(super) fn new(after: &Arc<AfterCommit<D>>) -> Self {
        Self { after: Arc::clone(after), runtime: Handle::current(), task: Arc::default() }
    }

    /// One more who waits.
    pub(super) fn add(&self) -> CommitNotices {
        // Under its lock, in which the task decides whether anybody waits still.
        let mut task = lock(&self.task);
        let notices = self.after.notifier.subscribe();
        if task.is_none() {
            let (after, own) = (Arc::clone(&self.after), Arc::clone(&self.task));
            *task = Some(self.runtime.spawn(async move { listen(&after, &own).await }).abort_handle());
        }
        notices
    }

    /// All who wait are told that it is over.
    pub(super) fn close(&self) {
        self.after.notifier.close();
        self.stop();
    }
}

impl<D> Listeners<D> {
    fn stop(&self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl<D> Drop for Listeners<D> {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn listen<D: Dialect>(after: &AfterCommit<D>, own: &Mutex<Option<AbortHandle>>) {
    loop {
        after.dialect.listen(&after.notifier).await;
        // What was missed until it listens again is looked for.
        after.notifier.notify();
        {
            let mut task = lock(own);
            if !after.notifier.is_heard() {
                *task = None;
                return;
            }
        }
        tokio::time::sleep(DEAF).await;
    }
}

fn lock(task: &Mutex<Option<AbortHandle>>) -> MutexGuard<'_, Option<AbortHandle>> {
    task.lock().unwrap_or_else(PoisonError::into_inner)
}
