//! A connection, from its first byte to its last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Scheme;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

use super::stall::Unstalled;
use crate::operations::Gauge;
use crate::served::Served;

/// How long a client may take to agree on keys.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The least that hyper takes as the room for headers.
const LEAST_HEADER_BYTES: usize = 8 << 10;

/// What a connection is served with.
pub(super) struct Connection {
    pub(super) served: Arc<Served>,
    pub(super) router: Router,
    pub(super) peer: SocketAddr,
    pub(super) watcher: Watcher,
}

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream) {
        let _open = Gauge::one_more("scratchbook_http_connections");
        // Frames and answers go out as they are written.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone at once");
            return;
        }
        let stream = Unstalled::new(stream, self.served.limits.stall_time);
        let Some(certificates) = &self.served.certificates else {
            return self.speak(stream, Scheme::HTTP).await;
        };
        match timeout(HANDSHAKE_TIME, certificates.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, Scheme::HTTPS).await,
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "no TLS"),
            Err(_) => tracing::debug!(peer = %self.peer, "no TLS in time"),
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, scheme: Scheme) {
        let Self { served, router, peer, watcher } = self;
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(scheme.clone());
            router.clone().oneshot(request)
        });
        let limits = &served.limits;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_headers(limits.headers)
            .max_buf_size(limits.header_bytes.max(LEAST_HEADER_BYTES))
            // A client that has said all it has to say still gets its answer.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%peer, %error, "a connection broke off");
        }
    }
}
