//! The promises of a store, kept by our client over the endpoint.

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt, StreamExt, stream};
use scratchbook::conformance::{Capability, PROMISES, Promise, lacks};

use super::over_memory;

/// What the API cannot do, or does in another way. A promise that needs none of it is kept.
fn lacking() -> Vec<Capability> {
    Capability::all().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_client_keeps_every_promise_that_the_api_can_keep() {
    let (store, lacking) = (over_memory().await, lacking());
    let is_kept =
        |promise: &&Promise| promise.theme != "closing" && promise.needs().iter().all(|n| !lacking.contains(n));
    let kept: Vec<_> = PROMISES.iter().filter(is_kept).collect();
    assert!(kept.len() >= 89, "{} promises", kept.len());
    let run = |promise: &'static Promise| {
        let kept = AssertUnwindSafe((promise.run)(store.clone())).catch_unwind();
        async move { kept.await.is_err().then(|| format!("{}::{}", promise.theme, promise.name)) }
    };
    let broken: Vec<_> =
        stream::iter(kept.into_iter().map(run)).buffer_unordered(8).filter_map(|b| async { b }).collect().await;
    assert_eq!(broken, [""; 0], "the reasons are above");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_cannot_do_is_said() {
    let store = over_memory().await;
    for capability in lacking() {
        lacks(&store, capability).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_is_closed_like_any_store() {
    for promise in PROMISES.iter().filter(|promise| promise.name == "closing_finishes_what_was_accepted") {
        (promise.run)(over_memory().await).await;
    }
}
