//! Data that was changed in the database is detected when it is read.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use scratchbook::artifact::{ArtifactService, ListVersionsConfig};
use scratchbook::content::Part;
use scratchbook::layer::{Keyring, PlainValues, WithEncryption};
use scratchbook::session::{ChangeQuery, FeedStart, StateOwner};
use scratchbook::store::SqliteOptions;
use scratchbook::{
    CreateSessionConfig, ErrorKind, Event, GetSessionConfig, Result, SessionKey, SessionService, SqliteSessionService,
};
use serde_json::{Map, json};

use super::{append, delta, memory};

type SealedSqlite = WithEncryption<SqliteSessionService>;

fn keys() -> Keyring {
    Keyring::new("2026-11", [7; 32]).unwrap()
}

async fn sealed(file: &Path) -> SealedSqlite {
    WithEncryption::new(SqliteSessionService::open(file, SqliteOptions::default()).await.unwrap(), keys())
}

/// Creates a database with two users, each with values and an event.
async fn database(folder: &Path) -> PathBuf {
    let file = folder.join("sessions.db");
    let service = sealed(&file).await;
    for user in ["alice", "bob"] {
        let config = CreateSessionConfig::default().with_session_id("s");
        let config = config.with_state(json!({"a": user, "b": user, "user:a": user, "user:b": user}));
        let session = service.create_session("app", user, config).await.unwrap();
        let event = Event::new("agent").with_id("e").with_content(user).with_state_delta(delta(json!({"c": user})));
        append(&service, session.key(), event).await;
        service.save_artifact(session.key(), "f", Part::text(user), Map::new()).await.unwrap();
    }
    service.close().await.unwrap();
    file
}

fn alice() -> SessionKey {
    SessionKey::new("app", "alice", "s").unwrap()
}

/// Reads everything that a reader of alice's data may ask for.
async fn read_all(service: &SealedSqlite) -> Result<()> {
    service.get_session(&alice(), &GetSessionConfig::default()).await?;
    service.get_initial_state(&alice()).await?;
    service.get_state(&StateOwner::user("app", "alice")?).await?;
    service.list_state_changes(&StateOwner::user("app", "alice")?, &ChangeQuery::After(0), 100).await?;
    service.list_feed(&StateOwner::user("app", "alice")?, &FeedStart::Beginning, 100).await?;
    service.load_artifact(&alice(), "f", None).await?;
    service.list_artifact_versions(&alice(), "f", &ListVersionsConfig::default()).await.map(drop)
}

async fn assert_found(change: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = database(folder.path()).await;
    let changed = Connection::open(&file).unwrap().execute(change, []).unwrap();
    assert!(changed > 0, "nothing to change: {change}");
    let error = read_all(&sealed(&file).await).await.expect_err(change);
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{change}: {error}");
}

#[tokio::test]
async fn nothing_is_found_where_nothing_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(folder.path()).await;
    read_all(&sealed(&file).await).await.unwrap();
}

#[tokio::test]
async fn a_changed_byte_is_found() {
    // This changes the tenth character from the end, because base64 ignores the last bits of the last characters.
    let flipped = |column: &str| {
        let at = format!("length({column}) - 10");
        format!(
            "substr({column}, 1, {at} - 1) || (CASE substr({column}, {at}, 1) WHEN 'A' THEN 'B' ELSE 'A' END) || \
             substr({column}, {at} + 1)"
        )
    };
    let value = flipped("value");
    assert_found(&format!("UPDATE session_states SET value = {value} WHERE user_id = 'alice' AND key = 'a'")).await;
    assert_found(&format!("UPDATE user_states SET value = {value} WHERE user_id = 'alice' AND key = 'a'")).await;
    assert_found(&format!("UPDATE state_log SET value = {value} WHERE user_id = 'alice' AND key = 'a'")).await;
}

#[tokio::test]
async fn swapped_values_are_found() {
    for table in ["session_states", "user_states"] {
        let of = |user: &str, name: &str| {
            format!("(SELECT o.value FROM {table} o WHERE o.user_id = '{user}' AND o.key = '{name}')")
        };
        let put = |value: String| format!("UPDATE {table} SET value = {value} WHERE user_id = 'alice' AND key = 'a'");
        assert_found(&put(of("alice", "b"))).await;
        assert_found(&put(of("bob", "a"))).await;
    }
}

#[tokio::test]
async fn what_is_readable_of_an_event_cannot_be_changed() {
    for (is, becomes) in [("\"agent\"", "\"admin\""), ("\"c\":\"scratch", "\"d\":\"scratch")] {
        assert_found(&format!("UPDATE events SET event = replace(event, '{is}', '{becomes}') WHERE user_id = 'alice'"))
            .await;
    }
    let of_bob = "(SELECT o.event FROM events o WHERE o.user_id = 'bob')";
    assert_found(&format!("UPDATE events SET event = {of_bob} WHERE user_id = 'alice'")).await;
}

/// The change is found in every event, even in an event that was sent without a time.
#[tokio::test]
async fn a_changed_time_of_an_event_is_found() {
    let time = "json_extract(event, '$.timestamp') + 60";
    assert_found(&format!("UPDATE events SET event = json_set(event, '$.timestamp', {time}) WHERE user_id = 'alice'"))
        .await;
    assert_found("UPDATE events SET event = json_remove(event, '$.timestamp') WHERE user_id = 'alice'").await;
}

/// Events are encrypted before the store numbers them. The documentation lists this among the undetected changes.
#[tokio::test]
async fn swapped_events_of_a_session_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(folder.path()).await;
    let service = sealed(&file).await;
    append(&service, &alice(), Event::new("agent").with_id("f").with_content("second")).await;
    service.close().await.unwrap();
    let swap = "UPDATE events SET seq = 3 - seq + 10 WHERE user_id = 'alice'";
    let back = "UPDATE events SET seq = seq - 10 WHERE user_id = 'alice'";
    let connection = Connection::open(&file).unwrap();
    assert_eq!((connection.execute(swap, []).unwrap(), connection.execute(back, []).unwrap()), (2, 2));
    drop(connection);
    let read = super::read(&sealed(&file).await, &alice()).await;
    let ids: Vec<_> = read.events().iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["f", "e"]);
}

#[tokio::test]
async fn plain_values_are_read_or_refused() {
    let store = memory();
    let session = store.create_session("app", "alice", CreateSessionConfig::default().with_state(json!({"a": 1})));
    let session = session.await.unwrap();
    append(&store, session.key(), Event::new("agent").with_content("hello")).await;
    store.save_artifact(session.key(), "f", Part::text("plain"), Map::new()).await.unwrap();

    let reads = WithEncryption::new(store.clone(), keys());
    let read = super::read(&reads, session.key()).await;
    assert_eq!((read.state().get("a"), read.events().len()), (Some(&json!(1)), 1));
    assert_eq!(reads.load_artifact(session.key(), "f", None).await.unwrap(), Some(Part::text("plain")));

    let refuses = WithEncryption::new_with(store, keys(), PlainValues::Refused);
    let error = refuses.get_session(session.key(), &GetSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert_eq!(refuses.load_artifact(session.key(), "f", None).await.unwrap_err().kind(), ErrorKind::DataCorrupted);
}

#[tokio::test]
async fn a_missing_key_is_named() {
    let store = memory();
    let before = WithEncryption::new(store.clone(), Keyring::new("2026-05", [3; 32]).unwrap());
    let config = CreateSessionConfig::default().with_state(json!({"a": "value"}));
    let session = before.create_session("app", "alice", config).await.unwrap();
    let after = WithEncryption::new(store, keys());
    let error = after.get_session(session.key(), &GetSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(error.to_string().contains("2026-05") && error.to_string().contains("'a'"), "{error}");
}
