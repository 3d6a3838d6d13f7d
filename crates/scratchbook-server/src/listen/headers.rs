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
    /// Runs while headers arrive, with the number of requests that had begun before them.
    arriving: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<S> TimedHeaders<S> {
    pub(super) fn new(stream: S, line: Arc<ConnectionHandle>, time: Duration) -> Self {
        Self { stream, line, time, arriving: None }
    }

    /// Returns the timer of the arriving headers, if they are not complete yet.
    fn arriving(&mut self) -> Option<Pin<&mut Sleep>> {
        let (begun, time) = self.arriving.as_mut()?;
        (*begun == self.line.begun()).then_some(time.as_mut())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedHeaders<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buf);
        if buf.filled().len() > before && this.arriving().is_none() && this.line.begins_with_these() {
            this.arriving = Some((this.line.begun(), Box::pin(sleep(this.time))));
        }
        if read.is_pending() && this.arriving().is_some_and(|time| time.poll(context).is_ready()) {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::body::{Body, Bytes};
    use futures_util::stream;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::super::connections::{ConnectionPermit, OpenConnections};
    use super::super::guarded::{GuardedBody, Then};
    use super::super::places::Phase;
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn connection() -> (ConnectionPermit, DuplexStream, TimedHeaders<DuplexStream>) {
        let place = OpenConnections::with_places(9, usize::MAX).enter(Ipv4Addr::LOCALHOST.into(), &[]).unwrap();
        let (client, server) = duplex(100);
        let server = TimedHeaders::new(server, Arc::clone(&place.line), TIME);
        (place, client, server)
    }

    fn body(line: &Arc<ConnectionHandle>) -> GuardedBody<Body> {
        let parts = ["ab", "cd"].map(|part| Ok::<_, io::Error>(Bytes::from_static(part.as_bytes())));
        GuardedBody::new(Body::from_stream(stream::iter(parts)), Then::new(line, Phase::Answering))
    }

    /// Returns the time after which a read fails because headers are late; `None` if the read continues to wait.
    async fn late(server: &mut TimedHeaders<DuplexStream>) -> Option<Duration> {
        let begun = Instant::now();
        let read = timeout(10 * TIME, server.read_u8()).await.ok()?;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        Some(begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn headers_have_their_time_from_the_first_byte_and_pauses_do_not_count() {
        let (place, mut client, mut server) = connection();
        assert_eq!(late(&mut server).await, None, "nothing has arrived");
        for _ in 0..2 {
            client.write_all(b"GET").await.unwrap();
            server.read_exact(&mut [0; 3]).await.unwrap();
            place.line.begin(Phase::Answering);
            assert_eq!(late(&mut server).await, None, "the headers are complete");
            place.line.change(Phase::Idle);
            assert_eq!(late(&mut server).await, None, "the next request has not begun");
        }
        client.write_all(b"GET").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        assert_eq!(late(&mut server).await, Some(TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_body_that_nobody_reads_is_not_the_beginning_of_headers() {
        let (place, mut client, mut server) = connection();
        place.line.begin(Phase::Receiving);
        // The request is answered without its body, which then arrives.
        drop(body(&place.line));
        place.line.change(Phase::Idle);
        client.write_all(b"abcd").await.unwrap();
        server.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(late(&mut server).await, None);

        // A body that was read to its end has no rest.
        place.line.begin(Phase::Receiving);
        body(&place.line).collect().await.unwrap();
        place.line.change(Phase::Idle);
        client.write_all(b"GET").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        assert_eq!(late(&mut server).await, Some(TIME));
    }
}
