//! A proxy between a client and a server, which counts round trips and loses connections.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// A listener on the loopback interface that forwards every connection to a server.
///
/// A *turn* costs a round trip. It begins with the first bytes that the client sends on the connection, or sends after
/// bytes of the server.
///
/// The proxy does not read the protocol, so it works for every server, and under TLS.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<ProxyState>,
}

#[derive(Debug)]
struct ProxyState {
    server: Mutex<SocketAddr>,
    links: Mutex<Vec<Arc<Link>>>,
    closed: AtomicBool,
    turns: AtomicU64,
    connections: AtomicU64,
    delay: Mutex<Duration>,
    to_swallow: AtomicUsize,
    swallowed: AtomicU64,
}

/// The connection of one client, and the connection to the server that belongs to it.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// Whether the client has sent the last bytes. Its next bytes then belong to the same turn.
    client_speaks: AtomicBool,
    /// Whether the answer to the client's turn is swallowed.
    swallows: AtomicBool,
}

impl Proxy {
    /// Listens on a free port and forwards to a server at this port of the loopback interface.
    ///
    /// # Errors
    ///
    /// No port can be listened on.
    pub fn start(server_port: u16) -> Result<Self> {
        let failed = |error| Error::io("proxy", &error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let shared = Arc::new(ProxyState {
            server: Mutex::new(local(server_port)),
            links: Mutex::default(),
            closed: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            delay: Mutex::default(),
            to_swallow: AtomicUsize::new(0),
            swallowed: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Ok(Self { port, shared })
    }

    /// Listens on a free port and forwards to the server of a URI.
    ///
    /// # Errors
    ///
    /// The URI names no host and port that can be found, or no port can be listened on.
    pub fn before(uri: &str) -> Result<Self> {
        let (_, server, _) = split(uri)?;
        let mut found = std::net::ToSocketAddrs::to_socket_addrs(server).map_err(|error| Error::io(server, &error))?;
        let address = found.next().ok_or_else(|| Error::new(format!("'{server}' is no address")))?;
        let proxy = Self::start(address.port())?;
        *lock(&proxy.shared.server) = address;
        Ok(proxy)
    }

    /// Returns the port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes a URI of the server, so that it leads through this proxy.
    ///
    /// # Errors
    ///
    /// The URI names no host and port.
    pub fn uri(&self, uri: &str) -> Result<String> {
        let (before, _, after) = split(uri)?;
        Ok(format!("{before}127.0.0.1:{}{after}", self.port))
    }

    /// Forwards new connections to another port. Existing connections stay as they are.
    pub fn forward_to(&self, server_port: u16) {
        *lock(&self.shared.server) = local(server_port);
    }

    /// Returns how many turns there were on all connections together.
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(SeqCst)
    }

    /// Returns how many connections there were.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(SeqCst)
    }

    /// Makes every turn take this much longer.
    pub fn delay(&self, time: Duration) {
        *lock(&self.shared.delay) = time;
    }

    /// Cuts every open connection, even while data is on its way.
    pub fn cut(&self) {
        for link in lock(&self.shared.links).drain(..) {
            link.cut();
        }
    }

    /// Forwards this number of the next turns to the server, but cuts the connection when the answer comes. This
    /// replaces the number of an earlier call.
    pub fn swallow(&self, turns: usize) {
        self.shared.to_swallow.store(turns, SeqCst);
    }

    /// Returns how many answers were swallowed.
    pub fn swallowed(&self) -> u64 {
        self.shared.swallowed.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, SeqCst);
        self.cut();
        // Wakes the thread that accepts connections, so that it ends. It may have ended already.
        let _ = TcpStream::connect(local(self.port));
    }
}

impl ProxyState {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.closed.load(SeqCst) {
                return;
            }
            // If the server cannot be reached, the client's connection is closed, as by a server that has just died.
            if let Ok(client) = client {
                let shared = Arc::clone(self);
                thread::spawn(move || shared.connect(client));
            }
        }
    }

    fn connect(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let address = *lock(&self.server);
        let server = TcpStream::connect(address)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let link =
            Arc::new(Link { client, server, client_speaks: AtomicBool::new(false), swallows: AtomicBool::new(false) });
        self.connections.fetch_add(1, SeqCst);
        lock(&self.links).push(Arc::clone(&link));
        let (shared, back) = (Arc::clone(&self), Arc::clone(&link));
        thread::spawn(move || shared.to_client(&back));
        let result = self.to_server(&link);
        // A client may have closed only its own direction. It still receives the rest of the server's data.
        let _ = link.server.shutdown(Shutdown::Write);
        result
    }

    fn to_server(&self, link: &Link) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = (&link.client).read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if !link.client_speaks.swap(true, SeqCst) {
                self.turns.fetch_add(1, SeqCst);
                let armed = self.to_swallow.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                link.swallows.store(armed, SeqCst);
                let delay = *lock(&self.delay);
                if !delay.is_zero() {
                    thread::sleep(delay);
                }
            }
            (&link.server).write_all(&buffer[..count])?;
        }
    }

    fn to_client(&self, link: &Arc<Link>) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        let result = loop {
            let count = match (&link.server).read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(count) => count,
                Err(error) => break Err(error),
            };
            if link.swallows.load(SeqCst) {
                self.swallowed.fetch_add(1, SeqCst);
                link.swallows.store(false, SeqCst);
                // The server can finish this turn: its connection stays open until it has sent everything.
                let _ = link.client.shutdown(Shutdown::Both);
                while (&link.server).read(&mut buffer).is_ok_and(|count| count > 0) {}
                break Ok(());
            }
            // This comes before the client has the bytes, because its next bytes may be read before this thread
            // continues.
            link.client_speaks.store(false, SeqCst);
            if let Err(error) = (&link.client).write_all(&buffer[..count]) {
                break Err(error);
            }
        };
        // If a connection ends without an answer, no answer was lost, so an answer of another connection is swallowed
        // instead.
        if link.swallows.swap(false, SeqCst) {
            self.to_swallow.fetch_add(1, SeqCst);
        }
        link.cut();
        lock(&self.links).retain(|other| !Arc::ptr_eq(other, link));
        result
    }
}

impl Link {
    fn cut(&self) {
        // Either connection may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Splits a URI into the text before the host and port, the host and port, and the text after them.
fn split(uri: &str) -> Result<(&str, &str, &str)> {
    let scheme = uri.find("://").map(|at| at + 3);
    let start = scheme.ok_or_else(|| Error::new(format!("'{uri}' is no URI")))?;
    let end = uri[start..].find(['/', '?']).map_or(uri.len(), |at| start + at);
    let start = uri[start..end].rfind('@').map_or(start, |at| start + at + 1);
    Ok((&uri[..start], &uri[start..end], &uri[end..]))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
