//! Writes the log to standard error through a queue and a thread.
//!
//! Logging never waits for the reader of standard error. If the queue is full, lines are dropped and counted. Their
//! number is logged when the reader continues.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use metrics::counter;
use scratchbook::{Error, ErrorKind};

/// The maximum size of the queue in bytes.
const MOST_BYTES: usize = 1 << 20;
/// The maximum number of bytes in one write. It is small enough to distinguish a slow reader from a reader that has
/// gone.
const PIECE: usize = 16 << 10;
/// The pause before a full pipe is written to again.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the flush at the end waits for a reader that reads nothing.
const STANDSTILL: Duration = Duration::from_millis(250);
/// How long the flush at the end waits for a slow reader.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The queue of lines to write.
#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    shared: Arc<SharedQueue>,
}

/// A guard that waits on drop until the lines are written, as long as somebody reads them.
#[derive(Debug)]
pub(super) struct Flush(LogQueue);

#[derive(Debug)]
struct SharedQueue {
    most_bytes: usize,
    state: Mutex<QueueState>,
    /// Notified when there are lines to write.
    more: Condvar,
    /// Notified when lines were written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Complete lines that the thread has not taken yet.
    waiting: Vec<u8>,
    /// How many bytes the thread has taken but not written yet.
    under_way: usize,
    /// How many lines were dropped since the last report.
    dropped: u64,
}

impl LogQueue {
    /// Starts a queue and the thread that writes it to standard error.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` if no thread can be started.
    pub(super) fn to_stderr() -> Result<Self, Error> {
        Self::new(MOST_BYTES, io::stderr())
    }

    fn new(most_bytes: usize, out: impl Write + Send + 'static) -> Result<Self, Error> {
        let shared = SharedQueue { most_bytes, state: Mutex::default(), more: Condvar::new(), written: Condvar::new() };
        let queue = Self { shared: Arc::new(shared) };
        let shared = Arc::clone(&queue.shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_out(&shared, out)).map_err(|e| {
            Error::new(ErrorKind::ResourceExhausted, "there is no thread left to write the log with").with_source(e)
        })?;
        Ok(queue)
    }

    /// Returns a guard that flushes the queue on drop.
    pub(super) fn flush_at_end(&self) -> Flush {
        Flush(self.clone())
    }

    /// Adds a line, or counts it as dropped if the queue is full.
    fn push(&self, line: &[u8]) {
        let mut state = self.shared.lock();
        if state.waiting.len() + line.len() <= self.shared.most_bytes {
            state.waiting.extend_from_slice(line);
        } else {
            state.dropped += 1;
        }
        drop(state);
        self.shared.more.notify_one();
    }
}

/// Each call writes one line, as the subscriber does.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        let end = Instant::now() + LAST_LINES;
        let mut state = shared.lock();
        while state.left() > 0 && Instant::now() < end {
            let (next, standstill) =
                shared.written.wait_timeout(state, STANDSTILL).unwrap_or_else(PoisonError::into_inner);
            if standstill.timed_out() {
                return;
            }
            state = next;
        }
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines and takes all of them. Returns how many were dropped.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut state = self.lock();
        while state.waiting.is_empty() && state.dropped == 0 {
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(lines, &mut state.waiting);
        state.under_way = lines.len();
        mem::take(&mut state.dropped)
    }

    fn wrote(&self, bytes: usize) {
        self.lock().under_way -= bytes;
        self.written.notify_all();
    }
}

impl QueueState {
    fn left(&self) -> usize {
        self.waiting.len() + self.under_way
    }
}

/// Writes lines until the process ends.
fn write_out(shared: &SharedQueue, mut out: impl Write) {
    let mut lines = Vec::new();
    loop {
        let dropped = shared.take(&mut lines);
        if dropped > 0 {
            counter!("scratchbook_log_lines_dropped_total").increment(dropped);
            // The queue is empty now, so this line comes after the lines that were kept.
            tracing::error!(lines = dropped, "dropped lines of this log: nobody read standard error");
        }
        let mut left = lines.as_slice();
        while !left.is_empty() {
            match out.write(&left[..left.len().min(PIECE)]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                // Standard error is closed.
                Ok(0) | Err(_) => {
                    shared.wrote(left.len());
                    left = &[];
                }
                Ok(bytes) => {
                    shared.wrote(bytes);
                    left = &left[bytes..];
                }
            }
        }
        lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Blocks until it is released, and then passes on everything that is written to it.
    struct Pipe {
        open: Receiver<()>,
        is_open: bool,
        out: Sender<Vec<u8>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.is_open {
                self.is_open = self.open.recv().is_ok();
            }
            self.out.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe() -> (Pipe, Sender<()>, Receiver<Vec<u8>>) {
        let ((release, open), (out, written)) = (channel(), channel());
        (Pipe { open, is_open: false, out }, release, written)
    }

    #[test]
    fn logging_never_waits_for_the_reader_and_dropped_lines_are_counted() {
        let (pipe, release, written) = pipe();
        let queue = LogQueue::new(10, pipe).unwrap();
        queue.push(b"1\n");
        // The thread has taken the first line, and is blocked.
        while queue.shared.lock().under_way == 0 {
            thread::sleep(PAUSE);
        }
        for _ in 0..7 {
            queue.push(b"2\n");
        }
        assert_eq!(queue.shared.lock().dropped, 2);
        let begun = Instant::now();
        drop(queue.flush_at_end());
        assert!(begun.elapsed() < LAST_LINES, "the end waits for nobody: {:?}", begun.elapsed());
        release.send(()).unwrap();
        let mut all = Vec::new();
        while all.len() < 12 {
            all.extend(written.recv_timeout(Duration::from_secs(10)).unwrap());
        }
        assert_eq!(all, b"1\n2\n2\n2\n2\n2\n");
    }

    #[test]
    fn nothing_is_lost_at_the_end() {
        let (pipe, release, written) = pipe();
        release.send(()).unwrap();
        let queue = LogQueue::new(MOST_BYTES, pipe).unwrap();
        let lines: Vec<u8> = (0..20_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| queue.push(line));
        drop(queue.flush_at_end());
        assert_eq!(written.try_iter().flatten().collect::<Vec<_>>(), lines);
    }
}
