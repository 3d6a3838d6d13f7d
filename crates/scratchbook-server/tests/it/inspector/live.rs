//! New events reach a page as they are committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use scratchbook::session::{FeedPage, FeedStart, StateOwner, forward_sessions};
use scratchbook::state::StateDelta;
use scratchbook::{Event, GetSessionConfig, Result, Session, SessionKey, SessionService, Store, connect};
use scratchbook_server::ServerLimits;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::{S1, set, shop};
use crate::support::TestClient;

/// Reads the frames of a stream until one has this text.
async fn until(body: &mut Body, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("no {text} in {seen}")).unwrap().unwrap();
        seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    seen
}

async fn follow(client: &TestClient, last: Option<&str>) -> Body {
    let request = Request::get(format!("{S1}/live")).header("last-event-id", last.unwrap_or_default());
    let response = client.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

#[tokio::test]
async fn a_commit_appears_and_a_lost_connection_misses_nothing() {
    let client = shop().await;
    let mut body = follow(&client, None).await;
    let first = until(&mut body, "id: ").await;
    let place = first.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    set(&client, "step", "<new>").await;
    let frame = until(&mut body, "\"seq\":4").await;
    assert!(!frame.contains("new"), "the page fetches what the event has: {frame}");
    drop(body);
    set(&client, "step", "later").await;
    let mut again = follow(&client, Some(&place)).await;
    let both = until(&mut again, "\"seq\":5").await;
    assert!(both.contains("\"seq\":4"), "{both}");
    let key = scratchbook::SessionKey::new("shop", "alice", "s1").unwrap();
    client.store.sessions.delete_session(&key).await.unwrap();
    until(&mut again, "\"gone\":true").await;
}

#[tokio::test]
async fn a_page_learns_what_was_committed_before_its_stream_began() {
    let client = shop().await;
    // The page was made at event 3.
    set(&client, "step", "between").await;
    let mut body = follow(&client, None).await;
    until(&mut body, "{\"last\":4}").await;
    set(&client, "step", "later").await;
    until(&mut body, "\"seq\":5").await;
}

/// Appends an event that sets a key, in a session of a user of the shop.
async fn set_in(client: &TestClient, user: &str, session: &str, key: &str, value: &str) {
    let session = SessionKey::new("shop", user, session).unwrap();
    let event = Event::new("clerk").with_state_delta(StateDelta::new().with(key, value).unwrap());
    client.store.sessions.append(&session, event, Default::default()).await.unwrap();
}

/// Counts the frames without an event that arrive within this time.
async fn changes(body: &mut Body, time: Duration) -> usize {
    let (mut seen, end) = (String::new(), tokio::time::Instant::now() + time);
    while let Ok(Some(frame)) = tokio::time::timeout_at(end, body.frame()).await {
        seen.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
    }
    seen.matches("data: {}").count()
}

#[tokio::test]
async fn what_other_sessions_write_to_shared_keys_appears() {
    let client = shop().await;
    for (user, session) in [("alice", "s2"), ("bob", "b1")] {
        client.session("shop", user, session).await;
    }
    let mut body = follow(&client, None).await;
    let first = until(&mut body, "id: ").await;
    set_in(&client, "alice", "s2", "user:theme", "dark").await;
    until(&mut body, "data: {}").await;
    set_in(&client, "bob", "b1", "app:open", "no").await;
    until(&mut body, "data: {}").await;
    let delta = StateDelta::new().with("tier", "silver").unwrap();
    client.store.sessions.put_state(&StateOwner::user("shop", "alice").unwrap(), delta, "till".into()).await.unwrap();
    until(&mut body, "data: {}").await;

    // Changes of keys that this session does not see are not reported, and many changes are reported as one.
    let moment = Duration::from_millis(700);
    set_in(&client, "bob", "b1", "user:theme", "light").await;
    set_in(&client, "alice", "s2", "step", "9").await;
    assert_eq!(changes(&mut body, moment).await, 0);
    for n in 0..50 {
        set_in(&client, "bob", "b1", "app:open", &n.to_string()).await;
    }
    let frames = changes(&mut body, Duration::from_secs(2)).await;
    assert!((1..10).contains(&frames), "{frames} frames for 50 changes");

    // A page that was disconnected may have missed changes, so one is reported.
    let place = first.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    until(&mut follow(&client, Some(&place)).await, "data: {}").await;
}

/// A store that counts the reads of the pages.
#[derive(Debug)]
struct CountsReads {
    service: Arc<dyn SessionService>,
    reads: Arc<AtomicUsize>,
}

#[async_trait]
impl SessionService for CountsReads {
    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.service.get_session(key, config).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.service.list_feed(owner, start, limit).await
    }

    forward_sessions!(self.service =>
        append, capabilities, get_initial_state, get_state_at, blame, create_session, list_sessions, fork_session,
        locate_session, delete_session, put_state, get_state, state_bytes, list_state, list_state_changes, commits, update_session,
        prune, list_event_hashes, list_owners, delete_user, check_writable, close);
}

#[tokio::test]
async fn two_hundred_pages_of_one_session_read_each_commit_once() {
    const PAGES: usize = 200;
    const COMMITS: usize = 20;
    let inner = connect("memory:").await.unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let counting = CountsReads { service: inner.sessions.clone(), reads: Arc::clone(&reads) };
    let store = Store::of(Arc::new(counting), inner.artifacts.clone());
    let client = TestClient::new(store, |server| server.limits(ServerLimits::default().with_streams(1000)));
    client.session("shop", "alice", "s1").await;
    client.session("shop", "bob", "b1").await;
    let (mut pages, open) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..PAGES {
        let mut body = follow(&client, None).await;
        let open = Arc::clone(&open);
        pages.spawn(async move {
            until(&mut body, "id: ").await;
            open.fetch_add(1, Ordering::SeqCst);
            until(&mut body, &format!("\"seq\":{COMMITS}}}")).await;
            until(&mut body, "data: {}").await;
        });
    }
    // Wait until all pages have read to the end.
    let mut before = usize::MAX;
    while open.load(Ordering::SeqCst) < PAGES || before != reads.load(Ordering::SeqCst) {
        before = reads.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for n in 0..COMMITS {
        set_in(&client, "alice", "s1", "step", &n.to_string()).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    set_in(&client, "bob", "b1", "app:open", "yes").await;
    while let Some(page) = pages.join_next().await {
        page.unwrap();
    }
    let reads = reads.load(Ordering::SeqCst) - before;
    println!("{PAGES} pages, {COMMITS} commits: {reads} reads");
    // One reader of the session's feed and one of the app's feed, each with one more read to find the end.
    assert!(reads <= 6 * (COMMITS + 1), "{reads} reads for {PAGES} pages and {COMMITS} commits");
}
