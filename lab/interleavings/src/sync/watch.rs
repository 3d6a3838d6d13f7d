//! The watch channel of `tokio`, with a point before each operation.
//!
//! While a reader looks at the value, senders wait. The scheduler has to know that, so this channel has a lock of its
//! own.

use std::sync::Arc;

use shuttle::sync::{RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::{PoisonError, point};

#[derive(Debug)]
pub(crate) struct Sender<T> {
    sender: watch::Sender<T>,
    lock: Arc<RwLock<()>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver<T> {
    receiver: watch::Receiver<T>,
    lock: Arc<RwLock<()>>,
}

/// A reference to the value. The value is released before the lock.
#[derive(Debug)]
pub(crate) struct Ref<'a, T> {
    value: watch::Ref<'a, T>,
    _lock: RwLockReadGuard<'a, ()>,
}

pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

fn read(lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { sender: watch::Sender::new(value), lock: Arc::new(RwLock::new(())) }
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        point();
        Receiver { receiver: self.sender.subscribe(), lock: Arc::clone(&self.lock) }
    }

    pub(crate) fn receiver_count(&self) -> usize {
        point();
        self.sender.receiver_count()
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        let lock = read(&self.lock);
        Ref { value: self.sender.borrow(), _lock: lock }
    }

    pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
        let _lock = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.sender.send_modify(change);
    }

    pub(crate) fn send_replace(&self, value: T) -> T {
        let _lock = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.sender.send_replace(value)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        point();
    }
}

impl<T> Receiver<T> {
    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        let lock = read(&self.lock);
        Ref { value: self.receiver.borrow(), _lock: lock }
    }

    pub(crate) fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let lock = read(&self.lock);
        Ref { value: self.receiver.borrow_and_update(), _lock: lock }
    }

    pub(crate) fn mark_unchanged(&mut self) {
        point();
        self.receiver.mark_unchanged();
    }

    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        point();
        self.receiver.changed().await
    }
}

impl<T> std::ops::Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
