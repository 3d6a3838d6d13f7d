//! The promises of a store, kept by our client over the endpoint.

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt, StreamExt, stream};
use scratchbook::conformance::{PROMISES, Promise};

use super::over_memory;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_client_keeps_every_promise_that_the_api_can_keep() {
    let store = over_memory().await;
    let expected = PROMISES.iter().filter(|promise| promise.theme != "closing" && promise.is_expected_of(&store));
    let expected: Vec<_> = expected.collect();
    assert!(expected.len() >= 90, "{} promises", expected.len());
    assert!(expected.iter().any(|promise| promise.name == "what_a_store_lacks_is_refused"));
    let run = |promise: &'static Promise| {
        let kept = AssertUnwindSafe((promise.run)(store.clone())).catch_unwind();
        async move { kept.await.is_err().then(|| format!("{}::{}", promise.theme, promise.name)) }
    };
    let broken: Vec<_> =
        stream::iter(expected.into_iter().map(run)).buffer_unordered(8).filter_map(|b| async { b }).collect().await;
    assert_eq!(broken, [""; 0], "the reasons are above");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_is_closed_like_any_store() {
    for promise in PROMISES.iter().filter(|promise| promise.theme == "closing") {
        (promise.run)(over_memory().await).await;
    }
}
