//! Keys: their scopes, their names, and which names are valid.

use serde_json::{Map, Value, json};

use super::support::{NAMES, TestApp, assert_refused, changing, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::CreateSessionConfig;
use scratchbook_core::state::Scope;
use scratchbook_core::store::Store;

/// A key's prefix is its scope: no prefix for the session's, `user:` for the user's, `app:` for the app's.
pub async fn a_prefix_is_a_scope(store: &Store) {
    let test = TestApp::new(store);
    let first = test.create("alice", json!({})).await;
    test.set(first.key(), json!({"x": "session", "user:x": "user", "app:x": "app"})).await;
    let second = test.create("alice", json!({})).await;
    let other = test.create("bob", json!({})).await;
    let first = test.get(first.key()).await;
    assert_eq!(state(&first), json!({"x": "session", "user:x": "user", "app:x": "app"}));
    assert_eq!(state(&second), json!({"user:x": "user", "app:x": "app"}), "another session of the user");
    assert_eq!(state(&other), json!({"app:x": "app"}), "another user");
}

/// A `user:` key is never visible in another app, and neither is an `app:` key.
pub async fn no_key_crosses_an_app(store: &Store) {
    let (here, there) = (TestApp::new(store), TestApp::new(store));
    here.create("alice", json!({"x": 1, "user:x": 2, "app:x": 3})).await;
    let session = there.create("alice", json!({})).await;
    assert_eq!(state(&session), json!({}));
    assert_eq!(there.user_state("alice").await, json!({}));
    assert_eq!(there.app_state().await, json!({}));
}

/// Only `user:`, `app:` and `temp:` have a meaning; every other prefix is part of a session key's name.
pub async fn other_prefixes_are_session_keys(store: &Store) {
    let test = TestApp::new(store);
    let keys =
        ["weird:q", "User:x", "USER:x", "APP:x", " user:x", "user :x", "users:x", "session:x", "tmp:x", "user", ":"];
    let sent: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!(key))).collect();
    let session = test.create("alice", json!({})).await;
    test.set(session.key(), sent.clone().into()).await;
    assert_eq!(state(&test.get(session.key()).await), Value::from(sent));
    assert_eq!(test.user_state("alice").await, json!({}));
    assert_eq!(test.app_state().await, json!({}));
}

/// A store removes exactly one prefix from a key, and adds it again when the key is read.
pub async fn one_prefix_is_stripped(store: &Store) {
    let test = TestApp::new(store);
    let sent = json!({"user:temp:x": 1, "user:user:x": 2, "user:app:x": 3, "app:user:x": 4, "app:temp:x": 5});
    let session = test.create("alice", json!({})).await;
    test.set(session.key(), sent.clone()).await;
    assert_eq!(state(&test.get(session.key()).await), sent);
    assert_eq!(test.user_state("alice").await, json!({"temp:x": 1, "user:x": 2, "app:x": 3}));
    assert_eq!(test.app_state().await, json!({"user:x": 4, "temp:x": 5}));
}

/// The empty name is valid, in every scope.
pub async fn an_empty_name_is_a_name(store: &Store) {
    let test = TestApp::new(store);
    let sent = json!({"": 1, "user:": 2, "app:": 3});
    let session = test.create("alice", json!({})).await;
    test.set(session.key(), sent.clone()).await;
    assert_eq!(state(&test.get(session.key()).await), sent);
    assert_eq!(test.user_state("alice").await, json!({"": 2}));
    assert_eq!(test.app_state().await, json!({"": 3}));
    let created = test.create("bob", json!({"": 4, "user:": 5, "app:": 6})).await;
    assert_eq!(state(&created), json!({"": 4, "user:": 5, "app:": 6}));
}

/// Keys are compared byte by byte: keys that differ in case, accents or trailing spaces are different.
pub async fn keys_are_compared_byte_by_byte(store: &Store) {
    let test = TestApp::new(store);
    let names = NAMES.iter().copied().chain([".", "..", "cart ", " cart", "cart\n", "cart\t", "cart\u{a0}", "\u{7f}"]);
    let mut sent = Map::new();
    for name in names {
        for scope in [Scope::Session, Scope::User, Scope::App] {
            let key = scope.key(name).into_owned();
            sent.insert(key.clone(), json!(key));
        }
    }
    let session = test.create("alice", json!({})).await;
    test.set(session.key(), sent.clone().into()).await;
    assert_eq!(state(&test.get(session.key()).await), Value::from(sent.clone()), "appended");
    let created = TestApp::new(store).create("alice", sent.clone().into()).await;
    assert_eq!(state(&created), Value::from(sent), "created with");
}

/// A key has up to 1,024 bytes, prefix included, in every scope; one more is `InvalidArgument`.
pub async fn keys_have_at_most_1024_bytes(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for scope in [Scope::Session, Scope::User, Scope::App] {
        for (what, character) in [("letters", 'k'), ("emoji", '\u{1f511}')] {
            let room = 1024 - scope.prefix().len();
            let name = character.to_string().repeat(room / character.len_utf8());
            let key = scope.key(&(name.clone() + &"x".repeat(room - name.len()))).into_owned();
            assert_eq!(key.len(), 1024);
            test.set(session.key(), json!({ key.as_str(): what })).await;
            let read = test.get(session.key()).await;
            assert_eq!(read.state().get(&key), Some(&json!(what)), "a key of 1,024 bytes of {what} in {scope:?}");

            let config = CreateSessionConfig::default().with_state(json!({ format!("{key}x"): 1 }));
            let refused = test.try_create("alice", config).await;
            assert_refused(refused, ErrorKind::InvalidArgument, "a key of 1,025 bytes");
        }
    }
    let name = "n".repeat(1024 - "user:".len());
    let put = |name: &str| scratchbook_core::state::StateDelta::new().with(name, 1).unwrap();
    test.sessions()
        .put_state(&test.user("alice"), put(&name), "test".into())
        .await
        .expect("a name with its prefix fits");
    let refused = test.sessions().put_state(&test.user("alice"), put(&format!("{name}n")), "test".into()).await;
    assert_refused(refused, ErrorKind::InvalidArgument, "a name that with its prefix has 1,025 bytes");
}

/// A key with U+0000 is `InvalidArgument`; other control characters are a normal part of a name.
pub async fn keys_hold_no_nul(store: &Store) {
    let test = TestApp::new(store);
    for key in ["\0", "a\0b", "user:\0", "app:a\0"] {
        let config = CreateSessionConfig::default().with_state(json!({ key: 1 }));
        assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "a key with U+0000");
    }
    let sent = json!({"a\nb": 1, "a\u{1}b": 2, "user:\u{1b}": 3, "app:\r": 4});
    assert_eq!(state(&test.create("alice", sent.clone()).await), sent);
}

/// No `temp:` key is stored, in state or in events, however it was sent.
pub async fn temp_keys_leave_no_trace(store: &Store) {
    let test = TestApp::new(store);
    let temp = json!({"temp:": 0, "temp:a": "TRACE", "temp:user:b": "TRACE", "kept": 1});
    let early = changing(temp.clone()).with_id("early");
    let config = CreateSessionConfig::default().with_state(temp.clone()).with_events(vec![early]);
    let created = test.create_as("alice", config).await;
    let committed = test.set(created.key(), temp.clone()).await;
    let only_temp = test.set(created.key(), json!({"temp:a": "TRACE"})).await;
    let mut removal = scratchbook_core::state::StateDelta::new();
    removal.remove("temp:a").unwrap();
    test.append(created.key(), Event::new("agent").with_state_delta(removal)).await;

    for event in [&committed.event, &only_temp.event] {
        let json = serde_json::to_string(event.as_ref()).unwrap();
        assert!(!json.contains("temp:"), "the stored event, as it is given back: {json}");
    }
    let read = test.get(created.key()).await;
    let listed = test.list(None).await.remove(0);
    for (session, what) in [(created, "created"), (read, "read"), (listed, "listed")] {
        assert_eq!(state(&session), json!({"kept": 1}), "the session as it is {what}");
        let json = serde_json::to_string(&session).unwrap();
        assert!(!json.contains("TRACE") && !json.contains("temp:"), "the session as it is {what}: {json}");
    }
    assert_eq!(test.user_state("alice").await, json!({}));
    assert_eq!(test.app_state().await, json!({}));
}
