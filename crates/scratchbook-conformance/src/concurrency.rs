//! Many concurrent writers and readers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use super::support::{TestApp, changing, saying, seqs};
use scratchbook_core::session::{ChangeQuery, GetSessionConfig, ListSessionsConfig, SessionKey};
use scratchbook_core::store::Store;

const WRITERS: usize = 8;
const ROUNDS: usize = 25;

/// Runs each writer in a separate task, and waits for all.
async fn write<F: Future<Output = ()> + Send + 'static>(writers: impl IntoIterator<Item = F>) {
    let mut tasks = JoinSet::new();
    writers.into_iter().for_each(|writer| drop(tasks.spawn(writer)));
    while let Some(done) = tasks.join_next().await {
        done.expect("a writer failed");
    }
}

/// Checks that each key has every version from 1 on, and that the last one is in the state.
async fn assert_log_is_whole(test: &TestApp, owner: &scratchbook_core::session::StateOwner, changes: usize) {
    let log = test.sessions().list_state_changes(owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    assert_eq!(log.len(), changes, "changes in the log");
    let mut last = std::collections::HashMap::new();
    for change in &log {
        let (version, value) = last.entry(change.name.as_str()).or_insert((0, None));
        assert_eq!(change.version, *version + 1, "the versions of '{}' in the order of the log", change.name);
        (*version, *value) = (change.version, change.value.as_ref());
    }
    let state = test.sessions().get_state(owner).await.unwrap();
    for (name, (_, value)) in last {
        assert_eq!(state.get(name), value, "'{name}' is what was written to it last");
    }
}

/// With many writers on one session, every event is stored once, numbers have no gaps, and every disjoint key is kept.
pub async fn many_writers_on_one_session_lose_nothing(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    write((0..WRITERS).map(|writer| {
        let (test, key) = (test.clone(), key.clone());
        async move {
            let mut last = 0;
            for round in 0..ROUNDS {
                let delta = json!({format!("own {writer} {round}"): round, "shared": [writer, round]});
                let committed = test.append(&key, changing(delta).with_id(format!("{writer}-{round}"))).await;
                let seq = test.number(&key, &committed).await.unwrap();
                assert!(seq > last, "a writer's own events are in its order");
                last = seq;
            }
        }
    }))
    .await;
    let read = test.get(&key).await;
    assert_eq!(seqs(&read), (1..=(WRITERS * ROUNDS) as u64).collect::<Vec<_>>());
    let ids: BTreeSet<_> = read.events().iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), WRITERS * ROUNDS);
    assert_eq!(read.state().len(), WRITERS * ROUNDS + 1, "disjoint keys");
    let last = read.events().last().unwrap();
    assert_eq!(read.state().get("shared"), last.actions.state_delta.get("shared").unwrap().value(), "the last wins");
}

/// With writers in several sessions of one user, every key of the user is kept, and each write is logged once.
pub async fn many_writers_on_one_users_keys_lose_nothing(store: &Store) {
    let test = TestApp::new(store);
    write((0..WRITERS).map(|writer| {
        let test = test.clone();
        async move {
            let key = test.create("alice", json!({})).await.key().clone();
            for round in 0..ROUNDS {
                let delta = json!({format!("user:own {writer} {round}"): round, "user:shared": [writer, round]});
                test.append(&key, changing(delta)).await;
            }
        }
    }))
    .await;
    let state = test.user_state("alice").await;
    assert_eq!(state.as_object().unwrap().len(), WRITERS * ROUNDS + 1);
    assert_log_is_whole(&test, &test.user("alice"), 2 * WRITERS * ROUNDS).await;
}

/// With writers in sessions of several users and by `put_state`, every key of the app is kept, and each write is logged
/// once.
pub async fn many_writers_on_one_apps_keys_lose_nothing(store: &Store) {
    let test = TestApp::new(store);
    write((0..WRITERS).map(|writer| {
        let test = test.clone();
        async move {
            let key = test.create(&format!("user {writer}"), json!({})).await.key().clone();
            for round in 0..ROUNDS {
                // Odd and even writers use opposite orders, which must not deadlock.
                let (first, second) = if writer % 2 == 0 { ("app:x", "app:y") } else { ("app:y", "app:x") };
                let own = format!("own {writer} {round}");
                if writer % 4 == 3 {
                    let delta = json!({&first[4..]: round, &second[4..]: round, own: round});
                    let delta = super::support::delta(delta);
                    test.sessions().put_state(&test.app(), delta, "admin".into()).await.unwrap();
                } else {
                    let delta = json!({first: round, second: round, format!("app:{own}"): round});
                    test.append(&key, changing(delta)).await;
                }
            }
        }
    }))
    .await;
    assert_eq!(test.app_state().await.as_object().unwrap().len(), WRITERS * ROUNDS + 2);
    assert_log_is_whole(&test, &test.app(), 3 * WRITERS * ROUNDS).await;
}

/// Readers never see half a commit: the changes of one event in three scopes appear together, with the event.
pub async fn readers_never_see_half_a_commit(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"a": 0, "user:b": 0, "app:c": 0})).await.key().clone();
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for reader in 0..4 {
        let (test, key, done) = (test.clone(), key.clone(), Arc::clone(&done));
        readers.spawn(async move {
            let mut reads = 0;
            while !done.load(Ordering::Acquire) || reads < 10 {
                let seen = if reader % 2 == 0 { read_once(&test, &key).await } else { list_once(&test).await };
                assert!(seen.iter().all(|n| *n == seen[0]), "half a commit was seen: {seen:?}");
                reads += 1;
                tokio::task::yield_now().await;
            }
        });
    }
    for n in 1..=150 {
        test.append(&key, changing(json!({"app:c": n, "a": n, "user:b": n})).with_timestamp(f64::from(n))).await;
    }
    done.store(true, Ordering::Release);
    while let Some(reader) = readers.join_next().await {
        reader.expect("a reader failed");
    }
}

/// Reads the three keys, the session's number, the count of events and the last event's number, all of which are equal.
async fn read_once(test: &TestApp, key: &SessionKey) -> Vec<u64> {
    let session = test.get(key).await;
    let mut seen = keys_of(&session);
    seen.extend([session.seq(), session.events().len() as u64]);
    seen.push(session.events().last().and_then(|event| event.seq).unwrap_or(0));
    let last = test.read(key, GetSessionConfig::default().with_num_recent_events(1)).await;
    assert_eq!(last.events().last().and_then(|event| event.seq).unwrap_or(0), last.seq());
    assert!(keys_of(&last).iter().all(|n| *n == last.seq()), "half a commit was seen: {last:?}");
    seen
}

async fn list_once(test: &TestApp) -> Vec<u64> {
    let page = test.sessions().list_sessions(&test.app, &ListSessionsConfig::default()).await.unwrap();
    assert_eq!(page.sessions.len(), 1);
    let mut seen = keys_of(&page.sessions[0]);
    seen.push(page.sessions[0].seq());
    seen
}

fn keys_of(session: &scratchbook_core::session::Session) -> Vec<u64> {
    ["a", "user:b", "app:c"].map(|key| session.state().get_as(key).unwrap().unwrap()).to_vec()
}

/// Concurrent writes to different sessions, users and apps do not mix.
pub async fn writers_apart_stay_apart(store: &Store) {
    let grounds = [TestApp::new(store), TestApp::new(store)];
    write((0..WRITERS).map(|writer| {
        let test = grounds[writer % 2].clone();
        async move {
            let user = format!("user {}", writer / 4);
            for round in 0..5 {
                let session = test.create(&user, json!({"writer": writer})).await;
                test.append(session.key(), saying(&format!("{writer} {round}"))).await;
                let read = test.get(session.key()).await;
                assert_eq!(read.state().get("writer"), Some(&json!(writer)));
                assert_eq!(read.events().last().unwrap().content, saying(&format!("{writer} {round}")).content);
            }
        }
    }))
    .await;
    for test in grounds {
        assert_eq!(test.list(None).await.len(), WRITERS / 2 * 5);
        assert_eq!(test.list(Some("user 0")).await.len(), 10);
    }
}
