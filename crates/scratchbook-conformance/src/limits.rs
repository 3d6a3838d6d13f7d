//! The default limits: a write above a limit is refused, and nothing has changed.

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::support::{TestApp, assert_refused, changing, delta, removal, saying, seqs, state};
use scratchbook_core::artifact::ListVersionsConfig;
use scratchbook_core::content::Part;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::{
    CreateSessionConfig, ForkConfig, GetSessionConfig, ListSessionsConfig, ListStateConfig, Session, SessionKey,
    SessionServiceExt,
};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

const MIB: usize = 1 << 20;

/// Returns a string whose JSON has this many bytes.
fn text(bytes: usize) -> Value {
    "x".repeat(bytes - 2).into()
}

/// Returns this many keys, from `k0` on, with a prefix.
fn keys(prefix: &str, count: u64) -> Map<String, Value> {
    (0..count).map(|n| (format!("{prefix}k{n}"), json!(n))).collect()
}

/// Asserts that a limit on bytes or on a number refuses a call, with these words in the message.
#[track_caller]
fn assert_limited<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let of_bytes = words[0].ends_with("_bytes");
    let kind = if of_bytes { ErrorKind::PayloadTooLarge } else { ErrorKind::ResourceExhausted };
    let error = assert_refused(result, kind, words[0]);
    assert!(!of_bytes || !error.is_retryable(), "what is too large does not get smaller: {error}");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} are to be in: {message}");
    assert!(!message.contains("xxx"), "a value is in: {message}");
}

/// Asserts that a session is unchanged, to the last event.
async fn assert_unchanged(test: &TestApp, before: &Session) {
    let now = test.get(before.key()).await;
    assert_eq!((state(&now), seqs(&now)), (state(before), seqs(before)), "something of a refused write was kept");
}

async fn appended(test: &TestApp, key: &SessionKey, delta: Result<StateDelta>) -> Result<(), Error> {
    let event = Event::new("agent").with_state_delta(delta.expect("a delta"));
    test.try_append(key, event).await.map(drop)
}

/// A value may have 4 MiB of JSON, however it is written.
pub async fn a_value_may_have_4_mib(store: &Store) {
    let test = TestApp::new(store);
    test.create("alice", json!({"most": text(4 * MIB)})).await;
    let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"more": text(4 * MIB + 1)}));
    assert_limited(test.try_create("alice", config).await, &["value_bytes", "'more'", "4194305", "4194304"]);
    let session = test.create_as("alice", CreateSessionConfig::default().with_session_id("s")).await;
    test.set(session.key(), json!({"user:most": text(4 * MIB)})).await;
    let session = test.get(session.key()).await;
    let more = changing(json!({"fine": 1, "app:more": text(4 * MIB + 1)}));
    assert_limited(test.try_append(session.key(), more).await, &["value_bytes", "'app:more'", "4194305"]);
    let (app, more) = (test.app(), delta(json!({"more": text(4 * MIB + 1)})));
    let put = test.sessions().put_state(&app, more, "me".into());
    assert_limited(put.await, &["value_bytes", "'app:more'", "4194305"]);
    assert_unchanged(&test, &session).await;
    assert_eq!(test.app_state().await, json!({}));
}

/// A delta may have 8 MiB of JSON, and so may an initial state.
pub async fn a_delta_may_have_8_mib(store: &Store) {
    let test = TestApp::new(store);
    let large = || json!({"a": text(3 * MIB), "user:b": text(3 * MIB), "c": text(3 * MIB)});
    let words = &["delta_bytes", "8388608", "several events"];
    assert_limited(test.try_create("alice", CreateSessionConfig::default().with_state(large())).await, words);
    let session = test.create("alice", json!({})).await;
    assert_limited(test.try_append(session.key(), changing(large())).await, words);
    assert_limited(test.sessions().put_state(&test.user("alice"), delta(large()), "me".into()).await, words);
    assert_unchanged(&test, &session).await;
    assert_eq!(test.user_state("alice").await, json!({}));
    test.set(session.key(), json!({"a": text(3 * MIB), "b": text(3 * MIB)})).await;
}

/// An event may have 16 MiB of JSON, and so may an initial event.
pub async fn an_event_may_have_16_mib(store: &Store) {
    let test = TestApp::new(store);
    let large = || saying(&"x".repeat(16 * MIB)).with_id("large");
    let session = test.create("alice", json!({})).await;
    let words = &["event_bytes", "large", "16777216"];
    assert_limited(test.try_append(session.key(), large()).await, words);
    let config = CreateSessionConfig::default().with_session_id("s").with_events(vec![saying("hello"), large()]);
    assert_limited(test.try_create("alice", config).await, words);
    assert_eq!(test.list(None).await.len(), 1, "a session that was refused");
    assert_unchanged(&test, &session).await;
}

/// An artifact may have 16 MiB of JSON with its metadata, which leaves room for 10 MB of data.
pub async fn an_artifact_may_have_16_mib(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let save = |name: &'static str, part: Part, metadata: Map<String, Value>| {
        store.artifacts.save_artifact(&key, name, part, metadata)
    };
    // {"text":"..."} and {}
    let (large, more) = ("x".repeat(16 * MIB - 12), json!({"more": text(50_000)}).as_object().cloned().unwrap());
    let words = &["artifact_bytes", "'large'", "16777217", "16777216"];
    assert_limited(save("large", Part::text(&large), Map::new()).await, words);
    let beside = save("user:large", Part::text(&large[40_000..]), more).await;
    assert_limited(beside, &["artifact_bytes", "'user:large'"]);
    let names = store.artifacts.list_artifacts(&key).await.unwrap();
    assert_eq!(names, [""; 0], "something of a refused artifact was kept");
    let data = Part::bytes(vec![7; 10_000_000], "x/y");
    assert_eq!(save("large", data.clone(), Map::new()).await.expect("save_artifact"), 0);
    assert!(store.artifacts.load_artifact(&key, "large", None).await.unwrap() == Some(data), "10 MB of data");
}

/// The MIME type and the custom metadata of a version may have 64 KiB together, beside a large artifact.
pub async fn an_artifacts_metadata_may_have_64_kib(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    // {"k":"..."} has 6 bytes beside the text and its quotes.
    let metadata = |bytes: usize| json!({"k": text(bytes - 6)}).as_object().cloned().unwrap();
    let save = |part: Part, metadata| store.artifacts.save_artifact(&key, "f", part, metadata);
    let large = Part::text("x".repeat(MIB));
    assert_eq!(save(large.clone(), metadata(64 << 10)).await.expect("save_artifact"), 0);
    for (part, bytes) in [(large, (64 << 10) + 1), (Part::bytes([1], "image/png"), (64 << 10) - 8)] {
        let error = assert_refused(save(part, metadata(bytes)).await, ErrorKind::PayloadTooLarge, "metadata");
        assert!(error.to_string().contains("65537") && error.to_string().contains("65536"), "{error}");
    }
    let versions = store.artifacts.list_artifact_versions(&key, "f", &ListVersionsConfig::default()).await.unwrap();
    assert_eq!(versions.len(), 1, "something of a refused version was kept");
    assert_eq!(versions[0].custom_metadata, metadata(64 << 10));
}

/// State of more than 32 MiB is written, and read by pages and by keys, but no call reads it whole.
pub async fn state_is_read_whole_up_to_32_mib(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"own": 1})).await;
    let (sessions, key, user) = (&store.sessions, session.key(), session.key().user());
    let put = async |n: usize| {
        let delta = delta(json!({format!("k{n}"): text(4 * MIB)}));
        sessions.put_state(&user, delta, "admin".into()).await.expect("put_state");
    };
    for n in 0..5 {
        put(n).await;
    }
    test.set(key, json!({"own": 2})).await;
    assert_eq!(test.get(key).await.state().len(), 6, "20 MiB are read whole");
    for n in 5..8 {
        put(n).await;
    }
    test.set(key, json!({"own": 3})).await;
    let whole = GetSessionConfig::state_only();
    let refused = [
        sessions.get_session(key, &whole).await.map(drop),
        sessions.get_session(key, &whole.with_page_bytes(MIB as u64)).await.map(drop),
        sessions.get_state(&user).await.map(drop),
        sessions.get_state_at(key, 2).await.map(drop),
        sessions.fork_session(key, ForkConfig::default()).await.map(drop),
        test.try_create("alice", CreateSessionConfig::default()).await.map(drop),
        sessions.list_sessions(&test.app, &ListSessionsConfig::default().with_user_id("alice")).await.map(drop),
        sessions.verify_session(key).await.map(drop),
        sessions.verify_state(&user).await.map(drop),
    ];
    for (n, refused) in refused.into_iter().enumerate() {
        let error = assert_refused(refused, ErrorKind::PayloadTooLarge, &format!("call {n}"));
        assert!(!error.is_retryable() && error.to_string().contains("33554432"), "call {n}: {error}");
    }
    // Earlier state, other users, some keys and pages are read as before.
    assert_eq!(sessions.get_state_at(key, 1).await.expect("get_state_at").len(), 6);
    test.create("bob", json!({})).await;
    let some = test.read(key, GetSessionConfig::default().with_state_keys(["own", "user:k7"])).await;
    assert_eq!(some.state().len(), 2);
    let page = sessions.list_state(&user, &ListStateConfig::default()).await.expect("list_state");
    assert!(!page.values.is_empty() && page.next.is_some());
    // What makes the state smaller is accepted, and then the state is read whole again.
    for n in 0..3 {
        sessions.put_state(&user, removal(&[&format!("k{n}")]), "admin".into()).await.expect("put_state");
    }
    assert_eq!(test.get(key).await.state().len(), 6);
}

/// A session may have 10,000 keys of its own; one more is refused, a write to an existing key is not.
pub async fn a_session_may_have_10000_keys(store: &Store) {
    let test = TestApp::new(store);
    let most = Limits::default().keys_per_scope;
    let config = CreateSessionConfig::default().with_session_id("s").with_state(keys("", most + 1));
    assert_limited(test.try_create("alice", config).await, &["keys_per_scope", "10001", "10000"]);
    let events = vec![changing(json!({"user:other": 1})), changing(json!({"new": 1}))];
    let config = CreateSessionConfig::default().with_session_id("s").with_state(keys("", most));
    assert_limited(test.try_create("alice", config.clone().with_events(events)).await, &["keys_per_scope", "'new'"]);
    assert_eq!(test.user_state("alice").await, json!({}), "something of a refused session was kept");

    let key = test.create_as("alice", config).await.key().clone();
    let words = &["keys_per_scope", "'new'", "session", "10001"];
    assert_limited(test.try_append(&key, changing(json!({"k1": 0, "new": null}))).await, words);
    assert_limited(appended(&test, &key, StateDelta::new().with_set_if_absent("new", 1)).await, words);
    assert_eq!(test.get(&key).await.events().len(), 0);
    test.set(&key, json!({"k1": "known", "user:new": 1, "app:new": 1})).await;
    test.append(&key, Event::new("agent").with_state_delta(removal(&["absent"]))).await;
    assert_limited(test.try_append(&key, changing(json!({"absent": 1}))).await, &["'absent'"]);
    // Adds one key and removes another, first in one event, then one after the other.
    appended(&test, &key, removal(&["k1"]).with("new", 1)).await.unwrap();
    assert_limited(test.try_append(&key, changing(json!({"k1": 1}))).await, &["'k1'"]);
    test.append(&key, Event::new("agent").with_state_delta(removal(&["new"]))).await;
    test.set(&key, json!({"k1": 1})).await;
    assert_limited(test.try_append(&key, changing(json!({"new": 1}))).await, &["'new'"]);
    assert_eq!(test.get(&key).await.events().len(), 5);
}

/// A user may have 10,000 keys, and so may an app; each counts separately, whichever user writes them.
pub async fn a_user_and_an_app_may_have_10000_keys(store: &Store) {
    let test = TestApp::new(store);
    let most = Limits::default().keys_per_scope;
    for (owner, prefix) in [(test.user("alice"), "user:"), (test.app(), "app:")] {
        let new = format!("{prefix}new");
        let words = &["keys_per_scope", new.as_str(), "10001", "10000"];
        let put = |state: Value| test.sessions().put_state(&owner, delta(state), "me".into());
        assert_limited(put(keys("", most + 1).into()).await, &["keys_per_scope", "10001", "10000"]);
        put(keys("", most).into()).await.expect("put_state");
        assert_limited(put(json!({"new": 1})).await, words);
        put(json!({"k1": "known"})).await.expect("put_state");

        let session = test.create("alice", json!({&format!("{prefix}k2"): "known"})).await;
        assert_limited(test.try_append(session.key(), changing(json!({&new: 1, "own": 1}))).await, words);
        assert_unchanged(&test, &session).await;
        test.set(session.key(), json!({&format!("{prefix}k3"): "known", "own": 1})).await;
        for config in [
            CreateSessionConfig::default().with_state(json!({&new: 1})),
            CreateSessionConfig::default().with_events(vec![saying("hello"), changing(json!({&new: 1}))]),
        ] {
            let refused = test.try_create("alice", config.with_session_id("refused")).await;
            assert_limited(refused, words);
        }
        let mut swap = removal(&["k1"]);
        swap.set("new", 1).unwrap();
        test.sessions().put_state(&owner, swap, "me".into()).await.expect("put_state");
        assert_limited(put(json!({"k1": 1})).await, &["keys_per_scope", "k1"]);
    }
    assert!(test.list(None).await.iter().all(|session| session.id() != "refused"));
    test.create("bob", json!({"user:new": 1})).await;
}

/// The results of operations are limited too.
pub async fn outcomes_of_operations_are_limited(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"list": [text(4 * MIB - 3)], "user:n": 1})).await;
    let words = &["value_bytes", "'list'", "4194304"];
    let longer = || StateDelta::new().with_append("list", 1).and_then(|delta| delta.with_increment("user:n", 1));
    assert_limited(appended(&test, session.key(), longer()).await, words);
    assert_unchanged(&test, &session).await;
    let owner = test.user("alice");
    let put = |delta: Result<StateDelta>| test.sessions().put_state(&owner, delta.unwrap(), "me".into());
    put(StateDelta::new().with("list", [text(4 * MIB - 3)])).await.expect("put_state");
    assert_limited(put(StateDelta::new().with_append("list", 1)).await, &["value_bytes", "'user:list'"]);
    let event = Event::new("agent").with_state_delta(StateDelta::new().with_append("user:list", 1).unwrap());
    let config = CreateSessionConfig::default().with_session_id("s").with_events(vec![event]);
    assert_limited(test.try_create("alice", config).await, &["value_bytes", "'user:list'"]);
    assert_eq!(test.list(None).await.len(), 1);
}

/// A refused append does not affect the appends that are committed together with it.
pub async fn a_refusal_harms_no_other_append(store: &Store) {
    let test = TestApp::new(store);
    let full = test.create("alice", keys("", Limits::default().keys_per_scope).into()).await.key().clone();
    let other = test.create("bob", json!({})).await.key().clone();
    let mut appends = JoinSet::new();
    for n in 0..40 {
        let (test, full, other) = (test.clone(), full.clone(), other.clone());
        appends.spawn(async move {
            match n % 4 {
                0 => assert_limited(test.try_append(&full, changing(json!({"new": n}))).await, &["'new'"]),
                1 => drop(test.append(&full, changing(json!({"k1": n}))).await),
                _ => drop(test.append(&other, changing(json!({"user:n": n, "app:n": n}))).await),
            }
        });
    }
    appends.join_all().await;
    assert_eq!(seqs(&test.get(&full).await), (1..=10).collect::<Vec<_>>());
    assert_eq!(seqs(&test.get(&other).await), (1..=20).collect::<Vec<_>>());
}

/// With many concurrent writers that exceed the limit together, there are exactly as many keys as the limit allows.
pub async fn racing_writers_stop_at_the_limit(store: &Store) {
    let test = TestApp::new(store);
    let (most, room) = (Limits::default().keys_per_scope, 5);
    let alice = test.user("alice");
    let put = test.sessions().put_state(&alice, delta(keys("", most - room).into()), "me".into());
    put.await.expect("put_state");
    let mut appends = JoinSet::new();
    for n in 0..12 {
        let (test, key) = (test.clone(), test.create("alice", json!({})).await.key().clone());
        appends.spawn(async move {
            let appended = test.try_append(&key, changing(json!({&format!("user:new{n}"): n}))).await;
            if appended.is_err() {
                assert_limited(appended, &["keys_per_scope", "user:new"]);
                return 0;
            }
            1
        });
    }
    assert_eq!(appends.join_all().await.into_iter().sum::<u64>(), room);
    assert_eq!(test.user_state("alice").await.as_object().map_or(0, Map::len) as u64, most);
}
