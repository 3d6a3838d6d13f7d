//! The feed while transactions are open, and between processes.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use scratchbook::session::{FeedCommit, FeedCursor, FeedStart, StateOwner, Watched};
use scratchbook::store::MySqlSessionService;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, SessionKey, SessionService, SessionServiceExt, StateDelta,
};

use super::server::{TestDatabase, connection};

fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "alice", session).unwrap()
}

async fn create(service: &MySqlSessionService, session: &str) {
    service.create_session("app", "alice", CreateSessionConfig::default().with_session_id(session)).await.unwrap();
}

async fn append(service: &MySqlSessionService, session: &str, name: &str) {
    let event = Event::new("agent").with_state_delta(StateDelta::new().with(name, 1).unwrap());
    service.append(&key(session), event, AppendOptions::default()).await.unwrap();
}

/// Returns the sessions and numbers of the events after a place in the feed.
async fn told(service: &MySqlSessionService, start: FeedStart) -> (Vec<(String, u64)>, FeedCursor) {
    let app = StateOwner::app("app").unwrap();
    let page = service.list_feed(&app, &start, 1000).await.unwrap();
    let events = page.entries.into_iter().map(|entry| match entry.commit {
        FeedCommit::Event { session, event } => (session.session_id().to_owned(), event.seq.unwrap()),
        other => panic!("{other:?}"),
    });
    (events.collect(), page.cursor)
}

fn events(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(session, seq)| ((*session).to_owned(), *seq)).collect()
}

/// A commit that has written its rows and is still open delays nobody, and is reported once, when it is complete.
#[tokio::test]
async fn a_commit_that_takes_long_is_told_when_it_is_over() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    for session in ["slow", "fast"] {
        create(&service, session).await;
    }
    append(&service, "slow", "a").await;
    // This does the same as the procedure, except for the commit.
    let mut slow = connection(&database.uri()).await;
    slow.query_drop(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
         START TRANSACTION;
         UPDATE sessions SET seq = 2 WHERE app_name = 'app' AND user_id = 'alice' AND id = 'slow';
         INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event,
             user_position, app_position)
         SELECT app_name, user_id, session_id, 2, 'late', hash, '', author, timestamp,
             JSON_REPLACE(event, '$.id', 'late'), user_position, app_position
         FROM events WHERE session_id = 'slow' AND seq = 1",
    )
    .await
    .unwrap();
    append(&service, "fast", "b").await;
    append(&service, "fast", "user:b").await;
    let (first, cursor) = told(&service, FeedStart::Beginning).await;
    assert_eq!(first.len(), 3, "{first:?}");
    assert!(first.contains(&("slow".to_owned(), 1)));
    let (none, cursor) = told(&service, FeedStart::After(cursor)).await;
    assert_eq!(none, []);
    let (_, now) = told(&service, FeedStart::Now).await;
    slow.query_drop("COMMIT").await.unwrap();
    append(&service, "slow", "c").await;
    append(&service, "fast", "d").await;
    for start in [cursor, now] {
        let (rest, end) = told(&service, FeedStart::After(start)).await;
        let of = |session: &str| rest.iter().filter(|(of, _)| of == session).cloned().collect::<Vec<_>>();
        assert_eq!(of("slow"), events(&[("slow", 2), ("slow", 3)]));
        assert_eq!(of("fast"), events(&[("fast", 3)]));
        assert_eq!(told(&service, FeedStart::After(end)).await.0, []);
    }
}

/// A feed that nobody has read for a long time is numbered in parts, and can be read from beginning to end.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_feed_is_numbered_in_parts() {
    const SESSIONS: u64 = 30;
    const EACH: u64 = 90;
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    for session in 0..SESSIONS {
        let events = (0..EACH).map(|n| {
            let name = if n % 7 == 0 { "app:n" } else { "n" };
            Event::new("agent").with_state_delta(StateDelta::new().with(name, n).unwrap())
        });
        let config = CreateSessionConfig::default().with_session_id(format!("s{session}"));
        let config = config.with_events(events.collect());
        service.create_session("app", &format!("user{}", session % 4), config).await.unwrap();
    }
    let (mut start, mut seen) = (FeedStart::Beginning, std::collections::HashMap::<String, u64>::new());
    loop {
        let (page, cursor) = told(&service, start).await;
        for (session, seq) in &page {
            let last = seen.entry(session.clone()).or_default();
            *last += 1;
            assert_eq!(seq, last, "{session}");
        }
        if page.is_empty() {
            break;
        }
        start = FeedStart::After(cursor);
    }
    assert_eq!(seen.len() as u64, SESSIONS);
    assert!(seen.values().all(|last| *last == EACH));
    let alone = StateOwner::user("app", "user3").unwrap();
    let page = service.list_feed(&alone, &FeedStart::Beginning, 1000).await.unwrap();
    assert_eq!(page.entries.len() as u64, EACH * (SESSIONS / 4));
}

/// A follower of a feed receives another process's commits soon; a follower of a session, within about a second.
#[tokio::test(flavor = "multi_thread")]
async fn commits_of_another_process_are_heard_of() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    let other = MySqlSessionService::connect(&database.uri()).await.unwrap();
    create(&service, "s").await;
    for (watched, most) in [(Watched::app("app").unwrap(), 1000), (Watched::session(key("s")), 2500)] {
        let mut watch = service.watch(watched, FeedStart::Now).await.unwrap();
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            append(&other, "s", "n").await;
            let begun = Instant::now();
            watch.next().await.unwrap();
            let waited = begun.elapsed();
            println!("heard of after {waited:?}");
            assert!(waited < Duration::from_millis(most), "{waited:?}");
        }
    }
}

/// A follower of one user receives another process's commit soon, whatever other users of the app have written before.
#[tokio::test(flavor = "multi_thread")]
async fn commits_of_others_in_the_app_hide_none_of_those_that_are_followed() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    let other = MySqlSessionService::connect(&database.uri()).await.unwrap();
    let make = async |user: &str| {
        let config = CreateSessionConfig::default().with_session_id("s");
        service.create_session("app", user, config).await.unwrap().key().clone()
    };
    let (unfollowed, followed) = (make("unfollowed").await, make("followed").await);
    let event = || Event::new("agent").with_state_delta(StateDelta::new().with("n", 1).unwrap());
    let mut watch = service.watch(followed.user().into(), FeedStart::Now).await.unwrap();
    for _ in 0..3 {
        let heard = async {
            tokio::time::timeout(Duration::from_secs(10), watch.next()).await.expect("it is heard of").unwrap();
            Instant::now()
        };
        let written = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            other.append(&unfollowed, event(), AppendOptions::default()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            other.append(&followed, event(), AppendOptions::default()).await.unwrap();
            Instant::now()
        };
        let (heard, written) = tokio::join!(heard, written);
        let waited = heard.saturating_duration_since(written);
        println!("heard of after {waited:?}");
        assert!(waited < Duration::from_millis(1500), "{waited:?}");
    }
}
