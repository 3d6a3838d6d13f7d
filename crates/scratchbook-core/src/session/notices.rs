//! Notices of commits: they wake the watchers of the session, user or app that a commit belongs to.

use std::collections::HashMap;

use super::commit_scope::{CommitScope, ScopeHashes};
use super::sync::{Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, Weak, watch};
use super::{SessionKey, StateOwner};
use crate::error::{Error, ErrorKind, Result};

/// What a watcher follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub enum Followed {
    /// A user or an app, with all its sessions.
    Owner(StateOwner),
    /// One session.
    Session(SessionKey),
}

impl Followed {
    fn hashes(&self) -> ScopeHashes {
        match self {
            Self::Owner(owner) => ScopeHashes::of_owner(owner),
            Self::Session(key) => ScopeHashes::of_session(key),
        }
    }
}

/// Wakes the watchers that wait for commits. For store implementations, including your own.
///
/// If the store knows the session, user or app of a commit, it reports them, and only their followers wake. Otherwise
/// every follower wakes.
#[derive(Clone, Debug)]
pub struct CommitNotifier(Arc<NotifierState>);

#[derive(Debug)]
struct NotifierState {
    /// Wakes the subscribers of every commit.
    all: watch::Sender<LastNotice>,
    /// For each hash, the followed sessions, users and apps that have this hash.
    followers: Mutex<HashMap<u64, Vec<FollowedTarget>>>,
    /// The number of waiters: subscribers of every commit, and followers.
    waiting: AtomicUsize,
    /// Counts notices, so that each notice has a unique moment.
    clock: AtomicU64,
}

/// A followed session, user or app, and the number of its followers.
#[derive(Debug)]
struct FollowedTarget {
    followed: Followed,
    hashes: ScopeHashes,
    count: usize,
    sender: watch::Sender<LastNotice>,
}

#[derive(Clone, Copy, Debug)]
struct LastNotice {
    open: IsOpen,
    /// The moment of the last notice.
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsOpen {
    Yes,
    No,
}

impl Default for CommitNotifier {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitNotifier {
    /// Creates a notifier without waiters.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(NotifierState {
            all: watch::Sender::new(LastNotice { open: IsOpen::Yes, at: 0 }),
            followers: Mutex::default(),
            waiting: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
        }))
    }

    /// Reports a commit without saying what it belongs to: every follower wakes. This is cheap if nobody waits, and
    /// never blocks.
    pub fn notify(&self) {
        self.notify_scopes([CommitScope::Unknown]);
    }

    /// Reports a commit to a session, or the session's deletion: the followers of the session, its user and its app
    /// wake. This is as cheap as [`notify`](Self::notify).
    pub fn notify_session(&self, session: &SessionKey) {
        if self.is_heard() {
            self.notify_scopes([CommitScope::session(session)]);
        }
    }

    /// Reports that keys of a user or an app were written outside of any session. This is as cheap as
    /// [`notify`](Self::notify).
    pub fn notify_owner(&self, owner: &StateOwner) {
        if self.is_heard() {
            self.notify_scopes([CommitScope::owner(owner)]);
        }
    }

    /// Reports the scopes of commits; returns whether anybody follows one of them.
    #[doc(hidden)]
    pub fn notify_scopes(&self, scopes: impl IntoIterator<Item = CommitScope>) -> bool {
        if !self.is_heard() {
            return false;
        }
        let at = self.0.clock.fetch_add(1, Ordering::SeqCst) + 1;
        let (mut any, mut reached) = (false, false);
        let followers = self.0.followers();
        for scope in scopes {
            any |= scope != CommitScope::Nothing;
            match scope.reach() {
                Some(hashes) => {
                    for follower in hashes.into_iter().flatten().filter_map(|place| followers.get(&place)).flatten() {
                        follower.wake(at);
                        reached = true;
                    }
                }
                None => {
                    for follower in followers.values().flatten().filter(|follower| scope.reaches(&follower.hashes)) {
                        follower.wake(at);
                        reached = true;
                    }
                }
            }
        }
        if any && self.0.all.receiver_count() > 0 {
            self.0.all.send_modify(|last| last.at = at);
            reached = true;
        }
        reached
    }

    /// Reports that the store was closed: all waiters get an error, now and later.
    pub fn close(&self) {
        let close = |sender: &watch::Sender<LastNotice>| sender.send_modify(|last| last.open = IsOpen::No);
        let followers = self.0.followers();
        close(&self.0.all);
        followers.values().flatten().for_each(|follower| close(&follower.sender));
    }

    /// Whether anybody waits.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst) > 0
    }

    /// Starts waiting for every commit.
    #[must_use]
    pub fn subscribe(&self) -> CommitNotices {
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        CommitNotices { last: self.0.all.subscribe(), followed: None, shared: Arc::downgrade(&self.0) }
    }

    /// Whether anybody follows the feed of an app or of one of its users.
    #[doc(hidden)]
    pub fn is_followed(&self, app: &str) -> bool {
        let of_app = |follower: &FollowedTarget| match &follower.followed {
            Followed::Owner(owner) => owner.app_name() == app,
            Followed::Session(_) => false,
        };
        self.0.all.receiver_count() > 0 || self.0.followers().values().flatten().any(of_app)
    }

    /// Returns everything that is followed now.
    #[doc(hidden)]
    pub fn followed(&self) -> Vec<Followed> {
        self.0.followers().values().flatten().map(|follower| follower.followed.clone()).collect()
    }
}

impl NotifierState {
    fn followers(&self) -> MutexGuard<'_, HashMap<u64, Vec<FollowedTarget>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, followed: &Followed) -> watch::Receiver<LastNotice> {
        let hashes = followed.hashes();
        let mut followers = self.followers();
        let here = followers.entry(hashes.own()).or_default();
        if let Some(follower) = here.iter_mut().find(|follower| follower.followed == *followed) {
            follower.count += 1;
            return follower.sender.subscribe();
        }
        let last = LastNotice { open: self.all.borrow().open, at: self.clock.load(Ordering::SeqCst) };
        let (sender, receiver) = watch::channel(last);
        here.push(FollowedTarget { followed: followed.clone(), hashes, count: 1, sender });
        receiver
    }

    fn leave(&self, followed: &Followed) {
        let mut followers = self.followers();
        let place = followed.hashes().own();
        if let Some(here) = followers.get_mut(&place) {
            here.iter_mut().filter(|follower| follower.followed == *followed).for_each(|follower| follower.count -= 1);
            here.retain(|follower| follower.count > 0);
            if here.is_empty() {
                followers.remove(&place);
            }
        }
    }
}

impl FollowedTarget {
    fn wake(&self, at: u64) {
        self.sender.send_modify(|last| last.at = at);
    }
}

/// Receives notices of commits. A notice says that there may be something new; the feed says what it is.
#[derive(Debug)]
pub struct CommitNotices {
    last: watch::Receiver<LastNotice>,
    followed: Option<Followed>,
    shared: Weak<NotifierState>,
}

/// The time of the last notice.
#[derive(Clone, Debug)]
pub(super) struct NoticeTime {
    at: u64,
    of: Weak<NotifierState>,
}

impl NoticeTime {
    /// Whether this time equals the other or is later, in the same store.
    pub(super) fn covers(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.of, &other.of) && self.at >= other.at
    }
}

impl CommitNotices {
    /// Limits the notices to commits that are in the feed of a user or an app. Notices of other commits can still
    /// arrive if the store does not know what they belong to.
    #[must_use]
    pub fn of_owner(self, owner: &StateOwner) -> Self {
        self.of(Followed::Owner(owner.clone()))
    }

    /// Limits the notices to commits to a session and its deletion. Notices of other commits can still arrive if the
    /// store does not know what they belong to.
    #[must_use]
    pub fn of_session(self, session: &SessionKey) -> Self {
        self.of(Followed::Session(session.clone()))
    }

    pub(super) fn of(self, followed: Followed) -> Self {
        let Some(shared) = self.shared.upgrade() else {
            // The store is closed; this receiver reports it.
            return self;
        };
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        let last = shared.follow(&followed);
        Self { last, followed: Some(followed), shared: Weak::clone(&self.shared) }
    }

    /// Discards earlier notices. Call it before reading the feed, so that no commit is missed in between.
    pub fn forget(&mut self) {
        self.last.mark_unchanged();
    }

    /// Discards earlier notices and returns the time of the last one.
    pub(super) fn forget_until(&mut self) -> NoticeTime {
        let at = self.last.borrow_and_update().at;
        NoticeTime { at, of: Weak::clone(&self.shared) }
    }

    /// Returns the time of the last notice, without discarding it.
    pub(super) fn last_notice(&self) -> NoticeTime {
        NoticeTime { at: self.last.borrow().at, of: Weak::clone(&self.shared) }
    }

    /// Waits until there may be something new. It can also wake up without reason.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the store was closed.
    pub async fn next(&mut self) -> Result<()> {
        let is_open = self.last.borrow().open == IsOpen::Yes
            && self.last.changed().await.is_ok()
            && self.last.borrow().open == IsOpen::Yes;
        let closed = "the store was closed while its feed was watched; open it again";
        if is_open { Ok(()) } else { Err(Error::new(ErrorKind::FailedPrecondition, closed)) }
    }
}

impl Clone for CommitNotices {
    fn clone(&self) -> Self {
        if let Some(shared) = self.shared.upgrade() {
            shared.waiting.fetch_add(1, Ordering::SeqCst);
            if let Some(followed) = &self.followed {
                drop(shared.follow(followed));
            }
        }
        Self { last: self.last.clone(), followed: self.followed.clone(), shared: Weak::clone(&self.shared) }
    }
}

impl Drop for CommitNotices {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            if let Some(followed) = &self.followed {
                shared.leave(followed);
            }
            shared.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::{CommitNotices, CommitNotifier, CommitScope};
    use crate::session::{SessionKey, StateOwner};

    fn woken(notices: &mut CommitNotices) -> bool {
        let woken = notices.next().now_or_never().is_some();
        notices.forget();
        woken
    }

    #[test]
    fn only_those_wake_whose_commit_it_was() {
        let notifier = CommitNotifier::new();
        let key = |user: &str, id: &str| SessionKey::new("app", user, id).unwrap();
        let (alice, app) = (StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap());
        let mut all = notifier.subscribe();
        let mut of_app = notifier.subscribe().of_owner(&app);
        let mut of_alice = notifier.subscribe().of_owner(&alice);
        let mut of_bob = notifier.subscribe().of_owner(&StateOwner::user("app", "bob").unwrap());
        let mut of_one = notifier.subscribe().of_session(&key("alice", "one"));
        let mut of_two = notifier.subscribe().of_session(&key("alice", "two"));
        let mut of_other = notifier.subscribe().of_owner(&StateOwner::app("other").unwrap());
        let mut heard = |scope| {
            notifier.notify_scopes([scope]);
            [&mut all, &mut of_app, &mut of_alice, &mut of_bob, &mut of_one, &mut of_two, &mut of_other].map(woken)
        };
        assert_eq!(heard(CommitScope::session(&key("alice", "one"))), [true, true, true, false, true, false, false]);
        assert_eq!(heard(CommitScope::owner(&alice)), [true, true, true, false, false, false, false]);
        assert_eq!(heard(CommitScope::owner(&app)), [true, true, false, false, false, false, false]);
        assert_eq!(heard(CommitScope::all_of(&alice)), [true, true, true, false, true, true, false]);
        assert_eq!(heard(CommitScope::all_of(&app)), [true, true, true, true, true, true, false]);
        assert_eq!(heard(CommitScope::Unknown), [true; 7]);
        assert_eq!(heard(CommitScope::Nothing), [false; 7]);
    }

    #[test]
    fn who_goes_is_forgotten() {
        let notifier = CommitNotifier::new();
        let alice = StateOwner::user("app", "alice").unwrap();
        let one = notifier.subscribe().of_owner(&alice);
        let mut two = one.clone();
        drop(one);
        notifier.notify_owner(&alice);
        assert!(woken(&mut two));
        assert_eq!(notifier.followed().len(), 1);
        drop(two);
        assert!(!notifier.is_heard() && notifier.followed().is_empty());
    }

    #[test]
    fn a_closed_store_ends_all_waits_and_so_does_one_that_is_gone() {
        let notifier = CommitNotifier::new();
        let alice = StateOwner::user("app", "alice").unwrap();
        let mut waiting = notifier.subscribe().of_owner(&alice);
        notifier.close();
        assert!(waiting.next().now_or_never().unwrap().is_err());
        assert!(notifier.subscribe().of_owner(&alice).next().now_or_never().unwrap().is_err());
        let notifier = CommitNotifier::new();
        let mut waiting = notifier.subscribe().of_owner(&alice);
        drop(notifier);
        assert!(waiting.next().now_or_never().unwrap().is_err());
    }
}
