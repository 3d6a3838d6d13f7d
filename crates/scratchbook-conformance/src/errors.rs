//! Errors: the right kind, and a message that names the invalid value and the reason.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying};
use scratchbook_core::error::{Error, ErrorKind};
use scratchbook_core::session::{CreateSessionConfig, GetSessionConfig, ListSessionsConfig};
use scratchbook_core::state::REMOVED;
use scratchbook_core::store::Store;

#[track_caller]
fn assert_says(error: &Error, words: &[&str]) {
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "the message is to say {word:?}: {message}");
    }
    assert!(!message.ends_with('.'), "a message has no full stop: {message}");
    assert!(!error.is_retryable(), "trying again will not help: {message}");
}

/// A check whether the store accepts writes succeeds and changes nothing that can be read.
pub async fn check_whether_writes_work_changes_nothing_that_is_read(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:b": 2, "app:c": 3})).await;
    for _ in 0..2 {
        store.sessions.check_writable().await.expect("a write can be carried out");
    }
    let found = store.sessions.get_session(session.key(), &GetSessionConfig::default()).await.expect("read");
    let found = found.expect("it is there");
    assert_eq!((found.state().to_map(), found.seq()), (session.state().to_map(), session.seq()));
    let listed = store.sessions.list_sessions(&test.app, &ListSessionsConfig::default()).await.expect("list");
    assert_eq!(listed.sessions.len(), 1);
    test.append(session.key(), saying("hello")).await;
}

/// A session id in use is `AlreadyExists`, and the message names the session.
pub async fn a_taken_session_is_named(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("my session");
    test.create_as("alice", config()).await;
    let error = assert_refused(test.try_create("alice", config()).await, ErrorKind::AlreadyExists, "a taken id");
    assert_says(&error, &[&test.app, "alice", "my session"]);
}

/// A missing session is `NotFound`, and the message names it.
pub async fn a_missing_session_is_named(store: &Store) {
    let test = TestApp::new(store);
    let result = test.try_append(&test.key("alice", "my session"), saying("hello")).await;
    assert_says(&assert_refused(result, ErrorKind::NotFound, "an append"), &[&test.app, "alice", "my session"]);
}

/// An event id in use is `AlreadyExists`, and the message names the event.
pub async fn a_taken_event_is_named(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    test.append(session.key(), saying("one").with_id("my event")).await;
    let result = test.try_append(session.key(), saying("two").with_id("my event")).await;
    assert_says(&assert_refused(result, ErrorKind::AlreadyExists, "another event"), &["my event"]);
}

/// An invalid timestamp is `InvalidArgument`; the message shows it, and says so if it looks like milliseconds.
pub async fn a_bad_timestamp_is_shown(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for (time, words) in [
        (1_795_194_011_317.0, &["1795194011317", "milliseconds", "seconds"][..]),
        (-5.5, &["-5.5", "seconds"]),
        (f64::NAN, &["NaN", "seconds"]),
    ] {
        let result = test.try_append(session.key(), saying("hello").with_timestamp(time)).await;
        assert_says(&assert_refused(result, ErrorKind::InvalidArgument, "a bad timestamp"), words);
    }
}

/// An invalid key is `InvalidArgument`, and the message shows the key, shortened if it is long, and the limit.
pub async fn a_bad_key_is_shown(store: &Store) {
    let test = TestApp::new(store);
    let long = format!("user:cart{}", "x".repeat(2000));
    let create = |key: &str| CreateSessionConfig::default().with_state(json!({ key: 1 }));
    let error = assert_refused(test.try_create("alice", create(&long)).await, ErrorKind::InvalidArgument, "a long key");
    assert_says(&error, &["user:cart", "2009", "1024"]);
    assert!(error.to_string().len() < 300, "a message of {} bytes", error.to_string().len());
    let error = assert_refused(test.try_create("alice", create("ca\0rt")).await, ErrorKind::InvalidArgument, "a nul");
    assert_says(&error, &["ca\\0rt", "U+0000"]);
}

/// An invalid id is `InvalidArgument`, and the message says which id it is and shows it.
pub async fn a_bad_id_is_shown(store: &Store) {
    let test = TestApp::new(store);
    let create = |id: &str| CreateSessionConfig::default().with_session_id(id);
    let refused =
        |result, what| assert_refused::<scratchbook_core::session::Session>(result, ErrorKind::InvalidArgument, what);
    let error = refused(test.try_create("alice", create("a\tb")).await, "a control character");
    assert_says(&error, &["session id", "a\\tb"]);
    let error = refused(test.try_create(&"u".repeat(600), create("s")).await, "a long user id");
    assert_says(&error, &["user id", "uuuu", "600", "512"]);
    let error = refused(store.sessions.create_session("a\u{1}", "alice", create("s")).await, "a bad app name");
    assert_says(&error, &["app name", "a\\u{1}"]);
}

/// An invalid value is `InvalidArgument`, and the message names its key.
pub async fn a_bad_values_key_is_named(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_state(json!({"user:cart": REMOVED}));
    let error =
        assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "the removal string");
    assert_says(&error, &["user:cart", REMOVED]);
    let config = CreateSessionConfig::default().with_state(json!(["a"]));
    let error = assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "an array as state");
    assert_says(&error, &["object", "array"]);
}

/// An invalid page size is `InvalidArgument`, and the message shows it with the valid range.
pub async fn a_bad_page_size_is_shown(store: &Store) {
    let test = TestApp::new(store);
    let config = ListSessionsConfig::default().with_page_size(4321);
    let result = store.sessions.list_sessions(&test.app, &config).await;
    assert_says(&assert_refused(result, ErrorKind::InvalidArgument, "a page size"), &["4321", "1000"]);
}

/// No message shows a value of the state.
pub async fn no_message_shows_a_value(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s").with_state(json!({"k": "SECRET"}));
    test.create_as("alice", config()).await;
    test.append(&test.key("alice", "s"), changing(json!({"k": "SECRET"})).with_id("e")).await;
    let refused = [
        test.try_create("alice", config()).await.unwrap_err(),
        test.try_append(&test.key("alice", "s"), changing(json!({"k": "SECRET 2"})).with_id("e")).await.unwrap_err(),
        test.try_append(&test.key("bob", "s"), changing(json!({"k": "SECRET"}))).await.unwrap_err(),
    ];
    for error in refused {
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }
}
