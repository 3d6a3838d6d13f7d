//! A connection, from its first byte to its last.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Scheme;
use futures_util::TryFutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

use super::ListenState;
use super::connections::ConnectionPermit;
use super::gone::{self, SharedStream};
use super::guarded::{GuardedBody, Then};
use super::headers::TimedHeaders;
use super::places::Phase;
use super::stall::Unstalled;
use crate::operations::Gauge;

/// How long the TLS handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long a connection that has to end may take to send the rest of its last answer.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// The smallest buffer for headers that hyper accepts, in bytes.
const LEAST_HEADER_BYTES: usize = 8 << 10;

/// A connection from a peer, with its place, and the state and the routes that serve it.
pub(super) struct PeerConnection {
    pub(super) state: Arc<ListenState>,
    pub(super) router: Router,
    pub(super) peer: SocketAddr,
    pub(super) place: ConnectionPermit,
}

impl PeerConnection {
    pub(super) async fn serve(self, stream: TcpStream) {
        let _open = Gauge::one_more("scratchbook_http_connections");
        // Without Nagle's algorithm, frames and answers are sent as soon as they are written.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone at once");
            return;
        }
        let client = SharedStream::new(stream);
        let stream = Unstalled::new(client.clone(), self.state.limits.stall_time);
        let Some(certificates) = &self.state.certificates else {
            return self.speak(client, stream, Scheme::HTTP).await;
        };
        let handshake = timeout(HANDSHAKE_TIME, certificates.acceptor().accept(stream));
        let agreed = tokio::select! {
            agreed = handshake => agreed,
            () = self.place.ends() => return,
        };
        match agreed {
            Ok(Ok(stream)) => self.speak(client, stream, Scheme::HTTPS).await,
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "no TLS"),
            Err(_) => tracing::debug!(peer = %self.peer, "no TLS in time"),
        }
    }

    async fn speak(
        self,
        client: SharedStream,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        scheme: Scheme,
    ) {
        let Self { state, router, peer, place } = self;
        let (line, of_requests, limits) = (&place.line, Arc::clone(&place.line), &state.limits);
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let line = &of_requests;
            let mut request = if request.body().is_end_stream() {
                line.begin(Phase::Answering);
                request.map(Body::new)
            } else {
                line.begin(Phase::Receiving);
                request.map(|body| Body::new(GuardedBody::new(body, Then::new(line, Phase::Answering))))
            };
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(scheme.clone());
            request.extensions_mut().insert(Arc::clone(line));
            let then = Then::new(line, Phase::Idle);
            let method = request.method().clone();
            let answer = gone::answer(client.clone(), method, router.clone().oneshot(request));
            answer.map_ok(move |response| response.map(|body| GuardedBody::new(body, then)))
        });
        let stream = TimedHeaders::new(stream, Arc::clone(line), limits.header_time);
        let header_bytes = limits.header_bytes.max(LEAST_HEADER_BYTES);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_time)
            .max_headers(limits.headers)
            .max_header_size(header_bytes)
            // Headers that are not complete yet are measured by the buffer.
            .max_buf_size(header_bytes)
            // A client that has closed its sending side still gets its answer. The answer to a read is sent only if it
            // is ready soon.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service)
            // `/run_live` upgrades its connection, and closes it at once.
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut is_ending = false;
        loop {
            tokio::select! {
                // The connection is polled first, so that a request that has arrived is counted before the other
                // branches run.
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "a connection broke off");
                    }
                    return;
                }
                () = place.is_cut() => return,
                () = place.ends(), if !is_ending => {
                    if line.begun() == 0 {
                        return;
                    }
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                    // A client that does not read the end of its last answer gets less time than a request.
                    if timeout(LAST_BYTES, connection.as_mut()).await.is_ok() || line.is_quiet() {
                        return;
                    }
                }
            }
        }
    }
}
