//! What a store says it can do. The promises that need a capability are expected of a store that has it.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Capability, ChangeQuery, CheckedWrite, CreateSessionConfig, Expiry, FeedStart, ForkConfig,
    GetSessionConfig, ListSessionsConfig, ListStateConfig, Prune, SessionUpdate, StateCheck,
};
use scratchbook_core::state::{Scope, StateDelta};
use scratchbook_core::store::Store;

/// If the store lacks the capability that a call needs, the call is refused as `Unsupported` or behaves as documented
/// for that case. No call silently does something else.
pub async fn what_a_store_lacks_is_refused(store: &Store) {
    for capability in store.sessions.capabilities().missing() {
        is_refused(store, capability).await;
    }
}

async fn is_refused(store: &Store, capability: Capability) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1})).await;
    let (key, sessions) = (session.key(), test.sessions());
    match capability {
        Capability::Numbers => {
            let committed = test.append(key, saying("hello")).await;
            assert_eq!(committed.event.seq, None, "a number that is not known is not told");
        }
        Capability::Replays => {
            // The service decides whether the same event is stored once or twice.
            let event = || saying("hello").with_id("e").with_timestamp(5.0);
            test.append(key, event()).await;
            if let Err(error) = test.try_append(key, event()).await {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            }
        }
        Capability::Operations => {
            let counting = StateDelta::new().with_increment("a", 1).unwrap();
            let guarded = StateDelta::new().with_expect("a", 1).unwrap().with("b", 1).unwrap();
            for delta in [counting, guarded] {
                refused(test.try_append(key, Event::new("agent").with_state_delta(delta)).await);
            }
        }
        Capability::Conflicts => {
            for options in
                [AppendOptions::by_key(session.seen().clone()), AppendOptions::by_session(session.seen().clone())]
            {
                refused(sessions.append(key, changing(json!({"a": 2})), options).await);
            }
        }
        Capability::Checks => {
            let check = Arc::new(All);
            let options = AppendOptions::default().with_check(Arc::clone(&check) as Arc<dyn StateCheck>);
            refused(sessions.append(key, changing(json!({"a": 2})), options).await);
            refused(test.try_create("alice", CreateSessionConfig::default().with_check(check)).await);
        }
        Capability::SharedState => {
            for owner in [test.user("alice"), test.app()] {
                refused(sessions.get_state(&owner).await);
                refused(sessions.list_state(&owner, &ListStateConfig::default()).await);
                refused(sessions.put_state(&owner, StateDelta::new().with("a", 1).unwrap(), "test".into()).await);
                refused(sessions.list_state_changes(&owner, &ChangeQuery::After(0), 10).await);
                refused(sessions.list_state_changes(&owner, &ChangeQuery::of_key("a", u64::MAX), 10).await);
                refused(sessions.prune(Prune::state_log(&owner, 1), 10).await);
            }
        }
        Capability::History => {
            refused(sessions.get_initial_state(key).await);
            refused(sessions.get_state_at(key, 0).await);
            refused(sessions.blame(key).await);
            refused(sessions.fork_session(key, ForkConfig::default()).await);
        }
        Capability::Feed => {
            refused(sessions.list_feed(&test.app(), &FeedStart::Now, 10).await);
            refused(sessions.commits());
        }
        // Without a feed nothing can show removals.
        Capability::Removals => refused(sessions.list_feed(&test.app(), &FeedStart::Beginning, 10).await),
        Capability::Retention => {
            refused(sessions.prune(Prune::events(key, 1), 10).await);
            assert_refused(
                sessions.update_session(key, SessionUpdate::default().with_expiry(Expiry::At(1.0))).await,
                ErrorKind::InvalidArgument,
                "an end in the past",
            );
        }
        Capability::EventHashes => refused(sessions.list_event_hashes(key, 0, 10).await),
        Capability::Owners => {
            refused(sessions.list_owners(None, 10).await);
            refused(sessions.delete_user(&test.app, "alice").await);
        }
        Capability::WholeCreation => {
            let config = CreateSessionConfig::default();
            refused(test.try_create("alice", config.clone().with_events(vec![saying("hello")])).await);
            refused(test.try_create("alice", config.clone().with_create_time(1.0)).await);
            refused(test.try_create("alice", config.with_shared_keys_left()).await);
        }
        Capability::TitleSearch => {
            let config = ListSessionsConfig::default().with_title_containing("a");
            refused(sessions.list_sessions(&test.app, &config).await);
        }
        Capability::AnyIds => {
            let taken = CreateSessionConfig::default().with_session_id(session.id());
            assert_refused(test.try_create("bob", taken).await, ErrorKind::AlreadyExists, "another user's id");
            let odd = CreateSessionConfig::default().with_session_id("a b");
            assert_refused(test.try_create("bob", odd).await, ErrorKind::InvalidArgument, "an odd id");
        }
        Capability::ExactIntegers => {
            refused(test.try_append(key, changing(json!({"a": u64::MAX}))).await);
            let config = CreateSessionConfig::default().with_state(json!({"a": {"b": [i64::MIN]}}));
            refused(test.try_create("alice", config).await);
        }
        Capability::AnyEvents => {
            let nobody = Event::new("").with_content("hello");
            assert_refused(test.try_append(key, nobody).await, ErrorKind::InvalidArgument, "an event of nobody");
        }
        Capability::Snapshots => {
            let options = AppendOptions::default().with_update(SessionUpdate::default().with_title("both"));
            refused(sessions.append(key, changing(json!({"a": 2})), options).await);
        }
        // Artifacts may be kept by another service. No call needs the remaining capabilities.
        _ => {}
    }
    let after = test.read(key, GetSessionConfig::state_only()).await;
    assert_eq!(
        after.state().to_map(),
        json!({"a": 1}).as_object().cloned().unwrap(),
        "what was refused changed nothing"
    );
}

#[track_caller]
fn refused<T: Debug>(result: Result<T>) {
    assert_refused(result, ErrorKind::Unsupported, "what the store cannot do");
}

/// A check that accepts everything.
#[derive(Debug)]
struct All;

impl StateCheck for All {
    fn needs_scope(&self, _: Scope, _: &str) -> bool {
        false
    }

    fn check(&self, _: &CheckedWrite<'_>) -> Result<()> {
        Ok(())
    }
}
