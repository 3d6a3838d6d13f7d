//! Listing sessions.

use serde_json::{Map, json};

use super::support::{NAMES, TestApp, assert_refused, delta, ids, saying, state};
use scratchbook_core::content::Part;
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{CreateSessionConfig, ListSessionsConfig, ListSessionsResponse, StateOwner};
use scratchbook_core::store::Store;

/// Creates a session whose last event has this time.
async fn dated(test: &TestApp, user: &str, id: &str, time: f64) {
    let config = CreateSessionConfig::default().with_session_id(id);
    test.create_with(user, config, vec![saying("hello").with_timestamp(time)]).await;
}

async fn page(test: &TestApp, config: &ListSessionsConfig) -> ListSessionsResponse {
    test.sessions().list_sessions(&test.app, config).await.expect("list_sessions")
}

/// A list has all sessions of an app or all sessions of one user, and never sessions of others.
pub async fn sessions_are_listed_by_app_and_by_user(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    for (n, (user, id)) in [("alice", "1"), ("bob", "2"), ("alice", "3")].into_iter().enumerate() {
        dated(&test, user, id, n as f64).await;
    }
    dated(&elsewhere, "alice", "4", 1.0).await;
    assert_eq!(ids(&test.list(None).await), ["1", "2", "3"]);
    assert_eq!(ids(&test.list(Some("alice")).await), ["1", "3"]);
    assert_eq!(ids(&test.list(Some("bob")).await), ["2"]);
    assert_eq!(ids(&test.list(Some("carol")).await), [""; 0]);
    assert_eq!(ids(&test.list(Some("")).await), [""; 0]);
    assert_eq!(ids(&TestApp::new(store).list(None).await), [""; 0]);
}

/// The least recently updated session comes first; an append moves a session to the position of its new time.
pub async fn the_oldest_update_comes_first(store: &Store) {
    let test = TestApp::new(store);
    for (id, time) in [("b", 200.0), ("c", 300.0), ("a", 100.0)] {
        dated(&test, "alice", id, time).await;
    }
    assert_eq!(ids(&test.list(None).await), ["a", "b", "c"]);
    test.append(&test.key("alice", "a"), saying("later").with_timestamp(400.0)).await;
    assert_eq!(ids(&test.list(None).await), ["b", "c", "a"]);
    test.append(&test.key("alice", "c"), saying("from a clock that is behind").with_timestamp(50.0)).await;
    assert_eq!(ids(&test.list(None).await), ["c", "b", "a"]);
    assert_eq!(ids(&test.list(Some("alice")).await), ["c", "b", "a"]);
}

/// The order is by microseconds; sessions with equal times also have a fixed order.
pub async fn equal_times_have_an_order(store: &Store) {
    let test = TestApp::new(store);
    for id in ["5", "3", "9", "1", "7"] {
        dated(&test, "alice", id, 1_700_000_000.000_002).await;
    }
    dated(&test, "alice", "first", 1_700_000_000.000_001).await;
    let all = test.list(None).await;
    let once: Vec<String> = ids(&all).into_iter().map(str::to_owned).collect();
    assert_eq!((once[0].as_str(), once.len()), ("first", 6));
    for _ in 0..3 {
        assert_eq!(ids(&test.list(None).await), once);
    }
}

/// Pages of any size together have every session once, and the last page has no token.
pub async fn pages_hold_every_session_once(store: &Store) {
    let test = TestApp::new(store);
    for n in 0..13 {
        // Three sessions have the same time, so that pages end among equals.
        dated(&test, ["alice", "bob"][n % 2], &format!("s{n}"), (n / 3) as f64).await;
    }
    for user in [None, Some("alice"), Some("bob")] {
        let whole = test.list(user).await;
        for page_size in 1..=14 {
            let mut config = ListSessionsConfig::default().with_page_size(page_size);
            config.user_id = user.map(str::to_owned);
            let mut seen = Vec::new();
            loop {
                let ListSessionsResponse { sessions, next_page_token, .. } = page(&test, &config).await;
                assert!(sessions.len() <= page_size, "{} sessions in a page of {page_size}", sessions.len());
                assert!(sessions.len() == page_size || next_page_token.is_none(), "a short page with a token");
                seen.extend(sessions);
                assert!(seen.len() <= whole.len(), "pages of {page_size} come to no end");
                let Some(token) = next_page_token else { break };
                config = config.with_page_token(token);
            }
            assert_eq!(ids(&seen), ids(&whole), "pages of {page_size} for {user:?}");
        }
    }
}

/// A page starts after the last session of the previous page, even if that session was deleted meanwhile.
pub async fn a_page_token_outlives_its_session(store: &Store) {
    let test = TestApp::new(store);
    for (n, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
        dated(&test, "alice", id, n as f64).await;
    }
    let first = page(&test, &ListSessionsConfig::default().with_page_size(2)).await;
    assert_eq!(ids(&first.sessions), ["a", "b"]);
    test.sessions().delete_session(&test.key("alice", "b")).await.unwrap();
    let config = ListSessionsConfig::default().with_page_size(2).with_page_token(first.next_page_token.unwrap());
    assert_eq!(ids(&page(&test, &config).await.sessions), ["c", "d"]);
}

/// A page has 1 to 1,000 sessions, by default 100; other sizes are `InvalidArgument`.
pub async fn a_page_has_1_to_1000_sessions(store: &Store) {
    let test = TestApp::new(store);
    for n in 0..101 {
        dated(&test, "alice", &format!("{n:03}"), n as f64).await;
    }
    let first = page(&test, &ListSessionsConfig::default()).await;
    assert_eq!(first.sessions.len(), 100);
    assert!(first.next_page_token.is_some());
    assert_eq!(page(&test, &ListSessionsConfig::default().with_page_size(1000)).await.sessions.len(), 101);
    for bad in [0, 1001, usize::MAX] {
        let config = ListSessionsConfig::default().with_page_size(bad);
        let refused = store.sessions.list_sessions(&test.app, &config).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("a page size of {bad}"));
    }
}

/// A page token that no list has returned is `InvalidArgument`.
pub async fn a_bad_page_token_is_refused(store: &Store) {
    let test = TestApp::new(store);
    dated(&test, "alice", "a", 1.0).await;
    for bad in ["", "x", "nonsense!", "bnVsbA", "\0", "AAAA", "W10"] {
        let config = ListSessionsConfig::default().with_page_token(bad);
        let refused = store.sessions.list_sessions(&test.app, &config).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("the page token {bad:?}"));
    }
}

/// Listed sessions have their current merged state and no events.
pub async fn listed_sessions_hold_state_and_no_events(store: &Store) {
    let test = TestApp::new(store);
    let first = test.create("alice", json!({"a": 1, "user:b": 1})).await;
    test.create("bob", json!({"c": 1, "app:d": 1})).await;
    test.append(first.key(), super::support::changing(json!({"user:b": 2})).with_timestamp(1.5)).await;
    let listed = test.list(None).await;
    assert!(listed.iter().all(|session| session.events().is_empty()), "a list holds events");
    let states: Vec<_> = listed.iter().map(|s| (s.user_id(), state(s))).collect();
    let expected = [("alice", json!({"a": 1, "user:b": 2, "app:d": 1})), ("bob", json!({"c": 1, "app:d": 1}))];
    assert_eq!(states, expected);
    assert_eq!((listed[0].last_update_time(), listed[0].seq()), (1.5, 1));
}

/// Lists the app and its users, page by page.
async fn owners(test: &TestApp, page_size: usize) -> Vec<StateOwner> {
    // The store may contain other apps; this starts right before ours.
    let mut after = Some(StateOwner::app(&test.app[..test.app.len() - 1]).unwrap());
    let mut found = Vec::new();
    loop {
        let page = test.sessions().list_owners(after.as_ref(), page_size).await.expect("list_owners");
        assert!(page.len() <= page_size, "{} owners in a page of {page_size}", page.len());
        let Some(last) = page.last() else { return found };
        assert!(page.is_sorted() && after.as_ref() < page.first(), "{page:?} after {after:?}");
        if last.app_name() > test.app.as_str() {
            found.extend(page.into_iter().filter(|owner| owner.app_name() == test.app));
            return found;
        }
        after = Some(last.clone());
        found.extend(page.into_iter().filter(|owner| owner.app_name() == test.app));
    }
}

/// Every app is listed before its users, in byte order: owners of a session, state, or only an artifact.
pub async fn owners_are_listed_in_byte_order(store: &Store) {
    let test = TestApp::new(store);
    assert_eq!(owners(&test, 1000).await, []);
    test.sessions().put_state(&test.user("state"), delta(json!({"a": 1})), "test".into()).await.unwrap();
    store.artifacts.save_artifact(&test.key("artifact", "s"), "f", Part::text("x"), Map::new()).await.unwrap();
    for name in NAMES {
        dated(&test, name, "s", 1.0).await;
    }
    dated(&test, "", "s", 1.0).await;
    let mut expected: Vec<_> = NAMES.iter().copied().chain(["", "state", "artifact"]).collect();
    expected.sort_unstable();
    let expected: Vec<_> = [test.app()].into_iter().chain(expected.into_iter().map(|user| test.user(user))).collect();
    assert_eq!(owners(&test, 1000).await, expected);

    let other = TestApp::new(store);
    other.sessions().put_state(&other.app(), delta(json!({"a": 1})), "test".into()).await.unwrap();
    assert_eq!(owners(&other, 1000).await, [other.app()], "an app that has state and no users");
    test.sessions().delete_user(&test.app, "state").await.unwrap();
    assert!(!owners(&test, 1000).await.contains(&test.user("state")), "an erased user is listed");
}

/// Pages of owners of any size have each owner once.
pub async fn pages_hold_every_owner_once(store: &Store) {
    let test = TestApp::new(store);
    for user in ["a", "b", "b ", "c", "d"] {
        dated(&test, user, "s", 1.0).await;
    }
    let whole = owners(&test, 1000).await;
    assert_eq!(whole.len(), 6);
    for page_size in [1, 2, 3, 6] {
        assert_eq!(owners(&test, page_size).await, whole, "pages of {page_size}");
    }
    assert_eq!(test.sessions().list_owners(None, 0).await.unwrap(), []);
    assert_eq!(test.sessions().list_owners(None, 1).await.unwrap().len(), 1);
}
