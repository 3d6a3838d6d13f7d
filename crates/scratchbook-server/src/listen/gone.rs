//! Detects, while a connection is in use, whether its client has gone.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::Method;
use axum::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How long the server still works on a read after the client has closed its side of the connection. The server cannot
/// see whether the client still waits or has gone, so an answer that is ready in this time is sent.
const AFTER_THE_END: Duration = Duration::from_millis(250);

/// How often to check a client that has sent bytes which were not read yet.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A TCP connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct SharedStream(Arc<TcpStream>);

impl SharedStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Waits until the client has gone: returns at once if the connection is broken, and some time after the client has
    /// closed its side.
    pub(super) async fn gone(&self) {
        loop {
            match self.0.ready(Interest::READABLE | Interest::ERROR).await {
                Err(_) => return,
                Ok(ready) if ready.is_error() || ready.is_write_closed() => return,
                Ok(ready) if ready.is_read_closed() => return sleep(AFTER_THE_END).await,
                // The client has sent its next request, or a body that nobody reads.
                Ok(_) => sleep(LOOK_AGAIN).await,
            }
        }
    }
}

/// Answers a request. A read is abandoned as soon as its client has gone; a write continues whatever its client does.
pub(super) async fn answer(
    client: SharedStream,
    method: Method,
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> io::Result<Response> {
    let gone = async {
        match method {
            Method::GET | Method::HEAD => client.gone().await,
            _ => pending().await,
        }
    };
    tokio::select! {
        // `gone` is polled first, so that a client that has gone gets no answer.
        biased;
        () = gone => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client has gone")),
        Ok(response) = answer => Ok(response),
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl SharedStream {
    fn poll_try(&self, context: &mut Context<'_>, write: impl Fn() -> io::Result<usize>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match write() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try(context, || self.0.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(context, || self.0.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written bytes have already been passed to the operating system.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection is dropped next, which closes it.
        Poll::Ready(Ok(()))
    }
}
