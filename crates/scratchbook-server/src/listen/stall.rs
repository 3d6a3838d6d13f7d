//! A connection that ends when the client no longer reads.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail with `TimedOut` if they make no progress for a time. Reads have no timeout: a silent
/// client is not necessarily gone.
#[derive(Debug)]
pub(super) struct Unstalled<S> {
    stream: S,
    time: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstalled<S> {
    pub(super) fn new(stream: S, time: Duration) -> Self {
        Self { stream, time, waiting: None }
    }

    /// Returns the outcome of a write, or an error if the write has waited too long.
    fn watched<T>(&mut self, write: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.waiting = None;
            return write;
        }
        let time = self.time;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(time))).as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing any more")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.stream).poll_write(context, buf);
        this.watched(write, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.stream).poll_write_vectored(context, bufs);
        this.watched(write, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flush = Pin::new(&mut this.stream).poll_flush(context);
        this.watched(flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shutdown = Pin::new(&mut this.stream).poll_shutdown(context);
        this.watched(shutdown, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_gets_nowhere_ends_and_a_slow_one_goes_on() {
        let (mut client, server) = duplex(10);
        let mut server = Unstalled::new(server, TIME);
        let slow = async {
            for _ in 0..4 {
                tokio::time::sleep(TIME - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 10]).await.unwrap();
            }
            client
        };
        let (written, _client) = tokio::join!(server.write_all(&[0; 50]), slow);
        written.unwrap();

        let begun = Instant::now();
        let error = server.write_all(&[0; 50]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_as_long_as_it_likes() {
        let (mut client, server) = duplex(10);
        let later = async {
            tokio::time::sleep(TIME * 100).await;
            client.write_all(b"x").await.unwrap();
        };
        let mut server = Unstalled::new(server, TIME);
        let (read, ()) = tokio::join!(server.read_u8(), later);
        assert_eq!(read.unwrap(), b'x');
    }
}
