//! A connection that ends when the headers of a request arrive too slowly.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::ConnectionHandle;

/// A stream whose reads fail with `TimedOut` if the headers of a request are not complete some time after their first
/// byte. The pause before a request does not count.
#[derive(Debug)]
pub(super) struct TimedHeaders<S> {
    stream: S,
    line: Arc<ConnectionHandle>,
    time: Duration,
    /// Runs while headers arrive.
    arriving: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedHeaders<S> {
    pub(super) fn new(stream: S, line: Arc<ConnectionHandle>, time: Duration) -> Self {
        Self { stream, line, time, arriving: None }
    }

    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(arriving) = &mut self.arriving else { return false };
        if !self.line.is_arriving() {
            self.arriving = None;
            return false;
        }
        arriving.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedHeaders<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buf);
        if buf.filled().len() > before && this.line.receive() {
            this.arriving = Some(Box::pin(sleep(this.time)));
        }
        if read.is_pending() && this.is_late(context) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the headers of a request are late")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedHeaders<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
