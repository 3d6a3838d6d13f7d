//! What follows a commit and nobody waits for: telling those who wait for commits, here and in other processes.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::Dialect;
use super::gate::Pass;
use scratchbook_core::session::{CommitNotices, CommitNotifier, Whose};

/// How long after a notice the next one is sent.
const PAUSE: Duration = Duration::from_millis(50);

/// If more than this many are unsent, others hear that it may be anybody's.
const MOST_UNTOLD: usize = 1000;

/// How long until it is tried again to hear of other processes.
const DEAF: Duration = Duration::from_secs(1);

/// How long until a notice that failed is sent again, and how often it may fail: then the other processes have looked for
/// themselves, which they do every 30 seconds.
const MUTE: Duration = Duration::from_secs(1);
const MOST_FAILURES: usize = 30;

/// What is done after commits.
pub(super) struct AfterCommit<D> {
    pub(super) dialect: Arc<D>,
    notifier: CommitNotifier,
    /// Whose it was that was committed, of which other processes have not heard yet.
    untold: Mutex<HashSet<Whose>>,
    telling: AtomicBool,
    /// One at a time: nobody waits for them.
    pub(super) checkpoints: Semaphore,
}

impl<D: Dialect> AfterCommit<D> {
    pub(super) fn new(dialect: &Arc<D>) -> Self {
        Self {
            dialect: Arc::clone(dialect),
            notifier: CommitNotifier::new(),
            untold: Mutex::default(),
            telling: AtomicBool::new(false),
            checkpoints: Semaphore::new(1),
        }
    }

    /// Something was committed. Costs next to nothing if nobody listens.
    pub(super) fn committed(self: &Arc<Self>, whose: &[Whose], pass: &Pass) {
        self.notifier.notify_whose(whose.iter().copied());
        if !self.dialect.may_be_listened_to() || whose.iter().all(|whose| *whose == Whose::Nobody) {
            return;
        }
        self.add_untold(whose);
        if !self.telling.swap(true, Ordering::SeqCst) {
            let (after, pass) = (Arc::clone(self), pass.clone());
            tokio::spawn(async move { after.tell(pass).await });
        }
    }

    /// Sends notices until none are left. Closing waits for this, but not for notices that failed and are sent again.
    async fn tell(&self, pass: Pass) {
        let (mut pass, mut failures) = (Some(pass), 0);
        loop {
            while let Some(whose) = self.take_untold() {
                let Err(failure) = self.dialect.announce(&whose).await else {
                    failures = 0;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                tracing::debug!(error = %failure.error, "the notice of a commit was not sent to other processes");
                failures += 1;
                if failures < MOST_FAILURES {
                    self.add_untold(&whose);
                }
                pass = None;
                tokio::time::sleep(MUTE).await;
            }
            self.telling.store(false, Ordering::SeqCst);
            // What was committed between the two has found somebody telling.
            if lock(&self.untold).is_empty() || self.telling.swap(true, Ordering::SeqCst) {
                drop(pass);
                return;
            }
        }
    }
}

impl<D> AfterCommit<D> {
    fn add_untold(&self, whose: &[Whose]) {
        let mut untold = lock(&self.untold);
        match untold.len() < MOST_UNTOLD {
            true => untold.extend(whose),
            false => *untold = HashSet::from([Whose::Anybody]),
        }
    }

    fn take_untold(&self) -> Option<Vec<Whose>> {
        let whose = std::mem::take(&mut *lock(&self.untold));
        if whose.is_empty() { None } else { Some(whose.into_iter().collect()) }
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

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
