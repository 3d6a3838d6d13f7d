//! Keeps genai from logging: it writes whole bodies of answers, which may repeat a key and what users say.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;

use tracing::dispatcher::{Dispatch, with_default};
use tracing::subscriber::NoSubscriber;

/// Calls a function whose traces nobody sees.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    // One for all, and a subscriber like others: with `Dispatch::none` what is traced here first would be silent elsewhere, too.
    static NOBODY: OnceLock<Dispatch> = OnceLock::new();
    with_default(NOBODY.get_or_init(|| Dispatch::new(NoSubscriber::default())), work)
}

/// Awaits what nobody sees the traces of.
pub(super) async fn awaited<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| quietly(|| future.as_mut().poll(context))).await
}
