//! How many connections calls may use. If a connection cannot be made while others work (a pooler has no server
//! connection left, a password has changed), calls wait for those that work, instead of failing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::failure::{CommitFate, Failure};
use scratchbook_core::error::{Error, ErrorKind};

/// How long a missing connection is not tried again: at first, since most failures pass at once, and at most.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The permits of a pool: one for each connection that it may have.
#[derive(Debug)]
pub struct Capacity {
    size: usize,
    permits: Arc<Semaphore>,
    missing: Mutex<Missing>,
}

#[derive(Debug, Default)]
struct Missing {
    /// How many permits were taken away. One always stays.
    count: usize,
    why: Option<ErrorKind>,
    tried: Option<Instant>,
    /// How long the next try waits, after the last one.
    pause: Duration,
}

impl Capacity {
    /// Makes the permits of a pool of this size.
    pub fn new(size: usize) -> Arc<Self> {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self { size, permits: Arc::new(Semaphore::new(size)), missing: Mutex::default() })
    }

    /// Waits for a permit, which its holder keeps as long as the connection.
    pub async fn acquire(&self, place: &str, wait: Duration) -> Result<OwnedSemaphorePermit, Failure> {
        match timeout(wait, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| scratchbook_core::store::closed().into()),
            Err(_) => {
                let why = self.degraded().unwrap_or_else(|| "raise pool_size".to_owned());
                let what = format!("{place}: no connection was free within {} s; {why}", wait.as_secs_f64());
                Err(Failure::new(CommitFate::NotSent, Error::new(ErrorKind::ResourceExhausted, what)))
            }
        }
    }

    /// Takes away the permit of a connection that could not be made, and the free permits that have no connection.
    /// `idle` is the number of connections that wait for a call.
    pub fn lose(&self, permit: OwnedSemaphorePermit, idle: usize, error: &Error) {
        let mut missing = self.missing();
        let may_go = self.size - 1 - missing.count;
        if may_go == 0 {
            return;
        }
        permit.forget();
        let without_connection = self.permits.available_permits().saturating_sub(idle);
        missing.count += 1 + self.permits.forget_permits(without_connection.min(may_go - 1));
        missing.tried = Some(Instant::now());
        let first = missing.why.replace(error.kind()).is_none();
        if first {
            missing.pause = TRY_AGAIN.0;
            tracing::warn!(%error, missing = missing.count, of = self.size, "calls wait for the connections that work");
        }
    }

    /// Returns whether it is time to try whether a missing connection can be made again. The caller then makes one, and
    /// calls [`regain`](Self::regain) if it could.
    pub fn is_due(&self) -> bool {
        let mut missing = self.missing();
        let is_due = missing.count > 0 && missing.tried.is_none_or(|tried| tried.elapsed() >= missing.pause);
        if is_due {
            missing.tried = Some(Instant::now());
            missing.pause = (missing.pause * 2).min(TRY_AGAIN.1);
        }
        is_due
    }

    /// Gives back the permit of a connection that can be made again.
    pub fn regain(&self) {
        let mut missing = self.missing();
        if missing.count > 0 {
            missing.count -= 1;
            self.permits.add_permits(1);
        }
        missing.tried = None;
        if missing.count == 0 && missing.why.take().is_some() {
            tracing::info!(of = self.size, "all connections can be made again");
        }
    }

    /// Says how many connections are missing. It does not show where the database is, because everybody may ask whether
    /// a server is ready.
    pub fn degraded(&self) -> Option<String> {
        let missing = self.missing();
        let kind = missing.why.filter(|_| missing.count > 0)?.as_str();
        Some(format!(
            "{} of {} connections to the database cannot be made ({kind}); the log says why",
            missing.count, self.size
        ))
    }

    /// Refuses every later call, and those that wait.
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether later calls are refused.
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    fn missing(&self) -> MutexGuard<'_, Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Capacity;
    use scratchbook_core::error::{Error, ErrorKind};

    #[tokio::test(start_paused = true)]
    async fn permits_without_connection_are_lost_at_once_and_one_always_stays() {
        let capacity = Capacity::new(4);
        let wait = Duration::from_secs(1);
        let error = Error::new(ErrorKind::Unauthenticated, "secret-host: no");
        let working = capacity.acquire("db", wait).await.unwrap();
        capacity.lose(capacity.acquire("db", wait).await.unwrap(), 0, &error);
        let degraded = capacity.degraded().unwrap();
        assert!(degraded.starts_with("3 of 4 connections") && !degraded.contains("secret"), "{degraded}");
        let busy = capacity.acquire("db", wait).await.unwrap_err().error.to_string();
        assert!(busy.contains("3 of 4"), "{busy}");
        capacity.lose(working, 0, &error);
        let last = capacity.acquire("db", wait).await.unwrap();
        for _ in 0..3 {
            capacity.regain();
        }
        assert_eq!(capacity.degraded(), None);
        let all: Vec<_> = [capacity.acquire("db", wait).await, capacity.acquire("db", wait).await].into();
        assert!(all.iter().all(Result::is_ok) && capacity.acquire("db", wait).await.is_ok());
        drop(last);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_connection_is_tried_soon_and_then_more_and_more_rarely() {
        let capacity = Capacity::new(4);
        let error = Error::new(ErrorKind::Unavailable, "too many connections");
        capacity.lose(capacity.acquire("db", Duration::from_secs(1)).await.unwrap(), 0, &error);
        let mut tries = Vec::new();
        for tenths in 0..400 {
            if capacity.is_due() {
                tries.push(tenths);
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(tries, [3, 8, 18, 38, 78, 158, 258, 358]);
    }
}
