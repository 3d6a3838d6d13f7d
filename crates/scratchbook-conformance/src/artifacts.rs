//! Artifacts: named, versioned data of a session or a user.

use serde_json::{Map, Value, json};

use super::support::{TestApp, assert_refused};
use scratchbook_core::artifact::ListVersionsConfig;
use scratchbook_core::content::Part;
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::session::{CreateSessionConfig, SessionKey};
use scratchbook_core::store::Store;

async fn save(store: &Store, key: &SessionKey, name: &str, part: Part) -> u64 {
    store.artifacts.save_artifact(key, name, part, Map::new()).await.expect("save_artifact")
}

async fn load(store: &Store, key: &SessionKey, name: &str) -> Option<Part> {
    store.artifacts.load_artifact(key, name, None).await.expect("load_artifact")
}

async fn session(test: &TestApp, user: &str, id: &str) -> SessionKey {
    let config = CreateSessionConfig::default().with_session_id(id);
    test.create_as(user, config).await.key().clone()
}

/// Versions count from 0; each stays readable, and the newest is the default.
pub async fn versions_count_from_0_and_stay(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    for n in 0..3 {
        assert_eq!(save(store, &key, "report.txt", Part::text(format!("draft {n}"))).await, n);
    }
    assert_eq!(save(store, &key, "other.txt", Part::text("other")).await, 0, "another name counts on its own");
    assert_eq!(load(store, &key, "report.txt").await, Some(Part::text("draft 2")));
    for n in 0..3 {
        let part = store.artifacts.load_artifact(&key, "report.txt", Some(n)).await.unwrap();
        assert_eq!(part, Some(Part::text(format!("draft {n}"))));
    }
    for (name, version) in [("report.txt", Some(3)), ("report.txt", Some(u64::MAX)), ("none", None), ("none", Some(0))]
    {
        assert_eq!(store.artifacts.load_artifact(&key, name, version).await.unwrap(), None, "{name} {version:?}");
    }
}

/// Text, bytes, large data and a file's URI come back as they were saved.
pub async fn artifacts_come_back_as_they_were(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 253) as u8).collect();
    let mut named = Part::bytes([0, 255, 0], "image/png");
    named.inline_data.as_mut().unwrap().display_name = Some("a picture".to_owned());
    let uri = scratchbook_core::content::FileData {
        file_uri: Some("gs://bucket/x".to_owned()),
        mime_type: Some("image/png".to_owned()),
        ..Default::default()
    };
    let file = Part { file_data: Some(uri.into()), ..Part::default() };
    let parts = [
        Part::text(""),
        Part::text("text \0 \u{1f5bc}\r\n"),
        Part::bytes([], "application/octet-stream"),
        Part::bytes([0, 159, 146, 150], "application/octet-stream"),
        Part::bytes(large, "application/octet-stream"),
        named,
        file,
    ];
    for (n, part) in parts.into_iter().enumerate() {
        save(store, &key, "file", part.clone()).await;
        assert!(load(store, &key, "file").await == Some(part), "part {n} came back otherwise");
    }
}

/// The list has the artifacts that the session sees, its own and its user's, in byte order, without deleted ones.
pub async fn names_are_listed_in_byte_order(store: &Store) {
    let test = TestApp::new(store);
    let (key, other) = (session(&test, "alice", "s").await, session(&test, "alice", "t").await);
    assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), [""; 0]);
    for name in ["b", "a/b.txt", "user:z", "B", "\u{e9}", "user:a", "zz"] {
        save(store, &key, name, Part::text(name)).await;
    }
    save(store, &other, "theirs", Part::text("theirs")).await;
    let listed = store.artifacts.list_artifacts(&key).await.unwrap();
    assert_eq!(listed, ["B", "a/b.txt", "b", "user:a", "user:z", "zz", "\u{e9}"]);
    assert_eq!(store.artifacts.list_artifacts(&other).await.unwrap(), ["theirs", "user:a", "user:z"]);
}

/// A name that starts with `user:` is shared by all sessions of the user, and visible to nobody else.
pub async fn user_names_are_shared_by_the_users_sessions(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    let (first, second) = (session(&test, "alice", "1").await, session(&test, "alice", "2").await);
    let others = [session(&test, "bob", "1").await, session(&elsewhere, "alice", "1").await];
    save(store, &first, "user:photo", Part::text("0")).await;
    save(store, &first, "own", Part::text("own")).await;
    assert_eq!(load(store, &second, "user:photo").await, Some(Part::text("0")));
    assert_eq!(save(store, &second, "user:photo", Part::text("1")).await, 1, "one count for the user");
    assert_eq!(load(store, &first, "user:photo").await, Some(Part::text("1")));
    assert_eq!(load(store, &second, "own").await, None, "another session's own");
    assert_eq!(load(store, &first, "photo").await, None, "the name without its prefix is another");
    for other in &others {
        assert_eq!(load(store, other, "user:photo").await, None);
        assert_eq!(store.artifacts.list_artifacts(other).await.unwrap(), [""; 0]);
        assert_eq!(save(store, other, "user:photo", Part::text("mine")).await, 0);
    }
    assert_eq!(load(store, &first, "user:photo").await, Some(Part::text("1")));
}

/// Versions are described, oldest first: number, MIME type, time and custom metadata.
pub async fn versions_are_described(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let metadata = json!({"z": 1.0, "a": {"b": null}}).as_object().cloned().unwrap();
    save(store, &key, "f", Part::text("text")).await;
    store.artifacts.save_artifact(&key, "f", Part::bytes([1], "image/png"), metadata.clone()).await.unwrap();
    let versions = store.artifacts.list_artifact_versions(&key, "f", &ListVersionsConfig::default()).await.unwrap();
    let described: Vec<_> = versions.iter().map(|v| (v.version, v.mime_type.as_deref(), &v.custom_metadata)).collect();
    assert_eq!(described, [(0, None, &Map::new()), (1, Some("image/png"), &metadata)]);
    assert!(
        versions.iter().all(|v| v.create_time > 1_600_000_000.0) && versions[0].create_time <= versions[1].create_time
    );
    assert_eq!(store.artifacts.list_artifact_versions(&key, "none", &ListVersionsConfig::default()).await.unwrap(), []);
}

/// Deleting removes all versions of the name, does nothing if there are none, and touches no other name.
pub async fn a_deleted_artifact_is_gone(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    for name in ["f", "f", "user:f", "g"] {
        save(store, &key, name, Part::text(name)).await;
    }
    for _ in 0..2 {
        store.artifacts.delete_artifact(&key, "f").await.expect("delete_artifact");
        assert_eq!(load(store, &key, "f").await, None);
        assert_eq!(
            store.artifacts.list_artifact_versions(&key, "f", &ListVersionsConfig::default()).await.unwrap(),
            []
        );
        assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), ["g", "user:f"]);
    }
    assert_eq!(save(store, &key, "f", Part::text("again")).await, 0, "a name that is used again counts from 0");
    store.artifacts.delete_artifact(&key, "user:f").await.unwrap();
    assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), ["f", "g"]);
}

/// A session's artifacts are deleted with the session; the user's artifacts stay.
pub async fn artifacts_go_with_their_session(store: &Store) {
    let test = TestApp::new(store);
    let (key, other) = (session(&test, "alice", "s").await, session(&test, "alice", "t").await);
    for key in [&key, &other] {
        save(store, key, "own", Part::text("own")).await;
    }
    save(store, &key, "user:shared", Part::text("shared")).await;
    test.sessions().delete_session(&key).await.unwrap();
    session(&test, "alice", "s").await;
    assert_eq!(load(store, &key, "own").await, None, "an artifact of the session's former life");
    assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), ["user:shared"]);
    assert_eq!(store.artifacts.list_artifacts(&other).await.unwrap(), ["own", "user:shared"]);
}

/// A name is `InvalidArgument` if it is empty, exceeds 512 bytes, contains control characters, or would lead to another
/// place if it were a path.
pub async fn bad_names_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let long = "n".repeat(512);
    for good in
        [long.as_str(), "dir/sub.txt", "..a/b..", "a\\b", "a b", "'; --", "100%", "app:x", "Cart", "cart", "cart "]
    {
        save(store, &key, good, Part::text(good)).await;
        assert_eq!(load(store, &key, good).await, Some(Part::text(good)), "{good}");
    }
    for bad in ["", "user:", "a\0b", "a\nb", &format!("{long}n")] {
        let result = store.artifacts.save_artifact(&key, bad, Part::text("x"), Map::new()).await;
        assert_refused(result, ErrorKind::InvalidArgument, &format!("the artifact name {bad:?}"));
        assert_refused(
            store.artifacts.load_artifact(&key, bad, None).await,
            ErrorKind::InvalidArgument,
            "a load of it",
        );
    }
    for path in [
        ".",
        "../../evil.txt",
        "a/../b",
        "..",
        "user:../x",
        "a\\..\\b",
        "/etc/passwd",
        "\\\\host\\x",
        "C:x",
        "a/versions/0",
    ] {
        let result = store.artifacts.save_artifact(&key, path, Part::text("x"), Map::new()).await;
        assert_refused(result, ErrorKind::InvalidArgument, path);
        assert_eq!(load(store, &key, path).await, None, "{path}");
        store.artifacts.delete_artifact(&key, path).await.expect("delete_artifact");
    }
    for key in [test.key("alice", ".."), test.key(".", "s")] {
        let result = store.artifacts.save_artifact(&key, "f", Part::text("x"), Map::new()).await;
        assert_refused(result, ErrorKind::InvalidArgument, "an address that no URL can name");
    }
}

/// A part with neither text nor data is `InvalidArgument`.
pub async fn a_part_without_data_is_refused(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    for bad in [Part::default(), Part::function_call("tool", Map::new())] {
        let result = store.artifacts.save_artifact(&key, "f", bad, Map::new()).await;
        assert_refused(result, ErrorKind::InvalidArgument, "a part without data");
    }
    assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), [""; 0]);
}

/// Concurrent saves of one name get a version each, without gaps.
pub async fn racing_saves_get_a_version_each(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (store, key) = (store.clone(), key.clone());
        tasks.spawn(async move { (save(&store, &key, "user:f", Part::text(format!("{n}"))).await, n) });
    }
    let mut saved = tasks.join_all().await;
    saved.sort_unstable();
    assert_eq!(saved.iter().map(|(version, _)| *version).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
    for (version, n) in saved {
        let part = store.artifacts.load_artifact(&key, "user:f", Some(version)).await.unwrap();
        assert_eq!(part, Some(Part::text(format!("{n}"))));
    }
}

/// A part nested too deeply to be read back is refused when it is saved.
pub async fn artifacts_are_not_nested_too_deep(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let map = Map::from_iter([("deep".to_owned(), deep)]);
    let part = Part { part_metadata: Some(map.clone().into()), ..Part::text("x") };
    assert_refused(save_with(store, &key, part, Map::new()).await, ErrorKind::InvalidArgument, "deep part metadata");
    assert_refused(save_with(store, &key, Part::text("x"), map).await, ErrorKind::InvalidArgument, "deep metadata");
    assert_eq!(load(store, &key, "f").await, None);
}

/// Unknown fields of an artifact are kept; an unknown field with the name of a known field is refused.
pub async fn unknown_fields_of_artifacts_are_kept(store: &Store) {
    let test = TestApp::new(store);
    let key = session(&test, "alice", "s").await;
    let mut part = Part::text("x");
    part.extra.insert("text".to_owned(), json!("y"));
    assert_refused(save_with(store, &key, part, Map::new()).await, ErrorKind::InvalidArgument, "a known name");
    assert_eq!(load(store, &key, "f").await, None);
    let mut part = Part::text("x");
    part.extra.insert("future".to_owned(), json!({"a": [1.0, null]}));
    save_with(store, &key, part.clone(), Map::new()).await.unwrap();
    assert_eq!(load(store, &key, "f").await, Some(part));
}

async fn save_with(store: &Store, key: &SessionKey, part: Part, metadata: Map<String, Value>) -> Result<u64> {
    store.artifacts.save_artifact(key, "f", part, metadata).await
}
