//! Calls of a store in memory, without a runtime.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Returns the result of a store in memory, which never waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the store waits"),
    }
}
