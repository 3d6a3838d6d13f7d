//! The server's own listener: connections, their limits, TLS, and the shutdown.

mod closing;
mod connection;
mod connections;
mod gone;
mod guarded;
mod headers;
mod log_in;
mod places;
mod refused;
mod stall;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

pub(crate) use closing::{Closing, end_streams};
use connection::PeerConnection;
pub(crate) use connections::ConnectionHandle;
use connections::{Late, OpenConnections};
pub(crate) use log_in::count_login;
use refused::refuse;
pub(crate) use tls::Certificates;
pub use tls::Tls;

use crate::access::Access;
use crate::limits::ServerLimits;
use crate::runs::Runs;

/// The parts of the app's state that a listener needs.
#[derive(Clone, Debug)]
pub(crate) struct ListenState {
    pub(crate) access: Access,
    pub(crate) limits: Arc<ServerLimits>,
    /// `None` without TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) closing: Closing,
    pub(crate) runs: Runs,
}

/// The pause if no connection can be accepted because the system lacks file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections have for their last answers once the shutdown time has passed.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Accepts connections until `shutdown` is ready, then finishes the requests and runs in progress.
pub(crate) async fn serve(
    state: Arc<ListenState>,
    router: Router,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) {
    let connections = OpenConnections::new(&state);
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let (state, router) = (Arc::clone(&state), router.clone());
        match connections.enter(peer.ip(), &state.limits.trusted_proxies) {
            Some(place) => drop(tokio::spawn(PeerConnection { state, router, peer, place }.serve(stream))),
            None => drop(tokio::spawn(serve_late(Arc::clone(&connections), state, router, stream, peer))),
        }
    }
    drop(listener);
    end(&state, &connections).await;
}

/// Waits for a place for a connection and then serves it, or refuses it.
async fn serve_late(
    connections: Arc<OpenConnections>,
    state: Arc<ListenState>,
    router: Router,
    stream: TcpStream,
    peer: SocketAddr,
) {
    match connections.wait(peer.ip(), &state.limits.trusted_proxies).await {
        Late::ConnectionPermit(place) => PeerConnection { state, router, peer, place }.serve(stream).await,
        // A client that speaks only TLS cannot read the refusal; its connection is closed.
        Late::Seat(_) if state.certificates.is_some() => {}
        Late::Seat(_seat) => refuse(stream).await,
        Late::Nothing => {}
    }
}

/// Shuts down: first requests in progress and runs end, then streams, then connections.
async fn end(state: &ListenState, connections: &OpenConnections) {
    tracing::info!(connections = connections.count(), "no more connections are taken; what was begun is finished");
    connections.end();
    let time = state.limits.shutdown_time;
    let runs = async {
        state.runs.close(time).await;
        state.closing.close();
    };
    // Meanwhile each connection ends with the answer in progress on it.
    let finished = async { tokio::join!(runs, connections.gone()) };
    if timeout(time + LAST_ANSWERS, finished).await.is_err() {
        tracing::warn!(connections = connections.count(), "connections are cut off: the time to finish is over");
        state.closing.close();
        connections.cut();
    }
}

/// Waits for the next connection. An error does not come from the listener itself: either a connection failed, or the
/// system is short of files or memory.
async fn accept(listener: &TcpListener, connections: &OpenConnections) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_connection(&error) => tracing::debug!(%error, "a connection was gone at once"),
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                connections.make_room();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
