//! Notices of commits: they wake waiting callers in this process and announce the commit to other processes.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::gate::GatePass;
use super::{Attempt, Backend, CommitFate};
use scratchbook_core::plan::quota::Charge;
use scratchbook_core::session::{CommitNotices, CommitNotifier, CommitScope};

/// The pause between two notices.
const PAUSE: Duration = Duration::from_millis(50);

/// If this many notices are unsent, one notice for all owners replaces them.
const MOST_UNANNOUNCED: usize = 1000;

/// The pause before listening for other processes is tried again.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// The pause before a failed notice is sent again, and how often sending can fail. By then the other processes have
/// found the commit by polling, which they do at least every 30 seconds.
const ANNOUNCE_RETRY: Duration = Duration::from_secs(1);
const MOST_FAILURES: usize = 30;

/// The work that follows a commit.
pub(super) struct AfterCommit<D> {
    pub(super) backend: Arc<D>,
    notifier: CommitNotifier,
    /// The owners of commits that other processes have not heard of yet.
    unannounced: Mutex<HashSet<CommitScope>>,
    announcing: AtomicBool,
    /// Checkpoints are written one at a time, because no call waits for them.
    pub(super) checkpoints: Semaphore,
    /// The connections that writes may use at a time: all but one, so that reads do not wait while writes of any kind
    /// wait for locks.
    writers: Semaphore,
}

impl<D: Backend> AfterCommit<D> {
    pub(super) fn new(backend: &Arc<D>, pool_size: usize) -> Self {
        Self {
            backend: Arc::clone(backend),
            notifier: CommitNotifier::new(),
            unannounced: Mutex::default(),
            announcing: AtomicBool::new(false),
            checkpoints: Semaphore::new(1),
            writers: Semaphore::new(pool_size.saturating_sub(1).clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Runs one attempt of a write when one of the writers' connections is free.
    pub(super) async fn attempt<T>(&self, write: impl Future<Output = T>) -> T {
        // Acquiring fails only if the semaphore is closed, and this one is never closed.
        let _turn = self.writers.acquire().await;
        write.await
    }

    /// Reports a commit. This costs next to nothing if nobody listens.
    pub(super) fn committed(self: &Arc<Self>, scopes: &[CommitScope], pass: &GatePass) {
        self.notifier.notify_scopes(scopes.iter().copied());
        if !self.backend.may_be_listened_to() || scopes.iter().all(|scope| *scope == CommitScope::Nothing) {
            return;
        }
        self.add_unannounced(scopes);
        if !self.announcing.swap(true, Ordering::SeqCst) {
            let after = Arc::clone(self);
            let pass = pass.clone();
            tokio::spawn(async move { after.send_notices(pass).await });
        }
    }

    /// Waits for a write, reports its commit, and settles the quota that was reserved for it.
    pub(super) async fn write<T>(
        self: &Arc<Self>,
        scope: CommitScope,
        pass: &GatePass,
        charge: Charge<T>,
        write: impl Future<Output = Attempt<T>>,
    ) -> Attempt<T> {
        let written = write.await;
        match &written {
            Ok(value) => {
                self.committed(&[scope], pass);
                charge.settle(value);
            }
            Err(failure) if failure.fate == CommitFate::Unknown => charge.keep_unsure(),
            Err(_) => drop(charge),
        }
        written
    }

    /// Sends notices until none are left. Closing waits for this, but not for notices that failed and are sent again.
    async fn send_notices(&self, pass: GatePass) {
        let mut pass = Some(pass);
        let mut failures = 0;
        loop {
            while let Some(scopes) = self.take_unannounced() {
                let Err(failure) = self.backend.announce(&scopes).await else {
                    failures = 0;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                tracing::debug!(error = %failure.error, "the notice of a commit was not sent to other processes");
                failures += 1;
                if failures < MOST_FAILURES {
                    self.add_unannounced(&scopes);
                }
                pass = None;
                tokio::time::sleep(ANNOUNCE_RETRY).await;
            }
            self.announcing.store(false, Ordering::SeqCst);
            // A commit between the two lines above saw that this task was still announcing, and left its notice to this
            // task.
            if lock(&self.unannounced).is_empty() || self.announcing.swap(true, Ordering::SeqCst) {
                drop(pass);
                return;
            }
        }
    }
}

impl<D> AfterCommit<D> {
    fn add_unannounced(&self, scopes: &[CommitScope]) {
        let mut unannounced = lock(&self.unannounced);
        if unannounced.len() < MOST_UNANNOUNCED {
            unannounced.extend(scopes);
        } else {
            *unannounced = HashSet::from([CommitScope::Unknown]);
        }
    }

    fn take_unannounced(&self) -> Option<Vec<CommitScope>> {
        let scopes = std::mem::take(&mut *lock(&self.unannounced));
        if scopes.is_empty() { None } else { Some(scopes.into_iter().collect()) }
    }
}

/// The callers that wait for commits, and the task that listens for other processes while there are any.
pub(super) struct Listeners<D> {
    after: Arc<AfterCommit<D>>,
    runtime: Handle,
    /// The listening task, while it runs.
    task: Arc<Mutex<Option<AbortHandle>>>,
}

impl<D> fmt::Debug for Listeners<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}

impl<D: Backend> Listeners<D> {
    pub(super) fn new(after: &Arc<AfterCommit<D>>) -> Self {
        Self { after: Arc::clone(after), runtime: Handle::current(), task: Arc::default() }
    }

    /// Adds a caller that waits for commits.
    pub(super) fn add(&self) -> CommitNotices {
        // Subscribes under this lock, because the task holds it when it decides whether anybody still waits.
        let mut task = lock(&self.task);
        let notices = self.after.notifier.subscribe();
        if task.is_none() {
            let after = Arc::clone(&self.after);
            let own = Arc::clone(&self.task);
            *task = Some(self.runtime.spawn(async move { listen(&after, &own).await }).abort_handle());
        }
        notices
    }

    /// Ends the wait of all callers.
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

async fn listen<D: Backend>(after: &AfterCommit<D>, own: &Mutex<Option<AbortHandle>>) {
    loop {
        after.backend.listen(&after.notifier).await;
        // Wakes the waiting callers, so that they look for commits that were missed until listening starts again.
        after.notifier.notify();
        {
            let mut task = lock(own);
            if !after.notifier.is_heard() {
                *task = None;
                return;
            }
        }
        tokio::time::sleep(LISTEN_RETRY).await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
