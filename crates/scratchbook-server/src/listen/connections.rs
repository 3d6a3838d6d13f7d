//! The open connections of a listener, and the handle by which the rest of the server knows one.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::ListenState;
use super::places::{Phase, Places, Wish};
use crate::access::{Access, LoginName};
use crate::limits::Network;

/// How many connections may wait for a place at a time. They are accepted, so each takes a file descriptor as well.
const SEATS: usize = 64;
/// How long such a connection waits before it is refused.
const WAIT: Duration = Duration::from_secs(1);
/// How many connections end if the system has no more files for others.
const SOME: usize = 64;
/// How often to check whether a slow connection has to make room by now.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Connections {
    places: Mutex<Places<LoginName>>,
    /// The seats of the connections that wait for a place.
    seats: Arc<Semaphore>,
    /// Wakes the waiting connections when a place may be free.
    changed: Notify,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

/// A connection, as requests on it know it.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    connections: Arc<Connections>,
    id: u64,
}

/// A connection's place, as long as it has it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    pub(super) line: Arc<ConnectionHandle>,
    wishes: watch::Receiver<Wish>,
}

/// A connection for which there was no place at once.
#[derive(Debug)]
pub(super) enum Late {
    /// It got a place after all.
    ConnectionPermit(ConnectionPermit),
    /// It keeps its seat until it has been refused.
    Seat(OwnedSemaphorePermit),
    /// It gets no seat, because too many connections wait.
    Nothing,
}

impl Connections {
    pub(super) fn new(state: &ListenState) -> Arc<Self> {
        let limits = &state.limits;
        let strangers = match state.access {
            Access::Open => usize::MAX,
            Access::Login(_) => limits.connections_before_login,
        };
        Arc::new(Self {
            places: Mutex::new(Places::new(limits.connections, strangers)),
            seats: Arc::new(Semaphore::new(SEATS)),
            changed: Notify::new(),
            open: watch::Sender::new(0),
        })
    }

    /// A place for a connection from an address, if there is one, or another connection makes room. Proxies and this
    /// machine itself have addresses that stand for many clients.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr, proxies: &[Network]) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let counts = !address.is_loopback() && !proxies.iter().any(|proxy| proxy.has(address));
        let mut places = self.lock();
        let (id, wishes) = places.enter(counts.then(|| Network::of_client(address)), Instant::now())?;
        self.open.send_replace(places.len());
        drop(places);
        Some(ConnectionPermit { line: Arc::new(ConnectionHandle { connections: Arc::clone(self), id }), wishes })
    }

    /// Waits a little for a place, unless too many connections already wait.
    pub(super) async fn wait(self: &Arc<Self>, address: IpAddr, proxies: &[Network]) -> Late {
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else { return Late::Nothing };
        let entered = async {
            loop {
                if let Some(place) = self.enter(address, proxies) {
                    return place;
                }
                // The table is checked again, whether or not something has changed.
                let _ = timeout(LOOK_EVERY, self.changed.notified()).await;
            }
        };
        timeout(WAIT, entered).await.map_or(Late::Seat(seat), Late::ConnectionPermit)
    }

    /// Ends the connections that lose least by it, because the system is short of files or memory.
    pub(super) fn make_room(&self) {
        let (mut places, now) = (self.lock(), Instant::now());
        let _ = (0..SOME).all(|_| places.make_room(now));
    }

    /// Accepts no more connections. An open one ends with the request that is under way on it, or now.
    pub(super) fn end(&self) {
        self.lock().close(Wish::End);
    }

    /// Ends all connections that are left, now.
    pub(super) fn cut(&self) {
        self.lock().close(Wish::Cut);
    }

    pub(super) fn count(&self) -> usize {
        *self.open.borrow()
    }

    /// Ready when no connection is open.
    pub(super) async fn gone(&self) {
        // The sender lives as long as `self`.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    fn lock(&self) -> MutexGuard<'_, Places<LoginName>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one of those who wait, if there are any.
    fn tell(&self) {
        if self.seats.available_permits() < SEATS {
            self.changed.notify_one();
        }
    }
}

impl ConnectionHandle {
    /// Whether a request has arrived on this connection.
    pub(super) fn has_asked(&self) -> bool {
        self.connections.lock().phase(self.id) != Some(Phase::New)
    }

    /// Whether no request is under way on this connection.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.connections.lock().phase(self.id), Some(Phase::New | Phase::Idle))
    }

    pub(super) fn change(&self, phase: Phase) {
        self.connections.lock().change(self.id, phase, Instant::now());
        if matches!(phase, Phase::Idle) {
            self.connections.tell();
        }
    }

    /// Records the login of the request that is under way. Returns false if that login has more than its share of all
    /// connections, and others are short of them.
    pub(crate) fn log_in(&self, login: &LoginName) -> bool {
        self.connections.lock().log_in(self.id, login)
    }
}

impl ConnectionPermit {
    /// Ready when the connection is to end with the answer that is under way, or now.
    pub(super) async fn ends(&self) {
        self.wished(Wish::End).await;
    }

    /// Ready when the connection is to end now.
    pub(super) async fn is_cut(&self) {
        self.wished(Wish::Cut).await;
    }

    async fn wished(&self, wish: Wish) {
        // The sender lives until this place is left.
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
