//! A lock that is held for long delays only the writes that need it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::{AppendOptions, SessionService};
use serde_json::json;

use super::server::{TestSchema, client};
use crate::database::{append, create, get, key, setting};

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_session_holds_up_no_other() {
    let schema = TestSchema::new();
    let service = Arc::new(schema.open().await);
    create(service.as_ref(), "held", json!({})).await;
    for n in 0..20 {
        create(service.as_ref(), &format!("free{n}"), json!({})).await;
    }
    let other = client(schema.server()).await;
    let lock = format!("BEGIN; SELECT 1 FROM {}.sessions WHERE id = 'held' FOR UPDATE", schema.name());
    other.batch_execute(&lock).await.unwrap();

    let start = Instant::now();
    let held: Vec<_> = (0..40)
        .map(|n| {
            let (service, event) = (Arc::clone(&service), setting("n", n));
            tokio::spawn(async move { service.append(&key("held"), event, AppendOptions::default()).await })
        })
        .collect();
    for round in 0..3 {
        let free = (0..20).map(|n| {
            let service = Arc::clone(&service);
            tokio::spawn(async move { append(service.as_ref(), &key(&format!("free{n}")), setting("n", round)).await })
        });
        for free in free.collect::<Vec<_>>() {
            free.await.unwrap().unwrap();
        }
        assert!(get(service.as_ref(), &key("held")).await.is_some());
    }
    let took = start.elapsed();
    // A batch waits for a second, and each of its delayed appends may wait for another second.
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(held.iter().all(|append| !append.is_finished()), "an append has overtaken a lock");
    assert_eq!(get(service.as_ref(), &key("held")).await.unwrap().seq(), 0);

    other.batch_execute("COMMIT").await.unwrap();
    for append in held {
        append.await.unwrap().unwrap();
    }
    let session = get(service.as_ref(), &key("held")).await.unwrap();
    assert_eq!((session.seq(), session.events().len()), (40, 40));
}

/// The free append is in the same batch, because on one thread all appends are queued before the first is written.
#[tokio::test]
async fn many_appends_to_a_locked_session_cost_the_others_of_their_batch_one_wait() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "held", json!({})).await;
    create(&service, "free", json!({})).await;
    let other = client(schema.server()).await;
    let lock = format!("BEGIN; SELECT 1 FROM {}.sessions WHERE id = 'held' FOR UPDATE", schema.name());
    other.batch_execute(&lock).await.unwrap();

    let (held_key, free_key) = (key("held"), key("free"));
    let held = futures_util::future::join_all((0..20).map(|n| append(&service, &held_key, setting("n", n))));
    let free = async {
        let start = Instant::now();
        append(&service, &free_key, setting("n", 1)).await.unwrap();
        let took = start.elapsed();
        other.batch_execute("COMMIT").await.unwrap();
        took
    };
    let (held, took) = tokio::join!(held, free);
    // This allows one wait of the batch, one wait of the first delayed append, and some more time for a busy machine.
    assert!(took < Duration::from_secs(8), "{took:?}");
    let mut numbers: Vec<_> = held.into_iter().map(Result::unwrap).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
}
