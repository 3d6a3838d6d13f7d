//! CPU-bound work, such as reading or writing megabytes of JSON. It runs on separate threads, so that the runtime's
//! workers can answer other requests in the meantime. Only a few such jobs run at a time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use scratchbook::environment::Deadline;
use scratchbook::{Error, ErrorKind, Result, json};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;
use tracing::Instrument;

/// Values with fewer bytes of JSON are written on the same thread, which is faster than handing them to another one.
const SMALL: u64 = 64 << 10;

/// The threads that write answers. They are separate from the places for bodies, since a request may hold such a place
/// while its answer is written. With shared places, two requests could wait for each other.
static ANSWERS: LazyLock<Heavy> = LazyLock::new(|| Heavy::with(processors().max(2), None));

/// The threads for large requests. Parsing or writing megabytes can take a tenth of a second, and would block a worker
/// for that time. With separate threads, the operating system schedules such requests beside the workers.
#[derive(Clone, Debug)]
pub(crate) struct Heavy {
    places: Arc<Semaphore>,
    /// How long to wait for a place; `None` means no limit.
    wait: Option<Duration>,
}

/// A place for large work, held until the work is done. Clones share the place.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPermit {
    heavy: Heavy,
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Heavy {
    /// Allows as many jobs at a time as there are processors, two to four. Further jobs wait this long for a place.
    pub(crate) fn new(wait: Duration) -> Self {
        Self::with(processors().clamp(2, 4), Some(wait))
    }

    fn with(places: usize, wait: Option<Duration>) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), wait }
    }

    /// Waits for a place.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no place is free in time.
    pub(crate) async fn enter(&self) -> Result<WorkerPermit> {
        let permit = self.permit().await?;
        Ok(WorkerPermit { heavy: self.clone(), permit: Arc::new(Mutex::new(Some(permit))) })
    }

    /// Runs a computation on a separate thread when there is a place for it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no place is free in time, or the server is ending; `Internal` if the computation panics.
    pub(crate) async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.enter().await?.compute(work).await
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.places).acquire_owned();
        let permit = match self.wait {
            Some(wait) => timeout(wait, permit).await.ok(),
            None => Some(permit.await),
        };
        // The semaphore is never closed.
        permit.and_then(|permit| permit.ok()).ok_or_else(|| {
            let message = "too many large requests are worked on; nothing was done, send it again in a moment";
            Error::new(ErrorKind::Unavailable, message)
        })
    }
}

impl WorkerPermit {
    async fn compute<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let deadline = Deadline::current();
        // The place stays taken until the work is done, even if nobody waits for the result.
        let done = spawn_blocking(move || {
            let done = deadline.sync_scope(work);
            self.leave();
            done
        });
        done.await.map_err(ended)
    }

    /// Runs a future on a separate thread, including the computations between its waits.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server is ending; `Internal` if it panics.
    pub(crate) async fn drive<F>(self, future: F) -> Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (runtime, future) = (Handle::current(), future.in_current_span());
        self.compute(move || runtime.block_on(future)).await
    }

    /// Gives up the place during a wait, so that another job can use it, and then takes a place again. If the wait ends
    /// at once, the place is kept.
    ///
    /// # Errors
    ///
    /// The error of the wait, after which no place is held; `Unavailable` if no place is free in time after the wait.
    pub(crate) async fn leave_for<T>(&self, wait: impl Future<Output = Result<T>>) -> Result<T> {
        let mut wait = pin!(wait);
        if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await {
            return done;
        }
        self.leave();
        let done = wait.await?;
        let permit = self.heavy.permit().await?;
        *self.lock() = Some(permit);
        Ok(done)
    }

    fn leave(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Computes a part of an answer on a separate thread, when a place is free.
///
/// # Errors
///
/// `Unavailable` if the server is ending; `Internal` if it panics.
pub(crate) async fn off_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    ANSWERS.compute(work).await
}

/// Returns whether a value has few bytes as JSON. Counting stops at the limit.
pub(crate) fn is_small(value: &impl Serialize) -> bool {
    json::bytes_up_to(value, SMALL).is_some()
}

fn processors() -> usize {
    available_parallelism().map_or(2, usize::from)
}

fn ended(error: JoinError) -> Error {
    if error.is_panic() {
        return Error::internal("a part of a request panicked; the log says where").with_source(error);
    }
    Error::new(ErrorKind::Unavailable, "the server is ending")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn what_is_large_is_worked_on_elsewhere_and_little_of_it_at_a_time() {
        let heavy = Heavy::new(Duration::from_millis(50));
        let here = thread::current().id();
        assert_ne!(heavy.compute(|| thread::current().id()).await.unwrap(), here);
        let driven = async {
            sleep(Duration::from_millis(1)).await;
            thread::current().id()
        };
        assert_ne!(heavy.enter().await.unwrap().drive(driven).await.unwrap(), here);
        let (mut places, refused) = all_places(&heavy).await;
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!((2..=4).contains(&places.len()), "{}", places.len());
        places.pop();
        heavy.enter().await.unwrap();
    }

    /// Takes all places, and returns them with the error that refuses one more.
    async fn all_places(heavy: &Heavy) -> (Vec<WorkerPermit>, Error) {
        let mut places = Vec::new();
        loop {
            match heavy.enter().await {
                Ok(place) => places.push(place),
                Err(error) => return (places, error),
            }
        }
    }

    #[tokio::test]
    async fn a_place_is_free_while_the_one_who_has_it_waits_for_something_else() {
        let heavy = Heavy::new(Duration::from_millis(50));
        let (mut places, _) = all_places(&heavy).await;
        let place = places.pop().unwrap();
        let at_once = place.leave_for(async { Ok(1) }).await.unwrap();
        assert_eq!((at_once, heavy.enter().await.is_err()), (1, true), "nothing was waited for");
        let (done, waiting) = oneshot::channel();
        let waits = place.leave_for(async { Ok(waiting.await.unwrap()) });
        let meanwhile = async {
            drop(heavy.enter().await.unwrap());
            done.send(2).unwrap();
        };
        let (waited, ()) = tokio::join!(waits, meanwhile);
        assert_eq!((waited.unwrap(), heavy.enter().await.is_err()), (2, true), "it has its place again");
        drop(place);
        heavy.enter().await.unwrap();
    }

    #[tokio::test]
    async fn what_panics_off_the_workers_is_an_error_of_its_request_alone() {
        assert_eq!(off_worker(|| 7).await.unwrap(), 7);
        assert!(off_worker(|| panic!("a defect")).await.map(|(): ()| ()).is_err());
        assert_eq!(off_worker(|| 8).await.unwrap(), 8);
    }

    #[test]
    fn small_is_what_has_few_bytes() {
        let text = |bytes: u64| "x".repeat(usize::try_from(bytes).unwrap());
        assert!(is_small(&text(SMALL - 2)));
        assert!(!is_small(&text(SMALL)));
    }
}
