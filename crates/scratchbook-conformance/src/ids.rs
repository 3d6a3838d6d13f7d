//! Addresses: app, user, session and event ids.

use std::collections::BTreeSet;

use serde_json::json;

use super::support::{NAMES, TestApp, assert_refused, ids, saying, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{CreateSessionConfig, GetSessionConfig, ListSessionsConfig, SessionKey};
use scratchbook_core::store::Store;

fn with_id(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

/// The same session id under another user or app is a different session.
pub async fn a_session_is_addressed_by_app_user_and_id(store: &Store) {
    let (here, there) = (TestApp::new(store), TestApp::new(store));
    for (test, user, name) in [(&here, "alice", "1"), (&here, "bob", "2"), (&there, "alice", "3")] {
        let session = test.create_as(user, with_id("s").with_state(json!({"name": name}))).await;
        test.append(session.key(), saying(name).with_id("e")).await;
    }
    for (test, user, name) in [(&here, "alice", "1"), (&here, "bob", "2"), (&there, "alice", "3")] {
        let session = test.get(&test.key(user, "s")).await;
        assert_eq!(state(&session), json!({"name": name}));
        assert_eq!(session.events().len(), 1);
        assert_eq!((session.app_name(), session.user_id(), session.id()), (test.app.as_str(), user, "s"));
    }
    here.sessions().delete_session(&here.key("alice", "s")).await.unwrap();
    assert_eq!(state(&here.get(&here.key("bob", "s")).await), json!({"name": "2"}), "another user's was deleted");
    assert_eq!(state(&there.get(&there.key("alice", "s")).await), json!({"name": "3"}), "another app's was deleted");
}

/// Session ids are compared byte by byte, and no character in them has a special meaning.
pub async fn session_ids_are_compared_byte_by_byte(store: &Store) {
    let test = TestApp::new(store);
    for name in NAMES {
        test.create_as("alice", with_id(name).with_state(json!({"name": name}))).await;
    }
    for name in NAMES {
        let session = test.get(&test.key("alice", name)).await;
        assert_eq!((session.id(), state(&session)), (*name, json!({"name": name})));
    }
    let listed = test.list(Some("alice")).await;
    assert_eq!(ids(&listed).into_iter().collect::<BTreeSet<_>>(), NAMES.iter().copied().collect());
}

/// App names and user ids are compared byte by byte; they may be empty, and may end in a space.
pub async fn apps_and_users_are_compared_byte_by_byte(store: &Store) {
    let test = TestApp::new(store);
    let names = || NAMES.iter().copied().chain(["", " ", "cart ", " cart"]);
    for name in names() {
        test.create_as(name, with_id("s").with_state(json!({"user:name": name}))).await;
        let app = format!("{}{name}", test.app);
        let config = with_id("other").with_state(json!({"app:name": name}));
        test.sessions().create_session(&app, "someone", config).await.unwrap();
    }
    for name in names() {
        assert_eq!(test.user_state(name).await, json!({"name": name}), "the user {name:?}");
        assert_eq!(test.list(Some(name)).await.iter().filter(|s| s.id() == "s").count(), 1, "the user {name:?}");
        let key = SessionKey::new(&format!("{}{name}", test.app), "someone", "other").unwrap();
        assert_eq!(test.get(&key).await.state().get("app:name"), Some(&json!(name)), "the app {name:?}");
    }
}

/// An app name may be empty.
pub async fn an_app_name_may_be_empty(store: &Store) {
    let user = TestApp::new(store).app;
    let session = store.sessions.create_session("", &user, with_id("s")).await.unwrap();
    assert_eq!((session.app_name(), session.user_id()), ("", user.as_str()));
    let config = ListSessionsConfig::default().with_user_id(&user);
    assert_eq!(store.sessions.list_sessions("", &config).await.unwrap().sessions.len(), 1);
    store.sessions.delete_user("", &user).await.unwrap();
}

/// App, user, session and event ids have up to 512 bytes; one more is `InvalidArgument`.
pub async fn ids_have_at_most_512_bytes(store: &Store) {
    let test = TestApp::new(store);
    let fill = |start: &str, character: char| {
        let room = 512 - start.len();
        let filled = start.to_owned() + &character.to_string().repeat(room / character.len_utf8());
        let rest = 512 - filled.len();
        filled + &"x".repeat(rest)
    };
    for character in ['a', '\u{1f4d3}'] {
        let (app, user, id) = (fill(&test.app, character), fill("u", character), fill("s", character));
        let event = fill("e", character);
        let created = store.sessions.create_session(&app, &user, with_id(&id)).await.expect("ids of 512 bytes");
        test.append(created.key(), saying("hello").with_id(&event)).await;
        let read = test.get(&SessionKey::new(&app, &user, &id).unwrap()).await;
        assert_eq!(read.events().last().unwrap().id, event);
        assert_eq!(store.sessions.list_sessions(&app, &ListSessionsConfig::default()).await.unwrap().sessions.len(), 1);

        let long = |name: &str| format!("{name}x");
        let refused = |result, what| {
            assert_refused::<scratchbook_core::session::Session>(result, ErrorKind::InvalidArgument, what)
        };
        refused(store.sessions.create_session(&long(&app), &user, with_id("n")).await, "an app name of 513 bytes");
        refused(store.sessions.create_session(&app, &long(&user), with_id("n")).await, "a user id of 513 bytes");
        refused(store.sessions.create_session(&app, &user, with_id(&long(&id))).await, "a session id of 513 bytes");
        let result = test.try_append(created.key(), saying("hello").with_id(long(&event))).await;
        assert_refused(result, ErrorKind::InvalidArgument, "an event id of 513 bytes");
        assert_eq!(test.get(created.key()).await.events().len(), 1);
    }
}

/// A control character in an app, user, session or event id is `InvalidArgument`.
pub async fn ids_hold_no_control_characters(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for bad in ["a\0b", "a\nb", "a\tb", "a\u{7f}b", "a\u{85}b", "a\u{1b}[31mb"] {
        let refused = |result, what| {
            assert_refused::<scratchbook_core::session::Session>(result, ErrorKind::InvalidArgument, what)
        };
        let app = format!("{}{bad}", test.app);
        refused(store.sessions.create_session(&app, "alice", with_id("s")).await, "a bad app name");
        refused(test.try_create(bad, with_id("s")).await, "a bad user id");
        refused(test.try_create("alice", with_id(bad)).await, "a bad session id");
        let result = test.try_append(session.key(), saying("hello").with_id(bad)).await;
        assert_refused(result, ErrorKind::InvalidArgument, "a bad event id");
        let listed = store.sessions.list_sessions(&app, &ListSessionsConfig::default()).await;
        assert_refused(listed, ErrorKind::InvalidArgument, "a list of a bad app name");
    }
    assert_eq!(test.list(None).await.len(), 1);
    assert!(test.get(session.key()).await.events().is_empty());
}

/// `.` and `..` are `InvalidArgument` as the name of an app, and as the id of a user, session or event, wherever
/// something is created: no URL can name them. A read with such an id finds nothing.
pub async fn ids_that_no_url_can_name_are_not_created(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for bad in [".", ".."] {
        let refused = |result, what| {
            assert_refused::<scratchbook_core::session::Session>(result, ErrorKind::InvalidArgument, what)
        };
        refused(store.sessions.create_session(bad, "alice", with_id("s")).await, "an app name");
        refused(test.try_create(bad, with_id("s")).await, "a user id");
        refused(test.try_create("alice", with_id(bad)).await, "a session id");
        refused(test.try_create("alice", with_id(&format!(" {bad} "))).await, "a session id after trimming");
        let result = test.try_append(session.key(), saying("hello").with_id(bad)).await;
        assert_refused(result, ErrorKind::InvalidArgument, "an event id");
        let read = store.sessions.get_session(&test.key("alice", bad), &GetSessionConfig::default()).await;
        assert!(!matches!(read, Ok(Some(_))), "{bad}");
    }
    assert_eq!(test.list(None).await.len(), 1);
    assert!(test.get(session.key()).await.events().is_empty());
}

/// A session id is trimmed at creation and at lookup.
pub async fn session_ids_are_trimmed(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create_as("alice", with_id("  padded\t")).await;
    assert_eq!(session.id(), "padded");
    assert_eq!(test.get(&test.key("alice", " padded ")).await.id(), "padded");
    let again = test.try_create("alice", with_id("\u{a0}padded ")).await;
    assert_refused(again, ErrorKind::AlreadyExists, "the same id with other spaces around it");
}

/// If the session id is absent, empty or only spaces, the service generates one; generated ids are unique.
pub async fn an_empty_session_id_means_make_one(store: &Store) {
    let test = TestApp::new(store);
    let mut made = BTreeSet::new();
    for config in [CreateSessionConfig::default(), with_id(""), with_id("   "), CreateSessionConfig::default()] {
        let session = test.create_as("alice", config).await;
        assert!(!session.id().is_empty() && session.id().trim() == session.id(), "made the id {:?}", session.id());
        let read = store.sessions.get_session(session.key(), &GetSessionConfig::default()).await.unwrap();
        assert!(read.is_some(), "the id that was made finds the session");
        made.insert(session.id().to_owned());
    }
    assert_eq!(made.len(), 4, "{made:?}");
}
