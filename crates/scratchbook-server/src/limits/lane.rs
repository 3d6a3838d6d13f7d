//! Permits that accounts share fairly: waiting requests are served account by account.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::operations::Gauge;

/// How long an account counts as present after its last request, because it may pause between two requests.
const PRESENT: Duration = Duration::from_secs(1);

/// The share of all waiting places that one account may take.
const WAITING_SHARE: usize = 4;

/// A number of permits. An account that is alone may hold nearly all of them; if there are other accounts, each has a
/// share. Each account has its own queue, and the queues are served in turn.
#[derive(Debug)]
pub(crate) struct Lane<K: Eq + Hash + Clone> {
    inner: Arc<LaneState<K>>,
}

#[derive(Debug)]
struct LaneState<K> {
    /// How many permits an account may hold if it is alone.
    alone: usize,
    /// How many permits an account may hold if there are other accounts.
    share: usize,
    /// How many requests may wait in all.
    waiting: usize,
    /// How many requests of one account may wait.
    waiting_share: usize,
    state: Mutex<LaneQueues<K>>,
}

#[derive(Debug)]
struct LaneQueues<K> {
    /// Permits that nobody holds.
    free: usize,
    /// How many requests wait.
    waiting: usize,
    next_id: u64,
    /// The queues of the accounts that hold permits or wait for one.
    lines: HashMap<K, AccountQueue>,
    /// The waiting accounts. The account to be served next comes first.
    order: VecDeque<K>,
    /// The account and the time of the latest request.
    last: Option<(K, Instant)>,
    /// The time of the latest request of any other account.
    other: Option<Instant>,
}

/// The permits of one account, and its requests that wait.
#[derive(Debug, Default)]
struct AccountQueue {
    held: usize,
    /// The waiting requests in the order of their arrival.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Why a request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// This many requests of the account wait.
    OfAccount(usize),
    /// This many requests of all accounts wait.
    OfAll(usize),
}

/// A permit, which is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<K: Eq + Hash + Clone> {
    inner: Arc<LaneState<K>>,
    account: K,
}

/// A place in an account's queue, until it is dropped.
struct LaneWaiter<'a, K: Eq + Hash + Clone> {
    inner: &'a Arc<LaneState<K>>,
    account: &'a K,
    id: u64,
    served: oneshot::Receiver<()>,
    is_taken: bool,
}

impl<K: Eq + Hash + Clone> Lane<K> {
    /// Creates a lane with this many permits. An account may hold `share` of them while there are other accounts, and
    /// all but an eighth while it is alone. The eighth is reserved for accounts that arrive in the meantime. At most
    /// `waiting` requests may wait.
    pub(crate) fn new(permits: usize, share: usize, waiting: usize) -> Self {
        let state = LaneQueues {
            free: permits.max(1),
            waiting: 0,
            next_id: 0,
            lines: HashMap::new(),
            order: VecDeque::new(),
            last: None,
            other: None,
        };
        let inner = LaneState {
            alone: (permits - permits / 8).max(1),
            share: share.max(1),
            waiting,
            waiting_share: waiting.div_ceil(WAITING_SHARE),
            state: Mutex::new(state),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for a permit. Dropping the future gives up the place in the queue.
    ///
    /// # Errors
    ///
    /// `Full` if no more requests may wait.
    pub(crate) async fn acquire(&self, account: &K) -> Result<Permit<K>, Full> {
        let mut waiter = self.enter(account)?;
        if waiter.served.try_recv().is_err() {
            let _waiting = Gauge::one_more("scratchbook_http_requests_waiting");
            // The sender lives as long as the place in the queue.
            let _ = (&mut waiter.served).await;
        }
        waiter.is_taken = true;
        Ok(Permit { inner: Arc::clone(&self.inner), account: account.clone() })
    }

    fn enter<'a>(&'a self, account: &'a K) -> Result<LaneWaiter<'a, K>, Full> {
        let inner = &self.inner;
        let (sender, served) = oneshot::channel();
        let mut state = inner.lock();
        state.came(account);
        let id = state.next_id;
        state.next_id += 1;
        state.waiting += 1;
        let line = state.lines.entry(account.clone()).or_default();
        line.waiting.insert(id, sender);
        if line.waiting.len() == 1 {
            state.order.push_back(account.clone());
        }
        inner.serve(&mut state);
        let of_account = state.lines.get(account).map_or(0, |line| line.waiting.len());
        let full = match (of_account, state.waiting) {
            // The account has no waiting request left, so this request is served.
            (0, _) => None,
            (waiting, _) if waiting > inner.waiting_share => Some(Full::OfAccount(waiting - 1)),
            (_, waiting) if waiting > inner.waiting => Some(Full::OfAll(waiting - 1)),
            _ => None,
        };
        drop(state);
        // A refused request drops the waiter, which removes the request from the queue.
        let waiter = LaneWaiter { inner, account, id, served, is_taken: false };
        full.map_or(Ok(waiter), Err)
    }
}

impl<K: Eq + Hash + Clone> LaneState<K> {
    fn lock(&self) -> MutexGuard<'_, LaneQueues<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves waiting requests, as long as there are permits for them.
    fn serve(&self, state: &mut LaneQueues<K>) {
        while state.free > 0 {
            let next = state.order.iter().position(|account| self.may_have_another(state, account));
            let Some(account) = next.and_then(|next| state.order.remove(next)) else { return };
            let Some(line) = state.lines.get_mut(&account) else { continue };
            let Some((_, waiter)) = line.waiting.pop_first() else { continue };
            state.waiting -= 1;
            // A request that no longer waits has already left the queue.
            if waiter.send(()).is_ok() {
                line.held += 1;
                state.free -= 1;
            }
            if !line.waiting.is_empty() {
                state.order.push_back(account);
            }
        }
    }

    fn may_have_another(&self, state: &LaneQueues<K>, account: &K) -> bool {
        let held = state.lines.get(account).map_or(0, |line| line.held);
        held < if state.is_alone(account) { self.alone } else { self.share }
    }

    /// Takes back a permit.
    fn release(&self, account: &K) {
        let mut state = self.lock();
        if let Some(line) = state.lines.get_mut(account) {
            line.held -= 1;
            state.free += 1;
        }
        state.forget(account);
        self.serve(&mut state);
    }

    /// Removes a request from its account's queue. Returns false if the request is no longer in the queue.
    fn leave(&self, account: &K, id: u64) -> bool {
        let mut state = self.lock();
        let Some(line) = state.lines.get_mut(account) else { return false };
        if line.waiting.remove(&id).is_none() {
            return false;
        }
        if line.waiting.is_empty() {
            state.order.retain(|other| other != account);
        }
        state.waiting -= 1;
        state.forget(account);
        true
    }
}

impl<K: Eq + Hash + Clone> LaneQueues<K> {
    fn came(&mut self, account: &K) {
        let now = Instant::now();
        match &mut self.last {
            Some((last, at)) if last == account => *at = now,
            last => self.other = last.replace((account.clone(), now)).map(|(_, at)| at),
        }
    }

    /// Returns whether no other account holds a permit, waits, or has sent a request within the last second.
    fn is_alone(&self, account: &K) -> bool {
        let others = self.lines.len() - usize::from(self.lines.contains_key(account));
        let last = match &self.last {
            Some((last, _)) if last == account => self.other,
            last => last.as_ref().map(|(_, at)| *at),
        };
        others == 0 && last.is_none_or(|at| at.elapsed() >= PRESENT)
    }

    /// Removes an account that has no permits and no requests.
    fn forget(&mut self, account: &K) {
        if self.lines.get(account).is_some_and(|line| line.held == 0 && line.waiting.is_empty()) {
            self.lines.remove(account);
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        self.inner.release(&self.account);
    }
}

impl<K: Eq + Hash + Clone> Drop for LaneWaiter<'_, K> {
    fn drop(&mut self) {
        // If the request is not in the queue either, the permit was granted while the request gave up.
        if !self.is_taken && !self.inner.leave(self.account, self.id) {
            self.inner.release(self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use futures_util::stream::{FuturesUnordered, StreamExt};

    use super::*;

    /// Returns a permit for an account, if there is one at once.
    fn at_once<K: Eq + Hash + Clone>(lane: &Lane<K>, account: &K) -> Option<Permit<K>> {
        lane.acquire(account).now_or_never()?.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_account_is_served_next_while_the_first_has_a_hundred_waiting() {
        let lane = Lane::new(1, 1, 1_000);
        let working = lane.acquire(&"busy").await.unwrap();
        let served = Mutex::new(Vec::new());
        let ask = |account: &'static str| {
            let (lane, served) = (&lane, &served);
            async move {
                let permit = lane.acquire(&account).await.unwrap();
                served.lock().unwrap().push(account);
                drop(permit);
            }
        };
        let mut asking: FuturesUnordered<_> = (0..100).map(|_| ask("busy")).collect();
        assert!(asking.next().now_or_never().is_none());
        asking.push(ask("other"));
        assert!(asking.next().now_or_never().is_none());
        drop(working);
        while asking.next().await.is_some() {}
        let served = served.lock().unwrap().clone();
        assert_eq!(served.len(), 101);
        assert!(served[..2].contains(&"other"), "{:?}", &served[..3]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_has_its_share_while_others_are_there_and_nearly_all_while_it_is_alone() {
        let lane = Lane::new(16, 4, 100);
        let mut held: Vec<_> = std::iter::from_fn(|| at_once(&lane, &"one")).collect();
        assert_eq!(held.len(), 14, "an eighth is left for who comes");
        drop(at_once(&lane, &"two").expect("there is room for another"));
        held.truncate(4);
        assert!(at_once(&lane, &"one").is_none(), "the other was there a moment ago");
        held.truncate(3);
        held.push(at_once(&lane, &"one").unwrap());
        tokio::time::advance(PRESENT).await;
        assert!(at_once(&lane, &"one").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_leaves_its_place_and_its_permit() {
        let lane = Lane::new(1, 1, 100);
        let working = lane.acquire(&1).await.unwrap();
        {
            let mut waiting = pin!(lane.acquire(&2));
            assert!(waiting.as_mut().now_or_never().is_none());
            let mut served = pin!(lane.acquire(&3));
            assert!(served.as_mut().now_or_never().is_none());
            assert_eq!(lane.inner.lock().waiting, 2);
            drop(working);
            // The second request has the permit now, and is dropped before it notices.
        }
        let state = lane.inner.lock();
        assert_eq!((state.free, state.waiting), (1, 0));
        assert!(state.lines.is_empty() && state.order.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_fills_its_places_leaves_others_theirs() {
        let lane = Lane::new(1, 1, 8);
        let _working = lane.acquire(&1).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..2 {
            waiting.push(lane.enter(&1).map_err(|_| "full").unwrap());
        }
        assert_eq!(lane.acquire(&1).await.unwrap_err(), Full::OfAccount(2));
        for account in [2, 2, 3, 3, 4, 4] {
            let account: &'static i32 = Box::leak(Box::new(account));
            waiting.push(lane.enter(account).map_err(|_| "full").unwrap());
        }
        assert_eq!(lane.acquire(&5).await.unwrap_err(), Full::OfAll(8));
        assert_eq!(lane.inner.lock().waiting, 8);
    }
}
