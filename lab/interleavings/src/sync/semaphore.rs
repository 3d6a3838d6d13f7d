//! The semaphore of `tokio`, with a point before each operation.

use std::sync::Arc;

use tokio::sync::{AcquireError, TryAcquireError};

use super::point;

#[derive(Debug)]
pub(crate) struct Semaphore(Arc<tokio::sync::Semaphore>);

#[derive(Debug)]
pub(crate) struct SemaphorePermit<'a>(Option<tokio::sync::SemaphorePermit<'a>>);

#[derive(Debug)]
pub(crate) struct OwnedSemaphorePermit(Option<tokio::sync::OwnedSemaphorePermit>);

impl Semaphore {
    pub(crate) const MAX_PERMITS: usize = tokio::sync::Semaphore::MAX_PERMITS;

    pub(crate) fn new(permits: usize) -> Self {
        Self(Arc::new(tokio::sync::Semaphore::new(permits)))
    }

    pub(crate) fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        point();
        self.0.try_acquire().map(|permit| SemaphorePermit(Some(permit)))
    }

    pub(crate) async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        point();
        self.0.acquire().await.map(|permit| SemaphorePermit(Some(permit)))
    }

    pub(crate) async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        point();
        Arc::clone(&self.0).acquire_owned().await.map(|permit| OwnedSemaphorePermit(Some(permit)))
    }

    pub(crate) fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        point();
        Arc::clone(&self.0).try_acquire_owned().map(|permit| OwnedSemaphorePermit(Some(permit)))
    }

    pub(crate) fn add_permits(&self, permits: usize) {
        point();
        self.0.add_permits(permits);
    }

    pub(crate) fn close(&self) {
        point();
        self.0.close();
    }
}

impl SemaphorePermit<'_> {
    pub(crate) fn forget(mut self) {
        self.0.take().into_iter().for_each(tokio::sync::SemaphorePermit::forget);
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            point();
            drop(permit);
        }
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            point();
            drop(permit);
        }
    }
}
