//! The open connections of a listener, and the handle through which the rest of the server refers to a connection.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::ListenState;
use super::places::{Phase, Places, Wish};
use crate::access::{Access, LoginName};
use crate::limits::Network;

/// How many connections may wait for a place at a time. They are already accepted, so each takes a file descriptor.
const SEATS: usize = 64;
/// How long a connection waits for a place before it is refused.
const WAIT: Duration = Duration::from_secs(1);
/// How many connections are closed if the system has no file descriptors left for others.
const SOME: usize = 64;
/// How often to check whether a slow connection now has to make room.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The connections that are open.
#[derive(Debug)]
pub(super) struct OpenConnections {
    places: Mutex<Places<LoginName>>,
    /// Each connection that waits for a place holds a permit of this semaphore, its seat.
    seats: Arc<Semaphore>,
    /// Wakes the waiting connections when a place may be free.
    changed: Notify,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

/// The handle that requests have to their connection.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    connections: Arc<OpenConnections>,
    id: u64,
    /// The number of requests whose headers have arrived.
    begun: AtomicU64,
    /// Whether the server has dropped a request's body although a part of it may still arrive.
    has_rest: AtomicBool,
}

/// The place of a connection. Dropping the permit frees the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    pub(super) line: Arc<ConnectionHandle>,
    wishes: watch::Receiver<Wish>,
}

/// A connection for which there was no place at once.
#[derive(Debug)]
pub(super) enum Late {
    /// The connection got a place while it waited.
    ConnectionPermit(ConnectionPermit),
    /// The connection got no place, and keeps its seat until it has been refused.
    Seat(OwnedSemaphorePermit),
    /// The connection gets no seat, because too many connections wait.
    Nothing,
}

impl OpenConnections {
    pub(super) fn new(state: &ListenState) -> Arc<Self> {
        let limits = &state.limits;
        let strangers = match state.access {
            Access::Open => usize::MAX,
            Access::Login(_) => limits.connections_before_login,
        };
        Self::with_places(limits.connections, strangers)
    }

    /// Creates places for at most `most` connections. At most `strangers` connections from one network may be without a
    /// login.
    pub(super) fn with_places(most: usize, strangers: usize) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::new(Places::new(most, strangers)),
            seats: Arc::new(Semaphore::new(SEATS)),
            changed: Notify::new(),
            open: watch::Sender::new(0),
        })
    }

    /// Returns a place for a connection from an address, if one is free or another connection can make room. The
    /// addresses of proxies and of this machine are not counted, since many clients share them.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr, proxies: &[Network]) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let counts = !address.is_loopback() && !proxies.iter().any(|proxy| proxy.has(address));
        let mut places = self.lock();
        let (id, wishes) = places.enter(counts.then(|| Network::of_client(address)), Instant::now())?;
        self.open.send_replace(places.len());
        drop(places);
        Some(ConnectionPermit { line: Arc::new(ConnectionHandle::new(self, id)), wishes })
    }

    /// Waits a little for a place, unless too many connections already wait.
    pub(super) async fn wait(self: &Arc<Self>, address: IpAddr, proxies: &[Network]) -> Late {
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return Late::Nothing };
        let entered = async {
            loop {
                if let Some(place) = self.enter(address, proxies) {
                    return place;
                }
                // The table is checked again after each wait, even if nothing has changed.
                let _ = timeout(LOOK_EVERY, self.changed.notified()).await;
            }
        };
        timeout(WAIT, entered).await.map_or(Late::Seat(seat), Late::ConnectionPermit)
    }

    /// Closes the connections whose end does the least harm. Called when the system is short of files or memory.
    pub(super) fn make_room(&self) {
        let (mut places, now) = (self.lock(), Instant::now());
        let _ = (0..SOME).all(|_| places.make_room(now));
    }

    /// Accepts no more connections. An open connection ends with the request in progress on it, or at once if there is
    /// no request.
    pub(super) fn end(&self) {
        self.lock().close(Wish::End);
    }

    /// Cuts off all remaining connections at once.
    pub(super) fn cut(&self) {
        self.lock().close(Wish::Cut);
    }

    pub(super) fn count(&self) -> usize {
        *self.open.borrow()
    }

    /// Waits until no connection is open.
    pub(super) async fn gone(&self) {
        // The sender lives as long as `self`.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    fn lock(&self) -> MutexGuard<'_, Places<LoginName>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one of the waiting connections, if there are any.
    fn tell(&self) {
        if self.seats.available_permits() < SEATS {
            self.changed.notify_one();
        }
    }
}

impl ConnectionHandle {
    fn new(connections: &Arc<OpenConnections>, id: u64) -> Self {
        Self { connections: Arc::clone(connections), id, begun: AtomicU64::new(0), has_rest: AtomicBool::new(false) }
    }

    /// Records that a request has begun, in the phase that follows its headers.
    pub(super) fn begin(&self, phase: Phase) {
        self.has_rest.store(false, Relaxed);
        self.begun.fetch_add(1, Relaxed);
        self.change(phase);
    }

    /// Returns how many requests have begun on this connection.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Records that the body of the request in progress is not read to its end. What arrives next may be the rest of
    /// it.
    pub(super) fn leave_rest(&self) {
        self.has_rest.store(true, Relaxed);
    }

    /// Returns whether bytes that have just arrived are the first ones of a request's headers. Only the first bytes
    /// after [`leave_rest`](Self::leave_rest) can be the rest of a body.
    pub(super) fn begins_with_these(&self) -> bool {
        self.is_quiet() && !self.has_rest.swap(false, Relaxed)
    }

    /// Returns whether no request is in progress on this connection.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.connections.lock().phase(self.id), Some(Phase::New | Phase::Idle))
    }

    pub(super) fn change(&self, phase: Phase) {
        self.connections.lock().change(self.id, phase, Instant::now());
        if matches!(phase, Phase::Idle) {
            self.connections.tell();
        }
    }

    /// Records the login of the request in progress. Returns false if that login has more than its share of all
    /// connections while connections are scarce.
    pub(crate) fn log_in(&self, login: &LoginName) -> bool {
        self.connections.lock().log_in(self.id, login)
    }
}

impl ConnectionPermit {
    /// Waits until the connection has to end, with the answer in progress or at once.
    pub(super) async fn ends(&self) {
        self.wished(Wish::End).await;
    }

    /// Waits until the connection has to be cut off.
    pub(super) async fn is_cut(&self) {
        self.wished(Wish::Cut).await;
    }

    async fn wished(&self, wish: Wish) {
        // The sender lives as long as this permit.
        let _ = self.wishes.clone().wait_for(|wished| *wished >= wish).await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let connections = &self.line.connections;
        let mut places = connections.lock();
        places.leave(self.line.id);
        connections.open.send_replace(places.len());
        drop(places);
        connections.tell();
    }
}
