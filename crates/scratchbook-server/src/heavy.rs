//! Work that takes long without waiting for anything, such as writing much JSON: it is done off the runtime's workers,
//! which answer everybody else meanwhile.

use std::io;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use scratchbook::{Error, Result};
use serde::Serialize;
use tokio::sync::Semaphore;

/// What has fewer bytes as JSON is written where it is: that takes less time than to have it done elsewhere may.
const SMALL: usize = 64 << 10;

/// As many at a time as there are processors: more would only take memory.
static PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(2, |count| count.get().max(2))));

/// Has something done off the workers, when it is its turn.
///
/// # Errors
///
/// `Internal` where it panics.
pub(crate) async fn off_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    // It is never closed.
    let _permit = PERMITS.acquire().await;
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::internal("a part of a request ended without an answer").with_source(e))
}

/// Whether something has few bytes as JSON. Of what has many, no more than a few are counted.
pub(crate) fn is_small(value: &impl Serialize) -> bool {
    serde_json::to_writer(&mut Count { bytes: 0, most: SMALL }, value).is_ok()
}

/// How many bytes something has as JSON.
pub(crate) fn bytes_of(value: &impl Serialize) -> usize {
    let mut count = Count { bytes: 0, most: usize::MAX };
    // What cannot be written is found when it is.
    let _ = serde_json::to_writer(&mut count, value);
    count.bytes
}

/// Counts bytes and keeps none.
struct Count {
    bytes: usize,
    most: usize,
}

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.most { Err(io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_panics_off_the_workers_is_an_error_of_its_request_alone() {
        assert_eq!(off_worker(|| 7).await.unwrap(), 7);
        assert!(off_worker(|| panic!("a defect")).await.map(|(): ()| ()).is_err());
        assert_eq!(off_worker(|| 8).await.unwrap(), 8);
    }

    #[test]
    fn small_is_what_has_few_bytes() {
        assert!(is_small(&"x".repeat(SMALL - 2)));
        assert!(!is_small(&"x".repeat(SMALL)));
    }
}
