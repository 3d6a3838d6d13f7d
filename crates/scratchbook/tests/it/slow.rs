//! Stores whose writes are slow, or whose answers are lost: deadlines, and runs that write to such a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use scratchbook::agent::{FunctionAgent, InvocationContext};
use scratchbook::layer::WithDeadline;
use scratchbook::prelude::*;
use scratchbook::session::{Committed, forward_sessions};
use serde_json::json;

use crate::runner::{app, run, session_with, stored};

/// A store whose appends pause before they begin and after they are committed.
#[derive(Debug)]
struct SlowStore {
    store: Arc<dyn SessionService>,
    pause: Duration,
}

#[async_trait]
impl SessionService for SlowStore {
    forward_sessions!(self.store =>
        capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_state,
        list_feed, commits, update_session, prune, list_sessions, locate_session, delete_session, get_state, state_bytes,
        put_state, list_state_changes, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        tokio::time::sleep(self.pause).await;
        let committed = self.store.append(key, event, options).await;
        tokio::time::sleep(self.pause).await;
        committed
    }
}

/// A store that commits each append, loses the answer, and retries.
#[derive(Debug)]
struct RetryingStore(Arc<dyn SessionService>);

#[async_trait]
impl SessionService for RetryingStore {
    forward_sessions!(self.0 =>
        capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_state,
        list_feed, commits, update_session, prune, list_sessions, locate_session, delete_session, get_state, state_bytes,
        put_state, list_state_changes, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.0.append(key, event.clone(), options.clone()).await?;
        self.0.append(key, event, options).await
    }
}

#[tokio::test]
async fn a_run_goes_on_if_the_answers_to_its_appends_were_lost() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        let delta = StateDelta::new().with_increment("n", 1).unwrap();
        let events = [context.event().with_state_delta(delta.clone()), context.event().with_state_delta(delta)];
        futures_util::stream::iter(events.map(Ok))
    });
    let runner = Runner::builder("app", agent, RetryingStore(app())).auto_create_session().build().unwrap();
    run(&runner, "hi").await.unwrap();
    let session = stored(&runner).await;
    assert_eq!((session.events().len(), session.state().get("n")), (3, Some(&json!(2))));
}

#[tokio::test]
async fn a_call_that_misses_its_deadline_is_unavailable() {
    let service = app();
    let key = session_with(&service, json!({})).await;
    let slow = SlowStore { store: service, pause: Duration::from_secs(5) };
    let hurried = WithDeadline::new(slow, Duration::from_millis(10));
    let error = hurried.append(&key, Event::new("a"), AppendOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains("0.01 s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_dropped_while_it_writes_finishes_that_write_before_the_next_begins() {
    let agent = FunctionAgent::new("agent", |context: InvocationContext| {
        let seen = context.session().events().iter().filter(|event| event.author == "agent").count();
        futures_util::stream::iter([StateDelta::new()
            .with("seen", seen)
            .map(|delta| context.event().with_state_delta(delta))])
    });
    let slow = SlowStore { store: app(), pause: Duration::from_millis(40) };
    let runner = Runner::builder("app", agent, slow).auto_create_session().build().unwrap();
    let mut events = runner.run("user", "s", "one");
    // The user's message takes 80 ms; after this, the append of the agent's event has begun.
    tokio::time::timeout(Duration::from_millis(100), events.next()).await.unwrap_err();
    drop(events);
    run(&runner, "two").await.unwrap();
    let session = stored(&runner).await;
    assert_eq!(session.events().len(), 4, "the dropped run's event is there");
    assert_eq!(session.state().get("seen"), Some(&json!(1)), "and was there when the second run began");
}
