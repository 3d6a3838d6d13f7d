//! Point-in-time state, and the writers of keys.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{TestApp, assert_refused, changing, delta, removal};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, GetSessionConfig, SessionKey};
use scratchbook_core::store::Store;

/// Appends events to a session, with changes of others in between, and returns the state as read after each of them.
async fn shown_as_it_went(test: &TestApp) -> (SessionKey, Vec<Value>) {
    let config = CreateSessionConfig::default().with_state(json!({"a": 1, "user:u": 1, "app:p": 1}));
    let key = test.create_as("alice", config).await.key().clone();
    let other = test.create("alice", json!({})).await;
    let mut shown = vec![test.state(&key).await];
    for n in 1..=12 {
        let event = match n % 6 {
            0 => Event::new("agent").with_state_delta(removal(&["a", "user:u"])),
            1 => changing(json!({"a": n, "b": {"deep": [n]}})),
            2 => changing(json!({"user:u": n, "app:q": n})),
            3 => Event::new("user"),
            4 => changing(json!({"user:v": null, "a": "\u{0}"})),
            _ => Event::new("agent").with_state_delta(removal(&["b", "app:p", "never"])),
        };
        test.append(&key, event).await;
        shown.push(test.state(&key).await);
        // Changes of others between two events are included from the later event on.
        test.append(other.key(), changing(json!({"user:other": n, "own": n}))).await;
        test.sessions().put_state(&test.app(), delta(json!({"put": n})), "admin".into()).await.unwrap();
    }
    (key, shown)
}

/// The state at an event is the state shown when that event was the last: keys of the session, the user and the app.
pub async fn the_state_at_an_event_is_what_was_shown_then(store: &Store) {
    let test = TestApp::new(store);
    let (key, shown) = shown_as_it_went(&test).await;
    for (seq, shown) in shown.iter().enumerate() {
        let state = test.sessions().get_state_at(&key, seq as u64).await.unwrap();
        assert_eq!(&json!(state), shown, "at event {seq}");
    }
}

/// Point-in-time state is also exact in a session with enough events for a store to keep checkpoints.
pub async fn the_state_at_an_event_of_a_long_session(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"n": 0, "first": true})).await.key().clone();
    let events = (1..=1100).map(|n| match n % 100 {
        50 => {
            let mut delta = delta(json!({"n": n}));
            delta.remove("hundred").expect("a removal");
            Event::new("agent").with_state_delta(delta)
        }
        0 => changing(json!({"n": n, "hundred": n})),
        _ => changing(json!({"n": n})),
    });
    for event in events {
        test.append(&key, event).await;
    }
    let expected = |n: u64| match (n, n % 100) {
        (0..100, _) | (_, 50..) => json!({"n": n, "first": true}),
        _ => json!({"n": n, "first": true, "hundred": n / 100 * 100}),
    };
    for n in [0, 1, 99, 100, 149, 150, 255, 256, 511, 512, 513, 600, 1023, 1024, 1025, 1099, 1100] {
        let state = test.sessions().get_state_at(&key, n).await.unwrap();
        assert_eq!(json!(state), expected(n), "at event {n}");
    }
}

/// Reading the state at an event is `NotFound` if the event or the session does not exist.
pub async fn the_state_at_an_event_that_is_not_there_is_not_found(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"a": 1})).await.key().clone();
    test.set(&key, json!({"a": 2})).await;
    for seq in [2, u64::MAX] {
        let error = test.sessions().get_state_at(&key, seq).await;
        assert_refused(error, ErrorKind::NotFound, &format!("event {seq} of one"));
    }
    let missing = test.key("alice", "missing");
    assert_refused(test.sessions().get_state_at(&missing, 0).await, ErrorKind::NotFound, "a missing session");
    assert_refused(test.sessions().blame(&missing).await, ErrorKind::NotFound, "blame in a missing session");
}

/// A session created again with the same id only has states of its own events.
pub async fn a_session_made_again_has_no_earlier_states(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let key = test.create_as("alice", config().with_state(json!({"life": 1}))).await.key().clone();
    for n in 0..20 {
        test.set(&key, json!({"n": n})).await;
    }
    test.sessions().delete_session(&key).await.unwrap();
    test.create_as("alice", config().with_state(json!({"life": 2}))).await;
    test.set(&key, json!({"m": 1})).await;
    let state = test.sessions().get_state_at(&key, 0).await.unwrap();
    assert_eq!(json!(state), json!({"life": 2}));
    assert_refused(test.sessions().get_state_at(&key, 2).await, ErrorKind::NotFound, "of the earlier life");
}

/// Each key of the merged state has its writer: session, number, event, author, invocation, time.
pub async fn blame_names_the_writer_of_each_key(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_state(json!({"made": 1, "gone": 1, "user:made": 1}));
    let key = test.create_as("alice", config).await.key().clone();
    let other = test.create("bob", json!({})).await.key().clone();
    let event = changing(json!({"a": 1, "user:u": 1, "app:p": 1})).with_id("e1").with_invocation_id("i1");
    test.append(&key, event.with_timestamp(1_700_000_000.25)).await;
    test.append(&key, Event::new("tidy").with_state_delta(removal(&["gone"]))).await;
    test.append(&other, changing(json!({"app:q": 1})).with_id("e2").with_invocation_id("i2")).await;
    test.sessions().put_state(&test.user("alice"), delta(json!({"put": 1})), "admin".into()).await.unwrap();
    let blame = test.sessions().blame(&key).await.unwrap();
    let keys: Vec<_> = blame.keys().map(String::as_str).collect();
    assert_eq!(keys, ["a", "app:p", "app:q", "made", "user:made", "user:put", "user:u"]);
    let of = |session: &SessionKey| Some((session.user_id().to_owned(), session.session_id().to_owned()));
    for name in ["a", "user:u", "app:p"] {
        let writer = &blame[name];
        assert_eq!(writer.session, of(&key), "{name}");
        let told = (writer.seq, writer.event_id.as_str(), writer.author.as_str(), writer.invocation_id.as_str());
        assert_eq!(told, (1, "e1", "agent", "i1"), "{name}");
        assert_eq!(writer.time, 1_700_000_000.25, "{name}");
    }
    let of_other = &blame["app:q"];
    assert_eq!(
        (of_other.session.clone(), of_other.event_id.as_str(), of_other.invocation_id.as_str()),
        (of(&other), "e2", "i2")
    );
    for name in ["made", "user:made"] {
        assert_eq!(
            (blame[name].session.clone(), blame[name].seq, blame[name].event_id.as_str()),
            (of(&key), 0, ""),
            "{name}"
        );
    }
    assert_eq!((blame["user:put"].session.clone(), blame["user:put"].author.as_str()), (None, "admin"));
}

/// The changes to one key of a user or an app are listed in pages, the latest change first.
pub async fn the_changes_of_one_key_are_listed(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"user:k": 0, "app:k": "app"})).await.key().clone();
    for n in 1..=5 {
        test.set(&key, json!({"user:k": n, "user:other": n})).await;
    }
    test.append(&key, Event::new("agent").with_state_delta(removal(&["user:k"]))).await;
    let owner = test.user("alice");
    let all = test.sessions().list_state_changes(&owner, &ChangeQuery::of_key("k", u64::MAX), 100).await.unwrap();
    let values: Vec<_> = all.iter().map(|change| change.value.clone()).collect();
    let expected = [None, Some(5), Some(4), Some(3), Some(2), Some(1), Some(0)];
    assert_eq!(values, expected.map(|n| n.map(|n| json!(n))));
    assert!(all.iter().all(|change| change.name == "k"));
    let (mut paged, mut before) = (Vec::new(), u64::MAX);
    loop {
        let page = test.sessions().list_state_changes(&owner, &ChangeQuery::of_key("k", before), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = last.position;
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let log = test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    let mut of_key: Vec<_> = log.into_iter().filter(|change| change.name == "k").collect();
    of_key.reverse();
    assert_eq!(of_key, all, "as the log has it");
    assert_eq!(
        test.sessions().list_state_changes(&owner, &ChangeQuery::of_key("never", u64::MAX), 9).await.unwrap(),
        []
    );
}

/// A user's or an app's state is listed in byte order, by prefix, in pages that have every key once.
pub async fn shared_state_is_listed_in_pages(store: &Store) {
    let test = TestApp::new(store);
    let names: BTreeMap<_, _> = super::support::NAMES.iter().map(|name| ((*name).to_owned(), json!(name))).collect();
    let owner = test.user("alice");
    let values = Value::from_iter(names.clone());
    test.sessions().put_state(&owner, delta(values), "admin".into()).await.unwrap();
    test.sessions().put_state(&owner, delta(json!({"zz": 1, "\u{10ffff}": 1})), "admin".into()).await.unwrap();
    test.sessions().put_state(&owner, removal(&["zz", "\u{10ffff}"]), "admin".into()).await.unwrap();
    let page = async |config| test.sessions().list_state(&owner, &config).await.unwrap();
    let config = scratchbook_core::session::ListStateConfig::default;
    for size in [1, 3, names.len(), 1000] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let mut config = config().with_page_size(size);
            config.after = after;
            let page = page(config).await;
            seen.extend(page.values);
            after = page.next;
            if after.is_none() {
                break;
            }
            assert!(seen.len() <= names.len(), "a key came twice");
        }
        assert_eq!(seen, names.clone().into_iter().collect::<Vec<_>>(), "pages of {size}");
    }
    let of_prefix = page(config().with_prefix("100")).await;
    assert_eq!(of_prefix.values.keys().collect::<Vec<_>>(), ["100%", "1000", "100_"]);
    let rest = page(config().with_prefix("100").with_after("1000")).await;
    assert_eq!(rest.values.keys().collect::<Vec<_>>(), ["100_"]);
    assert_eq!(page(config().with_prefix("10").with_after("2")).await.values.len(), 0);
    assert_eq!(page(config().with_prefix("1").with_after("0")).await.values.len(), 4);
    for size in [0, 1001] {
        let refused = test.sessions().list_state(&owner, &config().with_page_size(size)).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("a page of {size}"));
    }
    assert_eq!(test.sessions().list_state(&test.user("nobody"), &config()).await.unwrap().values.len(), 0);
}

/// The state at the last event equals the state of the session as read now.
pub async fn the_state_at_the_last_event_is_the_state(store: &Store) {
    let test = TestApp::new(store);
    let (key, _) = shown_as_it_went(&test).await;
    let other = test.create("carol", json!({"app:late": 1})).await;
    test.set(&key, json!({"last": true})).await;
    let session = test.read(&key, GetSessionConfig::state_only()).await;
    let state = test.sessions().get_state_at(&key, session.seq()).await.unwrap();
    assert_eq!(json!(state), json!(session.state()));
    test.sessions().delete_session(other.key()).await.unwrap();
}
