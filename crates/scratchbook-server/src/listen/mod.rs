//! The server's own listener: connections, their limits, TLS, and the end.

mod closing;
mod connection;
mod stall;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub(crate) use closing::{Closing, end_streams};
use connection::Connection;
pub(crate) use tls::Certificates;
pub use tls::Tls;

use crate::served::Served;

/// How long to wait where there is nothing to accept a connection with: no file descriptor, no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections have for what is left when the runs are over.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Accepts connections until `shutdown` is ready, then has what was begun come to its end.
pub(crate) async fn serve(
    served: Arc<Served>,
    router: Router,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(served.limits.connections.min(Semaphore::MAX_PERMITS)));
    let mut shutdown = pin!(shutdown);
    loop {
        // A place first: what cannot be served waits where the system keeps it.
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, accept(&listener).await)
        };
        let (place, (stream, peer)) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        let connection =
            Connection { served: Arc::clone(&served), router: router.clone(), peer, watcher: graceful.watcher() };
        tokio::spawn(async move {
            connection.serve(stream).await;
            drop(place);
        });
    }
    drop(listener);
    end(&served, graceful).await;
}

/// The end: requests under way and runs come to theirs, then streams, then connections.
async fn end(served: &Served, graceful: GracefulShutdown) {
    tracing::info!(connections = graceful.count(), "no more connections are taken; what was begun is finished");
    let time = served.limits.shutdown_time;
    let runs = async {
        served.runs.close(time).await;
        served.closing.close();
    };
    // Meanwhile a connection ends with the answer that is under way on it.
    let ((), drained) = tokio::join!(runs, timeout(time + LAST_ANSWERS, graceful.shutdown()));
    if drained.is_err() {
        tracing::warn!("connections are cut off: the time to finish is over");
    }
}

/// The next connection. A listener does not break; what fails is a connection, or the system is short of something.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_connection(&error) => tracing::debug!(%error, "a connection was gone at once"),
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
