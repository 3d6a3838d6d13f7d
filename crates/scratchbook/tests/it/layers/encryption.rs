//! Encrypted values: every value is read back, none is confused with another, and outer layers see decrypted values.

use std::sync::Arc;

use proptest::prelude::*;
use scratchbook::layer::{Keyring, WithEncryption};
use scratchbook::session::{ChangeQuery, ListSessionsConfig, SessionUpdate, StateOwner};
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, Event, SessionService, StateDelta};
use serde_json::{Value, json};

use super::{append, delta, memory, read};
use crate::generate::{cases, value};

fn keys() -> Keyring {
    Keyring::new("2026-11", [7; 32]).unwrap()
}

#[cfg(feature = "compression")]
proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn any_value_comes_back(value in value(), text in ".*") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let store = memory();
            let service = WithEncryption::new(Arc::clone(&store), keys());
            let service = scratchbook::layer::WithCompression::above(service, 64);
            let config = CreateSessionConfig::default().with_state(json!({"a": value}));
            let session = service.create_session("app", "alice", config).await.unwrap();
            let event = Event::new("agent").with_content(text.as_str()).with_state_delta(delta(json!({"user:b": value})));
            append(&service, session.key(), event).await;
            let session = read(&service, session.key()).await;
            for key in ["a", "user:b"] {
                assert_eq!(session.state().get(key).unwrap().to_string(), value.to_string());
            }
            assert_eq!(session.events().last().unwrap().content.as_ref().unwrap().text(), text);
            let stored = read(&store, session.key()).await;
            assert!(stored.state().iter().all(|(_, value)| is_sealed(value)));
        });
    }
}

fn is_sealed(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with("scratchbook:sealed:1:2026-11:"))
}

/// A caller's string that looks encrypted is stored and read like any other string.
#[tokio::test]
async fn what_looks_sealed_is_a_value_like_any_other() {
    let store = memory();
    let service = WithEncryption::new(Arc::clone(&store), keys());
    let config = CreateSessionConfig::default().with_state(json!({"a": "secret"}));
    let session = service.create_session("app", "alice", config).await.unwrap();
    let stored = read(&store, session.key()).await.state().get("a").unwrap().clone();
    assert!(is_sealed(&stored));
    let tricks = [stored, json!("scratchbook:sealed:"), json!("scratchbook:sealed:1:2026-11:AAAA")];
    for trick in tricks {
        let mut event = Event::from_json(&json!({"author": "agent", "scratchbookSealed": trick}).to_string()).unwrap();
        event.actions.state_delta = delta(json!({"a": trick, "user:a": trick}));
        append(&service, session.key(), event).await;
        let read = read(&service, session.key()).await;
        assert_eq!((read.state().get("a"), read.state().get("user:a")), (Some(&trick), Some(&trick)));
        assert_eq!(read.events().last().unwrap().extra().get("scratchbookSealed"), Some(&trick));
    }
}

/// Equal values of several events, keys or users do not look equal.
#[tokio::test]
async fn equal_values_look_different() {
    let store = memory();
    let service = WithEncryption::new(Arc::clone(&store), keys());
    for user in ["alice", "bob"] {
        let session = service.create_session("app", user, CreateSessionConfig::default()).await.unwrap();
        for _ in 0..2 {
            let same = delta(json!({"a": 1, "b": 1, "user:a": 1, "app:a": 1}));
            append(&service, session.key(), Event::new("agent").with_state_delta(same)).await;
        }
        service.put_state(&session.key().app(), delta(json!({"a": 1})), "admin".into()).await.unwrap();
    }
    let mut seen = std::collections::HashSet::new();
    for owner in [StateOwner::user("app", "alice"), StateOwner::user("app", "bob"), StateOwner::app("app")] {
        for change in store.list_state_changes(&owner.unwrap(), &ChangeQuery::After(0), 100).await.unwrap() {
            assert!(seen.insert(change.value.unwrap().to_string()), "the same twice");
        }
    }
    assert_eq!(seen.len(), 10);
}

/// The same event in two sessions of a user looks different, and so does its delta: neither the stored bytes nor their
/// hash show that the events are equal. The same event sent again to the same session has the same bytes.
#[tokio::test]
async fn equal_events_of_two_sessions_look_different() {
    let store = memory();
    let service = WithEncryption::new(Arc::clone(&store), keys());
    let event = || {
        let same = delta(json!({"k": "value", "user:k": "value"}));
        Event::new("agent").with_id("e").with_timestamp(5.0).with_content("hello").with_state_delta(same)
    };
    let mut seen = std::collections::HashSet::new();
    for id in ["s", "t"] {
        let config = CreateSessionConfig::default().with_session_id(id);
        let session = service.create_session("app", "alice", config).await.unwrap();
        append(&service, session.key(), event()).await;
        let stored = read(&store, session.key()).await;
        let stored = stored.events().last().unwrap();
        assert!(seen.insert(stored.extra()["scratchbookSealed"].to_string()));
        for (_, value) in stored.actions.state_delta.iter().filter_map(|(key, change)| Some((key, change.value()?))) {
            assert!(seen.insert(value.to_string()));
        }
        // The store itself recognizes the retry by the hash of the encrypted event.
        let again = append(&service, session.key(), event()).await;
        assert_eq!(again.outcome, scratchbook::session::Outcome::Replayed);
    }
    assert_eq!(seen.len(), 6);
}

/// A store has titles and values of labels only encrypted, and equal texts look different. Text that was encrypted for
/// one user cannot be decrypted for another.
#[tokio::test]
async fn titles_and_values_of_labels_are_sealed() {
    let store = memory();
    let service = WithEncryption::new(Arc::clone(&store), keys());
    let config = CreateSessionConfig::default().with_title("Flu").with_label("diagnosis", "flu");
    let made = service.create_session("clinic", "alice", config).await.unwrap();
    let update = SessionUpdate::default().with_title("Flu").with_label("ward", "flu");
    service.update_session(made.key(), update).await.unwrap();
    let session = read(&service, made.key()).await;
    assert_eq!((session.title(), session.labels().len()), (Some("Flu"), 2));
    assert!(session.labels().values().all(|value| value == "flu"));
    let stored = read(&store, made.key()).await;
    let sealed: Vec<_> = stored.labels().values().map(String::as_str).chain(stored.title()).collect();
    assert!(sealed.iter().all(|text| is_sealed(&json!(text))), "{sealed:?}");
    assert!(sealed[0] != sealed[1] && stored.labels().contains_key("diagnosis"));

    let found = ListSessionsConfig::default().with_title_containing("FLU").with_label("ward", "flu");
    assert_eq!(service.list_sessions("clinic", &found).await.unwrap().sessions.len(), 1);
    assert_eq!(store.list_sessions("clinic", &found).await.unwrap().sessions.len(), 0);
    let moved = CreateSessionConfig::default().with_title(stored.title().unwrap());
    let moved = store.create_session("clinic", "bob", moved).await.unwrap();
    let error = service.get_session(moved.key(), &Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    assert!(error.to_string().contains("the title of a session (clinic/bob)"), "{error}");
}

/// Conflicts name the writer and the values in clear text.
#[tokio::test]
async fn conflicts_tell_values_and_writers() {
    let service = WithEncryption::new(memory(), keys());
    let session = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let key = session.key();
    append(&service, key, Event::new("first").with_id("e1").with_state_delta(delta(json!({"k": 1, "user:k": 2}))))
        .await;
    let work = StateDelta::new().with_expect("k", 0).unwrap().with_increment("user:k", 1).unwrap();
    let guarded = Event::new("second").with_state_delta(work);
    let told = |error: &scratchbook::Error| {
        let told = error.conflicts().iter().map(|conflict| {
            let writer = conflict.writer.as_ref().map(|writer| writer.author.clone()).unwrap_or_default();
            (conflict.key.clone(), conflict.read.clone(), conflict.found.clone(), writer)
        });
        told.collect::<Vec<_>>()
    };
    let error = service.append(key, guarded.clone(), AppendOptions::default()).await.unwrap_err();
    assert_eq!(told(&error), [("k".into(), Some(json!(0)), Some(json!(1)), "first".into())]);
    let late = AppendOptions::by_key(session.seen().clone());
    let error = service.append(key, guarded, late).await.unwrap_err();
    let expected =
        [("k".into(), None, Some(json!(1)), "first".into()), ("user:k".into(), None, Some(json!(2)), "first".into())];
    assert_eq!(told(&error), expected);
    let guard = StateDelta::new().with_expect_absent("k").unwrap();
    let error = service.put_state(&key.user(), guard, "admin".into()).await.unwrap_err();
    assert_eq!(told(&error), [("user:k".into(), None, Some(json!(2)), "first".into())]);
}

/// A schema layer around the encryption validates the decrypted values.
#[cfg(feature = "schema")]
#[tokio::test]
async fn a_schema_around_it_holds() {
    use scratchbook::layer::{StateSchema, WithStateSchema};
    let schema = StateSchema::new(1).with_key("user:n", json!({"type": "integer", "maximum": 3})).unwrap();
    let service = WithStateSchema::new(WithEncryption::new(memory(), keys())).with_app("app", schema);
    let session = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    for n in 1..=4 {
        let work = StateDelta::new().with_increment("user:n", 1).unwrap();
        let event = Event::new("agent").with_state_delta(work);
        match service.append(session.key(), event, AppendOptions::default()).await {
            Ok(_) => assert!(n <= 3),
            Err(error) => assert_eq!((n, error.kind()), (4, ErrorKind::InvalidArgument), "{error}"),
        }
    }
    let put = service.put_state(&session.key().user(), delta(json!({"n": "text"})), "admin".into()).await;
    assert_eq!(put.unwrap_err().kind(), ErrorKind::InvalidArgument);
}
