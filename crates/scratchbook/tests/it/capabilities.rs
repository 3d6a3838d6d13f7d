//! Stores that lack some capability, and code that asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use scratchbook::agent::{EventsCompactionConfig, LlmEventsSummarizer};
use scratchbook::conformance::{PROMISES, all};
use scratchbook::prelude::*;
use scratchbook::session::{Capabilities, Capability, Committed, forward_sessions, unsupported_sessions};

use crate::runner::run;

/// A store without a feed.
#[derive(Debug)]
struct WithoutFeed(Arc<InMemorySessionService>);

#[async_trait]
impl SessionService for WithoutFeed {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all().without([Capability::Feed, Capability::Removals])
    }

    unsupported_sessions!("read the session again" => list_feed, commits);

    forward_sessions!(self.0 =>
        create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_sessions,
        locate_session, delete_session, append, get_state, state_bytes, list_state, put_state, list_state_changes,
        update_session, prune, list_event_hashes, list_owners, delete_user, check_writable, close);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_a_feed_is_held_to_everything_else() {
    let memory = Arc::new(InMemorySessionService::new());
    let store = Store::of(Arc::new(WithoutFeed(Arc::clone(&memory))), memory);
    let expected = PROMISES.iter().filter(|promise| promise.is_expected_of(&store)).count();
    assert!(expected < PROMISES.len() && expected > PROMISES.len() / 2, "{expected} of {}", PROMISES.len());
    all(&store).await;

    let error = WithoutFeed(Arc::default()).commits().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "the store does not support commits; read the session again");
}

/// A store that counts the appends with optimistic locking.
#[derive(Debug)]
struct Counting {
    store: InMemorySessionService,
    capabilities: Capabilities,
    guarded: Arc<AtomicUsize>,
}

#[async_trait]
impl SessionService for Counting {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    forward_sessions!(self.store =>
        create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_sessions,
        locate_session, delete_session, get_state, state_bytes, list_state, put_state, list_state_changes, list_feed, commits,
        update_session, prune, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.guarded.fetch_add(usize::from(options.conflict != ConflictMode::Merge), Ordering::Relaxed);
        self.store.append(key, event, options).await
    }
}

#[tokio::test]
async fn a_runner_asks_a_store_without_optimistic_locking_for_none() {
    for (capabilities, guarded_appends) in
        [(Capabilities::all(), 1), (Capabilities::all().without([Capability::Conflicts]), 0)]
    {
        let guarded = Arc::new(AtomicUsize::new(0));
        let store = InMemorySessionService::new();
        let sessions = Counting { store, capabilities, guarded: Arc::clone(&guarded) };
        let model = ScriptedLlm::new(["answer", "summary"]);
        let agent = LlmAgent::builder("agent").model(model.clone()).build().unwrap();
        let summarizer = LlmEventsSummarizer::new(model);
        let summaries = EventsCompactionConfig::by_invocations(1, 0).with_summarizer(summarizer);
        let runner = Runner::builder("app", agent, sessions).auto_create_session().events_compaction(summaries);
        let runner = runner.build().unwrap();
        run(&runner, "hello").await.unwrap();
        let stored = crate::runner::stored(&runner).await;
        assert!(stored.events().last().unwrap().actions.compaction.is_some(), "a summary was made");
        assert_eq!(guarded.load(Ordering::Relaxed), guarded_appends, "{capabilities:?}");
    }
}
