//! Finding a session by id alone, and ids unique within an app.

use std::time::Duration;

use serde_json::json;

use super::races::race;
use super::support::{NAMES, TestApp, assert_refused, changing, saying, state};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{CreateSessionConfig, Expiry, ForkConfig, Prune, SessionKey, SessionServiceExt};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

/// The number of concurrent creations of one id.
const RACERS: usize = 16;

fn named(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

fn unique(id: &str) -> CreateSessionConfig {
    named(id).with_id_unique_in_app()
}

/// Returns an event whose append reads before it writes.
fn counting() -> Event {
    Event::new("agent").with_state_delta(StateDelta::new().with_increment("app:made", 1).unwrap())
}

async fn locate(test: &TestApp, id: &str) -> Result<Option<SessionKey>> {
    test.sessions().locate_session(&test.app, id).await
}

/// Returns the user of the session with this id.
async fn user_of(test: &TestApp, id: &str) -> Option<String> {
    locate(test, id).await.expect("locate_session").map(|key| key.user_id().to_owned())
}

/// A session is found by any valid id, compared byte by byte.
pub async fn a_session_is_found_by_its_id(store: &Store) {
    let test = TestApp::new(store);
    for (n, name) in NAMES.iter().enumerate() {
        test.create_as(&format!("user {n}"), named(name)).await;
    }
    for (n, name) in NAMES.iter().enumerate() {
        assert_eq!(locate(&test, name).await.unwrap(), Some(test.key(&format!("user {n}"), name)));
    }
    for user in ["", " ", "alice/bob", "\u{1f600}"] {
        let made = test.create_as(user, CreateSessionConfig::default()).await;
        assert_eq!(locate(&test, made.id()).await.unwrap().as_ref(), Some(made.key()), "an id of the store's own");
    }
}

/// A session is still found after an append, a fork and a change of its metadata.
pub async fn a_session_that_is_written_to_is_found(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create_as("alice", named("s")).await.key().clone();
    for n in 0..3 {
        test.append(&key, changing(json!({"n": n, "user:n": n}))).await;
    }
    test.sessions().set_expiry(&key, Some(Expiry::After(Duration::from_secs(3600)))).await.unwrap();
    test.sessions().prune(Prune::events(&key, 2), 9).await.unwrap();
    test.sessions().fork_session(&key, ForkConfig::default().with_session_id("fork")).await.unwrap();
    assert_eq!(locate(&test, "s").await.unwrap(), Some(key));
    assert_eq!(locate(&test, "fork").await.unwrap(), Some(test.key("alice", "fork")));
}

/// An id that no session of the app has is not found, whatever other apps have.
pub async fn an_id_of_another_app_is_not_found(store: &Store) {
    let (here, there) = (TestApp::new(store), TestApp::new(store));
    there.create_as("alice", named("s")).await;
    assert_eq!(locate(&here, "s").await.unwrap(), None, "an app without a session");
    here.create_as("bob", named("other")).await;
    for id in ["s", "othe", "other2", "Other", "alice", "%", "o_her"] {
        assert_eq!(locate(&here, id).await.unwrap(), None, "{id}");
    }
    here.create_as("bob", named("s")).await;
    assert_eq!(user_of(&here, "s").await.as_deref(), Some("bob"));
    assert_eq!(user_of(&there, "s").await.as_deref(), Some("alice"));
}

/// An id that several users have is `FailedPrecondition`, and the message does not name the users. Once a single user
/// has the id, its session is found again.
pub async fn an_id_of_several_users_is_refused(store: &Store) {
    let test = TestApp::new(store);
    for user in ["alice", "bob", "carol"] {
        test.create_as(user, named("shared-id")).await;
    }
    let error = assert_refused(locate(&test, "shared-id").await, ErrorKind::FailedPrecondition, "three users");
    let text = error.to_string();
    assert!(text.contains("shared-id"), "{text}");
    assert!(!["alice", "bob", "carol"].iter().any(|user| text.contains(user)), "{text}");
    test.sessions().delete_session(&test.key("alice", "shared-id")).await.unwrap();
    assert_refused(locate(&test, "shared-id").await, ErrorKind::FailedPrecondition, "two users");
    test.sessions().delete_user(&test.app, "carol").await.unwrap();
    assert_eq!(user_of(&test, "shared-id").await.as_deref(), Some("bob"));
}

/// An expired session is not found, and its id is free for another user.
pub async fn an_expired_session_is_not_found_by_its_id(store: &Store) {
    let test = TestApp::new(store);
    let alices = test.create_as("alice", named("s")).await.key().clone();
    test.create_as("bob", named("s")).await;
    test.sessions().set_expiry(&alices, Some(Expiry::At(1.0))).await.unwrap();
    assert_eq!(user_of(&test, "s").await.as_deref(), Some("bob"));
    assert_refused(test.try_create("alice", unique("s")).await, ErrorKind::AlreadyExists, "bob has it");
    test.sessions().set_expiry(&test.key("bob", "s"), Some(Expiry::At(1.0))).await.unwrap();
    assert_eq!(user_of(&test, "s").await, None);
    // This works whether or not the expired session was removed.
    test.create_as("carol", unique("s")).await;
    assert_eq!(user_of(&test, "s").await.as_deref(), Some("carol"));
    test.sessions().set_expiry(&test.key("carol", "s"), Some(Expiry::At(1.0))).await.unwrap();
    test.create_as("carol", unique("s").with_title("again").with_events(vec![counting()])).await;
    assert_eq!(user_of(&test, "s").await.as_deref(), Some("carol"));
}

/// A deleted session is not found, and its id is free.
pub async fn a_deleted_session_is_not_found_by_its_id(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create_as("alice", unique("s")).await.key().clone();
    test.append(&key, saying("hello")).await;
    test.sessions().delete_session(&key).await.unwrap();
    assert_eq!(user_of(&test, "s").await, None);
    test.create_as("bob", unique("s")).await;
    assert_eq!(user_of(&test, "s").await.as_deref(), Some("bob"));
    test.sessions().delete_user(&test.app, "bob").await.unwrap();
    assert_eq!(user_of(&test, "s").await, None);
    test.create_as("alice", unique("s")).await;
    assert_eq!(user_of(&test, "s").await.as_deref(), Some("alice"));
}

/// An id is trimmed at lookup as at creation. An id that no session can have is `InvalidArgument`.
pub async fn an_id_is_looked_for_as_it_was_made(store: &Store) {
    let test = TestApp::new(store);
    let made = test.create_as("alice", named("  s \u{3000}")).await;
    for id in ["s", " s", "s\n", "\t s  "] {
        assert_eq!(locate(&test, id).await.unwrap().as_ref(), Some(made.key()), "{id:?}");
    }
    assert_refused(test.try_create("bob", unique(" s ")).await, ErrorKind::AlreadyExists, "' s ' is 's'");
    let long = "i".repeat(513);
    for id in ["", "  ", "a\u{0}b", "a\nb", long.as_str()] {
        assert_refused(locate(&test, id).await, ErrorKind::InvalidArgument, id);
    }
    for app in ["a\u{7f}b", long.as_str()] {
        assert_refused(test.sessions().locate_session(app, "s").await, ErrorKind::InvalidArgument, app);
    }
    let most = "\u{e9}".repeat(256);
    let made = test.create_as(&most, unique(&most)).await;
    assert_eq!(locate(&test, &most).await.unwrap().as_ref(), Some(made.key()), "ids of exactly the limit");
}

/// A creation with an id that has to be unique is refused if any user of the app has the id; the refusal changes
/// nothing and names no user. Without that option, and in other apps, ids belong to each user.
pub async fn an_id_unique_in_its_app_is_made_once(store: &Store) {
    let (test, other) = (TestApp::new(store), TestApp::new(store));
    test.create_as("alice", named("ticket-7")).await;
    let wish = unique("ticket-7").with_state(json!({"app:touched": 1, "user:touched": 1}));
    let titled = wish.clone().with_title("a title");
    let with_operations = wish.clone().with_events(vec![counting()]);
    for user in ["alice", "bob"] {
        for config in [&wish, &titled, &with_operations] {
            let refused = test.try_create(user, config.clone()).await;
            let text = assert_refused(refused, ErrorKind::AlreadyExists, user).to_string();
            assert!(text.contains("ticket-7") && (user == "alice" || !text.contains("alice")), "{text}");
        }
        assert_eq!(test.user_state(user).await, json!({}), "a refused creation wrote state");
    }
    assert_eq!(test.app_state().await, json!({}), "a refused creation wrote state");
    assert_eq!(user_of(&test, "ticket-7").await.as_deref(), Some("alice"));
    assert!(test.list(Some("bob")).await.is_empty());
    other.create_as("bob", wish).await;
    for (n, config) in [unique("t"), titled, with_operations, unique("")].into_iter().enumerate() {
        let id = if n == 3 { String::new() } else { format!("free {n}") };
        let made = test.create_as("bob", config.with_session_id(id)).await;
        assert_eq!(locate(&test, made.id()).await.unwrap().as_ref(), Some(made.key()));
        assert_eq!(state(&test.get(made.key()).await), state(&made));
    }
    test.create_as("carol", named("ticket-7")).await;
    assert_refused(
        locate(&test, "ticket-7").await,
        ErrorKind::FailedPrecondition,
        "a creation looks at its user's ids alone",
    );
    assert_refused(test.try_create("dave", unique("ticket-7")).await, ErrorKind::AlreadyExists, "two users have it");
}

/// Of concurrent creations by different users of one unique id exactly one succeeds; the others are `AlreadyExists` and
/// leave nothing behind.
pub async fn racing_creates_of_an_id_unique_in_its_app_have_one_winner(store: &Store) {
    let test = TestApp::new(store);
    for round in 0..5 {
        let results = race((0..RACERS).map(|racer| {
            let test = test.clone();
            let config = unique(&format!("s{round}")).with_state(json!({"racer": racer, "user:racer": racer}));
            let config = match racer % 3 {
                0 => config,
                1 => config.with_title("a title"),
                _ => config.with_events(vec![counting()]),
            };
            async move { test.try_create(&format!("user-{round}-{racer}"), config).await }
        }))
        .await;
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, RACERS - 1), "won and lost: {lost:?}");
        for error in lost {
            assert_refused(error, ErrorKind::AlreadyExists, "a loser");
        }
        let winner = won.into_iter().find_map(Result::ok).expect("one winner");
        assert_eq!(locate(&test, &format!("s{round}")).await.unwrap().as_ref(), Some(winner.key()));
        for racer in 0..RACERS {
            let user = format!("user-{round}-{racer}");
            let expected = if user == winner.user_id() { json!({"racer": racer}) } else { json!({}) };
            assert_eq!(test.user_state(&user).await, expected, "the state of {user}");
        }
    }
}

/// Concurrent creations of several unique ids in one app do not conflict.
pub async fn creates_of_several_unique_ids_all_succeed(store: &Store) {
    let test = TestApp::new(store);
    let results = race((0..RACERS).map(|racer| {
        let test = test.clone();
        let config = unique(&format!("s{racer}")).with_state(json!({"app:last": racer}));
        async move { test.try_create("alice", config).await }
    }))
    .await;
    for (racer, result) in results.into_iter().enumerate() {
        result.unwrap_or_else(|e| panic!("s{racer}: {e}"));
    }
    for racer in 0..RACERS {
        assert_eq!(user_of(&test, &format!("s{racer}")).await.as_deref(), Some("alice"));
    }
}
