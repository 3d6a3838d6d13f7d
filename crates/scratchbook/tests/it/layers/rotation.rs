//! A new key: old values are still read, retries are recognized, and values are encrypted again where possible.

use std::sync::Arc;

use scratchbook::layer::{Keyring, WithEncryption};
use scratchbook::session::{ChangeQuery, Outcome, StateOwner};
use scratchbook::store::Limits;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, InMemorySessionService, SessionService, StateDelta,
};
use serde_json::json;

use super::{append, delta, memory, read};

type RotatedStore = WithEncryption<Arc<InMemorySessionService>>;

fn before(store: &Arc<InMemorySessionService>) -> RotatedStore {
    WithEncryption::new(Arc::clone(store), Keyring::new("old", [3; 32]).unwrap())
}

fn after(store: &Arc<InMemorySessionService>) -> RotatedStore {
    let keys = Keyring::new("new", [7; 32]).unwrap().with_old("old", [3; 32]).unwrap();
    WithEncryption::new(Arc::clone(store), keys)
}

#[tokio::test]
async fn what_old_keys_sealed_is_read_and_built_upon() {
    let store = memory();
    let config = CreateSessionConfig::default().with_state(json!({"n": 1, "user:list": ["a"]}));
    let session = before(&store).create_session("app", "alice", config).await.unwrap();
    append(&before(&store), session.key(), Event::new("agent").with_content("hello")).await;
    let more = StateDelta::new().with_increment("n", 1).unwrap().with_append("user:list", "b").unwrap();
    append(&after(&store), session.key(), Event::new("agent").with_state_delta(more)).await;
    let read = read(&after(&store), session.key()).await;
    assert_eq!(json!(read.state()), json!({"n": 2, "user:list": ["a", "b"]}));
    assert_eq!(read.events().get(0).unwrap().content.as_ref().unwrap().text(), "hello");
}

#[tokio::test]
async fn a_retry_after_a_rotation_is_known() {
    let store = memory();
    let session = before(&store).create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let plain = |n| Event::new("agent").with_id("plain").with_state_delta(delta(json!({"k": n, "user:k": n})));
    let counted = |n| {
        let work = StateDelta::new().with_increment("user:n", n).unwrap();
        Event::new("agent").with_id("counted").with_timestamp(5.0).with_state_delta(work)
    };
    let first = append(&before(&store), session.key(), plain(1)).await;
    let second = append(&before(&store), session.key(), counted(1)).await;
    for n in 0..250 {
        append(&after(&store), session.key(), Event::new("agent").with_content(n.to_string())).await;
    }
    let again = append(&after(&store), session.key(), plain(1)).await;
    assert_eq!((again.outcome, &again.event, again.logs.user), (Outcome::Replayed, &first.event, first.logs.user));
    let again = append(&after(&store), session.key(), counted(1)).await;
    assert_eq!((again.outcome, &again.event, again.logs.user), (Outcome::Replayed, &second.event, second.logs.user));
    for other in [plain(2), counted(2)] {
        let error = after(&store).append(session.key(), other, AppendOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }
}

#[tokio::test]
async fn state_is_sealed_anew_and_needs_its_old_key_no_more() {
    let store = memory();
    let many: serde_json::Map<_, _> = (0..250).map(|n| (format!("user:k{n:03}"), json!(n))).collect();
    let config = CreateSessionConfig::default().with_state(many);
    let session = before(&store).create_session("app", "alice", config).await.unwrap();
    let alice = StateOwner::user("app", "alice").unwrap();
    append(&before(&store), session.key(), Event::new("agent").with_state_delta(delta(json!({"own": "x"})))).await;
    // One value is from before there were keys, and one is already encrypted with the new key.
    store.put_state(&alice, delta(json!({"plain": 1})), "admin".into()).await.unwrap();
    after(&store).put_state(&alice, delta(json!({"k000": "new"})), "admin".into()).await.unwrap();
    assert_eq!(after(&store).reseal_state(&alice).await.unwrap(), 250);
    let sealed = store.list_event_hashes(session.key(), 0, 10).await.unwrap().unwrap().events;
    assert_eq!(after(&store).reseal_session(session.key()).await.unwrap(), 1);
    // The earlier events keep their text and its hash, and no key is needed to see this.
    let hashes = store.list_event_hashes(session.key(), 0, 10).await.unwrap().unwrap().events;
    assert_eq!((hashes.len(), &hashes[..1]), (2, &sealed[..]));
    assert_eq!(after(&store).reseal_state(&alice).await.unwrap(), 0);
    assert_eq!(after(&store).reseal_session(session.key()).await.unwrap(), 0);

    let alone = WithEncryption::new(Arc::clone(&store), Keyring::new("new", [7; 32]).unwrap());
    let state = alone.get_state(&alice).await.unwrap();
    assert_eq!(
        (state.len(), &state["k000"], &state["k249"], &state["plain"]),
        (251, &json!("new"), &json!(249), &json!(1))
    );
    let config = scratchbook::GetSessionConfig::state_only();
    let shown = alone.get_session(session.key(), &config).await.unwrap().unwrap();
    assert_eq!(shown.state().get("own"), Some(&json!("x")));
    let log = after(&store).list_state_changes(&alice, &ChangeQuery::of_key("k249", u64::MAX), 10).await.unwrap();
    assert_eq!(log.iter().map(|change| change.author.as_str()).collect::<Vec<_>>(), ["scratchbook", "user"]);
}

/// However much data there is, no commit exceeds the limits, and a later call does the rest.
#[tokio::test]
async fn large_state_is_sealed_again_in_several_commits() {
    let store = memory();
    let old = before(&store);
    let large = |n: usize| json!("x".repeat(100_000 + n));
    let config = CreateSessionConfig::default().with_session_id("s");
    let session = old.create_session("app", "alice", config).await.unwrap();
    let alice = StateOwner::user("app", "alice").unwrap();
    for n in 0..120 {
        let own = delta(json!({format!("k{n:03}"): large(n)}));
        append(&old, session.key(), Event::new("agent").with_state_delta(own.clone())).await;
        old.put_state(&alice, own, "admin".into()).await.unwrap();
    }
    let limits = Limits::default().with_delta_bytes(600_000).with_event_bytes(1_200_000);
    let new = after(&store).with_limits(limits);
    assert_eq!((new.reseal_session(session.key()).await.unwrap(), new.reseal_state(&alice).await.unwrap()), (120, 120));
    assert_eq!((new.reseal_session(session.key()).await.unwrap(), new.reseal_state(&alice).await.unwrap()), (0, 0));
    let read = read(&new, session.key()).await;
    assert!(read.seq() > 150, "{}", read.seq());
    assert_eq!((read.state().get("k007"), read.state().get("user:k119")), (Some(&large(7)), Some(&large(119))));
}
