//! Keeps genai from logging: genai logs whole response bodies, which may repeat a key or the users' messages.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;

use tracing::dispatcher::{Dispatch, with_default};
use tracing::subscriber::NoSubscriber;

/// Calls a function without recording its traces.
pub(super) fn without_tracing<T>(work: impl FnOnce() -> T) -> T {
    // All calls share one dispatcher, which has a subscriber of its own. With `Dispatch::none`, traces that are first
    // used here would be disabled everywhere.
    static NOBODY: OnceLock<Dispatch> = OnceLock::new();
    with_default(NOBODY.get_or_init(|| Dispatch::new(NoSubscriber::default())), work)
}

/// Awaits a future without recording its traces.
pub(super) async fn await_without_tracing<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| without_tracing(|| future.as_mut().poll(context))).await
}
