//! A session of 100,000 events opens fast. The limits are generous, since tests are built without optimization.

use std::time::{Duration, Instant};

use scratchbook::state::StateDelta;
use scratchbook::{Content, CreateSessionConfig, Event};

use super::{S1, text};
use crate::support::TestClient;

#[tokio::test]
#[ignore = "long: a session of 100,000 events is made"]
async fn a_session_of_100_000_events_opens_in_300_ms_and_a_step_takes_50() {
    let folder = tempfile::tempdir().unwrap();
    let client = TestClient::over(&format!("sqlite://{}", folder.path().join("big.db").display())).await;
    let event = |n: u32| {
        let delta = StateDelta::new().with("step", n).unwrap().with(format!("key-{}", n % 500), n).unwrap();
        Event::new("clerk")
            .with_id(format!("e{n}"))
            .with_invocation_id(format!("run-{}", n / 10))
            .with_timestamp(1000.0 + f64::from(n))
            .with_content(Content::model(format!("message {n} of a long conversation, as people have them")))
            .with_state_delta(delta)
    };
    let key = scratchbook::SessionKey::new("shop", "alice", "s1").unwrap();
    let config = CreateSessionConfig::default().with_session_id("s1").with_events((1..=50_000).map(event).collect());
    client.store.sessions.create_session("shop", "alice", config).await.unwrap();
    for n in 50_001..=100_000 {
        client.store.sessions.append(&key, event(n), Default::default()).await.unwrap();
    }
    let mut slow = Vec::new();
    for (path, most) in [
        (S1.to_owned(), 300),
        (format!("{S1}?at=63123"), 300),
        (format!("{S1}?at=100&key=step"), 300),
        (format!("{S1}/state?at=63124"), 50),
        (format!("{S1}/state?at=99999"), 50),
        (format!("{S1}/state?at=3"), 50),
        (format!("{S1}/events?at=63124"), 300),
    ] {
        text(&client, &path).await;
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            text(&client, &path).await;
            best = best.min(start.elapsed());
        }
        println!("{path}: {best:?}");
        if best > Duration::from_millis(most) {
            slow.push((path, best));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}
