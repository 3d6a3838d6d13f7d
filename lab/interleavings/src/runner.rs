//! The locks of sessions, which allow one run at a time.

#[allow(dead_code)]
#[path = "../../../crates/scratchbook-agent/src/runner/session_lock.rs"]
mod session_lock;

mod sync {
    pub(super) use crate::sync::{Arc, Mutex, MutexGuard, OwnedSemaphorePermit, PoisonError, Semaphore};
}

use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::SessionKey;
use shuttle::future::{JoinHandle, block_on, spawn};

use crate::sync::{Arc, AtomicUsize, Ordering, perhaps_dropped, point};
use session_lock::SessionLocks;

/// What a run does if its session is busy: the enum of this name in the shipped crate leaves room for more variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenBusy {
    Queue,
    Refuse,
}

/// Begins a run that may be given up while it waits. Its last append keeps the permit after the run is dropped.
fn run(locks: &SessionLocks, key: &SessionKey, running: &Arc<AtomicUsize>, when_busy: WhenBusy) -> JoinHandle<bool> {
    let (locks, key, running) = (locks.clone(), key.clone(), Arc::clone(running));
    spawn(async move {
        let permit = match perhaps_dropped(locks.begin(&key, when_busy)).await {
            None => return false,
            Some(Ok(permit)) => permit,
            Some(Err(error)) => {
                assert!(error.kind() == ErrorKind::Conflict && when_busy == WhenBusy::Refuse, "{error}");
                return false;
            }
        };
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two runs of one session at a time");
        let of_append = Arc::clone(&permit);
        let append = spawn(async move {
            point();
            running.fetch_sub(1, Ordering::SeqCst);
            drop(of_append);
        });
        drop(permit);
        append.await.is_ok()
    })
}

/// Begins runs, waits for them, and finds the session free again.
fn runs_of_one_session(when_busy: [WhenBusy; 3]) {
    let Ok(key) = SessionKey::new("app", "user", "session") else { return };
    let (locks, running) = (SessionLocks::default(), Arc::new(AtomicUsize::new(0)));
    let runs = when_busy.map(|when_busy| run(&locks, &key, &running, when_busy));
    block_on(async {
        for run in runs {
            assert!(run.await.is_ok());
        }
        assert!(locks.begin(&key, WhenBusy::Refuse).await.is_ok(), "nobody has the session any more");
    });
}

/// A session has one run at a time, a run ends with its last append, and no run waits for ever.
pub fn one_run_at_a_time() {
    runs_of_one_session([WhenBusy::Queue; 3]);
}

/// A run that is refused, or that gives up, keeps no other run waiting.
pub fn refused_runs_leave_nothing_behind() {
    runs_of_one_session([WhenBusy::Queue, WhenBusy::Refuse, WhenBusy::Queue]);
}
