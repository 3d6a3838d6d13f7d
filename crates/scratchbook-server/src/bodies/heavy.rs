//! Work on what is large: off the runtime's workers, and little of it at a time.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use scratchbook::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;
use tracing::Instrument;

/// Who may work on what is large: a request that parses or writes megabytes for a tenth of a second keeps a worker from
/// everybody else's for as long. On threads of their own such requests share the processors with the workers, which the
/// operating system takes turns with.
#[derive(Debug)]
pub(crate) struct Heavy {
    places: Arc<Semaphore>,
    wait: Duration,
}

/// A place among those that work on what is large.
#[derive(Clone, Debug)]
pub(crate) struct Entered(Arc<OwnedSemaphorePermit>);

impl Heavy {
    /// As many at a time as there are processors, two to four; others wait for so long.
    pub(crate) fn new(wait: Duration) -> Self {
        let places = available_parallelism().map_or(2, usize::from).clamp(2, 4);
        Self { places: Arc::new(Semaphore::new(places)), wait }
    }

    /// Waits for a place.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is none in time.
    pub(crate) async fn enter(&self) -> Result<Entered> {
        match timeout(self.wait, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Entered(Arc::new(place))),
            _ => {
                let message = "too many large requests are worked on; nothing was done, send it again in a moment";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

impl Entered {
    /// Computes something on a thread of its own.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server is ending.
    pub(crate) async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        // The place is taken as long as the work goes on, whether anybody still waits for it or not.
        let place = Arc::clone(&self.0);
        let done = spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        done.await.or_else(ended)
    }

    /// Drives a future on a thread of its own, with all it computes between its waits.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute).
    pub(crate) async fn drive<F>(self, future: F) -> Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (runtime, future) = (Handle::current(), future.in_current_span());
        self.compute(move || runtime.block_on(future)).await
    }
}

/// A panic goes on as it would have without the thread.
fn ended<T>(error: JoinError) -> Result<T> {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the server is ending")),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn what_is_large_is_worked_on_elsewhere_and_little_of_it_at_a_time() {
        let heavy = Heavy::new(Duration::from_millis(50));
        let here = thread::current().id();
        let place = heavy.enter().await.unwrap();
        assert_ne!(place.compute(|| thread::current().id()).await.unwrap(), here);
        let driven = async {
            sleep(Duration::from_millis(1)).await;
            thread::current().id()
        };
        assert_ne!(place.drive(driven).await.unwrap(), here);
        let mut places = Vec::new();
        let refused = loop {
            match heavy.enter().await {
                Ok(place) => places.push(place),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!((2..=4).contains(&places.len()), "{}", places.len());
        places.pop();
        heavy.enter().await.unwrap();
    }
}
