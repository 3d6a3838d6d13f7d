//! Notices of commits.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/scratchbook-core/src/session/commit_scope.rs"]
mod commit_scope;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/scratchbook-core/src/session/notices.rs"]
mod notices;

mod sync {
    pub(super) use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, Weak, watch};
}

use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{SessionKey, StateOwner};
use shuttle::future::{block_on, spawn};
use shuttle::thread;

use crate::sync::{Arc, AtomicUsize, Ordering};
use notices::{CommitNotices, CommitNotifier};

/// What a watcher follows.
const FOLLOWED: [fn(CommitNotices, &SessionKey, &StateOwner) -> CommitNotices; 4] = [
    |notices, _, _| notices,
    |notices, session, _| notices.of_session(session),
    |notices, _, owner| notices.of_owner(owner),
    |notices, session, _| notices.of_session(session).clone(),
];

fn names() -> Option<(SessionKey, StateOwner)> {
    Some((SessionKey::new("app", "user", "session").ok()?, StateOwner::user("app", "user").ok()?))
}

/// A watcher that reads and then waits for a notice sees every commit: no notice is lost between the read and the wait,
/// whenever the watcher begins, and while other watchers come and go.
pub fn commits_reach_their_watchers() {
    let Some((session, owner)) = names() else { return };
    let (notifier, commits) = (CommitNotifier::new(), Arc::new(AtomicUsize::new(0)));
    let watchers = FOLLOWED.map(|follow| {
        let (notifier, session, owner, commits) =
            (notifier.clone(), session.clone(), owner.clone(), Arc::clone(&commits));
        spawn(async move {
            let mut notices = follow(notifier.subscribe(), &session, &owner);
            loop {
                notices.forget();
                if commits.load(Ordering::SeqCst) == 2 {
                    break;
                }
                assert!(notices.next().await.is_ok());
            }
        })
    });
    let committer = {
        let notifier = notifier.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                commits.fetch_add(1, Ordering::SeqCst);
                notifier.notify_session(&session);
            }
        })
    };
    block_on(async {
        for watcher in watchers {
            assert!(watcher.await.is_ok());
        }
    });
    assert!(committer.join().is_ok());
    assert!(!notifier.is_heard() && notifier.followed().is_empty(), "everybody is gone");
}

/// When the store is closed, every watch ends with an error, even a watch that is just being started.
pub fn every_watch_ends_when_the_store_is_closed() {
    let Some((session, owner)) = names() else { return };
    let notifier = CommitNotifier::new();
    let watchers = FOLLOWED.map(|follow| {
        let (notifier, session, owner) = (notifier.clone(), session.clone(), owner.clone());
        spawn(async move {
            let mut notices = follow(notifier.subscribe(), &session, &owner);
            let ended = notices.next().await.map_err(|error| error.kind());
            assert_eq!(ended, Err(ErrorKind::FailedPrecondition));
        })
    });
    let closer = {
        let notifier = notifier.clone();
        thread::spawn(move || notifier.close())
    };
    block_on(async {
        for watcher in watchers {
            assert!(watcher.await.is_ok());
        }
    });
    assert!(closer.join().is_ok());
}
