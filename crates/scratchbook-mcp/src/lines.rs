//! Reads a server's messages, one on each line, and stops at a line that is too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A reader that fails at a line that is longer than the limit.
#[derive(Debug)]
pub(crate) struct BoundedLines<R> {
    inner: R,
    limit: usize,
    /// The bytes of the current line that have been read.
    length: usize,
    is_exceeded: Arc<AtomicBool>,
}

impl<R> BoundedLines<R> {
    /// `is_exceeded` is set when the limit is exceeded.
    pub(crate) fn new(inner: R, limit: usize, is_exceeded: Arc<AtomicBool>) -> Self {
        Self { inner, limit, length: 0, is_exceeded }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        for piece in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            self.length += piece.len();
            if self.length > self.limit {
                self.is_exceeded.store(true, Ordering::Relaxed);
                // A reader that fails has read nothing.
                buffer.set_filled(before);
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
            if piece.ends_with(b"\n") {
                self.length = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn read(text: &[u8], limit: usize) -> (io::Result<usize>, bool) {
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let mut lines = BoundedLines::new(text, limit, Arc::clone(&is_exceeded));
        let read = lines.read_to_end(&mut Vec::new()).await;
        (read, is_exceeded.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn many_short_lines_are_read_and_a_long_one_is_refused() {
        let (all, exceeded) = read(b"12345\n12345\n12345\n", 6).await;
        assert_eq!((all.unwrap(), exceeded), (18, false));
        let (all, exceeded) = read(b"12345\n123456\n", 6).await;
        assert!(all.is_err() && exceeded);
        let (all, exceeded) = read(&[b'x'; 100], 99).await;
        assert!(all.is_err() && exceeded);
    }
}
