//! Somebody who holds a lock for long holds up what needs it, and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::{AppendOptions, SessionService};
use serde_json::json;

use super::server::{Schema, client};
use crate::database::{append, create, get, key, setting};

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_session_holds_up_no_other() {
    let schema = Schema::new();
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
    // A batch waits for a second, and each of those that it held may wait for another.
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
