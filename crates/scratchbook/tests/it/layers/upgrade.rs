//! Retries of events whose encrypted form is different now: an older version encrypted them, or a fork copied them.

use std::sync::Arc;

use scratchbook::layer::{Keyring, WithEncryption};
use scratchbook::session::{ChangeQuery, Committed, ForkConfig, Outcome};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, InMemorySessionService, SessionKey, SessionService,
    StateDelta,
};
use serde_json::json;

use super::{append, delta, memory, read};

type UpgradedStore = WithEncryption<Arc<InMemorySessionService>>;

/// Events that the previous version sent to its store, encrypted with the key `old` for app/alice. Their salt was only
/// the event's id, and a time was encrypted only if it was sent. The lines are `timed()`, `timeless()` and `counted()`
/// below.
const BEFORE: &str = include_str!("sealed_before.jsonl");

fn timed() -> Event {
    timeless().with_id("timed").with_timestamp(1_700_000_000.5)
}

fn timeless() -> Event {
    let same = delta(json!({"k": 1, "user:k": [true]}));
    Event::new("agent").with_id("timeless").with_content("hello").with_state_delta(same)
}

fn counted() -> Event {
    Event::new("agent").with_id("counted").with_state_delta(StateDelta::new().with_increment("n", 1).unwrap())
}

fn sealed(store: &Arc<InMemorySessionService>) -> UpgradedStore {
    WithEncryption::new(Arc::clone(store), Keyring::new("old", [3; 32]).unwrap())
}

/// Returns a store as the previous version has left it.
async fn left_by_the_version_before() -> (Arc<InMemorySessionService>, SessionKey) {
    let store = memory();
    let config = CreateSessionConfig::default().with_session_id("s");
    let key = store.create_session("app", "alice", config).await.unwrap().key().clone();
    for line in BEFORE.lines() {
        append(&store, &key, Event::from_json(line).unwrap()).await;
    }
    (store, key)
}

async fn assert_known(service: &UpgradedStore, key: &SessionKey, event: Event, stored: &Event) -> Committed {
    let again = append(service, key, event).await;
    assert_eq!((again.outcome, &*again.event), (Outcome::Replayed, stored));
    again
}

#[tokio::test]
async fn what_the_version_before_sealed_is_read() {
    let (store, key) = left_by_the_version_before().await;
    let session = read(&sealed(&store), &key).await;
    assert_eq!(json!(session.state()), json!({"k": 1, "n": 1, "user:k": [true]}));
    let events: Vec<_> = session.events().iter().collect();
    let texts = events.iter().filter_map(|event| Some(event.content.as_ref()?.text()));
    assert_eq!(texts.collect::<Vec<_>>(), ["hello", "hello"]);
    assert_eq!(events[0].timestamp, Some(1_700_000_000.5));
    assert!(events.iter().all(|event| event.timestamp.is_some() && event.extra().is_empty()));
}

/// The retry is also recognized after many other events, and its answer has the position of the user's log.
#[tokio::test]
async fn a_retry_after_the_upgrade_is_known() {
    let (store, key) = left_by_the_version_before().await;
    let service = sealed(&store);
    for n in 0..150 {
        append(&service, &key, Event::new("agent").with_content(n.to_string())).await;
    }
    let before = read(&service, &key).await;
    let log = service.list_state_changes(&key.user(), &ChangeQuery::After(0), 10).await.unwrap();
    for (n, event) in [timed(), timeless(), counted()].into_iter().enumerate() {
        let again = assert_known(&service, &key, event, before.events().get(n).unwrap()).await;
        assert_eq!(again.logs.user, log.get(n).map_or(0, |change| change.position));
    }
    for other in [timed().with_content("other"), timeless().with_timestamp(1.0), timed().with_timestamp(1.0)] {
        let error = service.append(&key, other, AppendOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }
    assert_eq!(json!(read(&service, &key).await), json!(before), "nothing was stored twice");
}

/// A fork's events are encrypted for the session that they were copied from, by this version or the previous one.
#[tokio::test]
async fn a_retry_of_a_forked_event_is_known() {
    let (store, key) = left_by_the_version_before().await;
    let service = sealed(&store);
    let later = || timeless().with_id("later");
    let at = || timed().with_id("at");
    append(&service, &key, later()).await;
    append(&service, &key, at()).await;
    let fork = service.fork_session(&key, ForkConfig::default()).await.unwrap();
    let fork = service.fork_session(fork.key(), ForkConfig::default()).await.unwrap();
    let shown = read(&service, fork.key()).await;
    assert_eq!(json!(shown.events()), json!(read(&service, &key).await.events()), "the fork's copies can be read");
    for (n, event) in [timed(), timeless(), counted(), later(), at()].into_iter().enumerate() {
        assert_known(&service, fork.key(), event, shown.events().get(n).unwrap()).await;
    }
    let error = service.append(fork.key(), at().with_content("other"), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(json!(read(&service, fork.key()).await), json!(shown));
}

/// A retry without a time is recognized by the hash of what was sent, because its encrypted form has another time.
#[tokio::test]
async fn a_retry_without_a_time_is_known_however_late() {
    let store = memory();
    let service = sealed(&store);
    let session = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let first = append(&service, session.key(), timeless()).await;
    for n in 0..150 {
        append(&service, session.key(), Event::new("agent").with_content(n.to_string())).await;
    }
    let again = assert_known(&service, session.key(), timeless(), &first.event).await;
    assert_eq!(again.logs.user, first.logs.user);
}

/// An event that a creation contains twice is stored once, with and without a time.
#[tokio::test]
async fn an_event_that_a_creation_names_twice_is_one() {
    let service = sealed(&memory());
    let config = CreateSessionConfig::default().with_events(vec![timeless(), timed(), timeless(), timed()]);
    let session = service.create_session("app", "alice", config).await.unwrap();
    let ids: Vec<_> = read(&service, session.key()).await.events().iter().map(|event| event.id.clone()).collect();
    assert_eq!(ids, ["timeless", "timed"]);
}
