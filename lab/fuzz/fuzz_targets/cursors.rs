//! Cursors of feeds, of lists and of events. For any text, the store either refuses the cursor or continues from a
//! place. What it then returns is the end of the whole list, and is the same in one page as in pages of one entry.
#![no_main]

mod now;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use now::now;
use scratchbook::session::{FeedCursor, FeedStart, ListSessionsConfig, PutStateOptions, StateOwner};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, InMemorySessionService, Result, SessionKey,
    SessionService, StateDelta,
};

/// A limit above the length of every list in the store.
const ALL: usize = 1000;

struct Whole {
    store: InMemorySessionService,
    app: StateOwner,
    /// The beginning of all cursors of the feed.
    feed: String,
    /// The place of each entry of the feed.
    entries: Vec<String>,
    sessions: Vec<SessionKey>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let store = InMemorySessionService::new();
    let app = StateOwner::app("app").expect("a name");
    let delta = || StateDelta::new().with("user:a", 1).and_then(|delta| delta.with("app:b", 2)).expect("a delta");
    for user in ["alice", "bob"] {
        for session in ["1", "2", "3"] {
            let config = CreateSessionConfig::default().with_session_id(session);
            let config = config.with_state(serde_json::json!({"user:x": 1, "app:y": 2, "z": 3}));
            let made = now(store.create_session("app", user, config)).expect("a new session");
            for _ in 0..3 {
                let event = Event::new("agent").with_state_delta(delta());
                now(store.append(made.key(), event, AppendOptions::default())).expect("an event");
            }
        }
    }
    let put = StateDelta::new().with("c", 3).expect("a delta");
    now(store.put_state(&app, put, PutStateOptions::by("admin"))).expect("a key");
    now(store.delete_session(&SessionKey::new("app", "bob", "2").expect("a name"))).expect("a deletion");
    let page = now(store.list_feed(&app, &FeedStart::Beginning, ALL)).expect("the feed");
    let (feed, _) = page.cursor.as_str().split_once(' ').expect("a cursor");
    let (feed, entries) = (feed.to_owned(), page.entries.iter().map(|entry| place(&entry.cursor)).collect());
    let listed = now(store.list_sessions("app", &ListSessionsConfig::default())).expect("a list");
    let sessions = listed.sessions.iter().map(|session| session.key().clone()).collect();
    Whole { store, app, feed, entries, sessions }
});

fuzz_target!(|text: &str| {
    feed(text);
    feed(&format!("{} {text}", WHOLE.feed));
    list(text);
    list(&URL_SAFE_NO_PAD.encode(text));
    if let Some((seq, limit)) = text.split_once(' ')
        && let (Ok(seq), Ok(limit)) = (seq.parse(), limit.parse())
    {
        events(seq, limit);
    }
});

fn feed(cursor: &str) {
    let read =
        |cursor: &FeedCursor, limit| now(WHOLE.store.list_feed(&WHOLE.app, &FeedStart::After(cursor.clone()), limit));
    let mut cursor = FeedCursor::new(cursor);
    let Some(page) = accepted(read(&cursor, ALL), cursor.as_str()) else { return };
    let places: Vec<_> = page.entries.iter().map(|entry| place(&entry.cursor)).collect();
    assert!(WHOLE.entries.ends_with(&places), "{places:?} after {cursor}");
    for expected in &places {
        let page = read(&cursor, 1).expect("the cursor of a page");
        assert_eq!(page.entries.len(), 1);
        assert_eq!(place(&page.entries[0].cursor), *expected);
        cursor = page.cursor;
    }
    assert!(read(&cursor, 1).expect("the last cursor").entries.is_empty());
}

/// Returns a cursor's place, without what it notes of the beginning.
fn place(cursor: &FeedCursor) -> String {
    cursor.as_str().split('~').next().unwrap_or_default().to_owned()
}

fn list(token: &str) {
    let config = ListSessionsConfig::default().with_page_token(token);
    let read = |config: ListSessionsConfig| now(WHOLE.store.list_sessions("app", &config));
    let Some(page) = accepted(read(config.clone()), token) else { return };
    let keys: Vec<_> = page.sessions.iter().map(|session| session.key().clone()).collect();
    assert!(WHOLE.sessions.ends_with(&keys) && page.next_page_token.is_none());
    let mut next = Some(token.to_owned());
    for expected in &keys {
        let token = next.expect("another page");
        let page = read(config.clone().with_page_token(token).with_page_size(1)).expect("the token of a page");
        assert_eq!(page.sessions[0].key(), expected);
        next = page.next_page_token;
    }
    assert!(next.is_none() || keys.is_empty());
}

fn events(seq: u64, limit: usize) {
    let key = &WHOLE.sessions[0];
    let read = |config| now(WHOLE.store.get_session(key, &config)).expect("a read").expect("a session");
    let numbers = |config| read(config).events().iter().filter_map(|event| event.seq).collect::<Vec<_>>();
    let after: Vec<_> = (1..=3).filter(|number| *number > seq).take(limit).collect();
    assert_eq!(numbers(GetSessionConfig::default().with_events_after(seq, limit)), after);
    let before: Vec<_> = (1..=3).filter(|number| *number < seq).collect();
    let first = before.len().saturating_sub(limit);
    assert_eq!(numbers(GetSessionConfig::default().with_events_before(seq, limit)), before[first..]);
}

/// Returns what was read, or `None` if the cursor was refused. Asserts that the error is short.
fn accepted<T>(read: Result<T>, cursor: &str) -> Option<T> {
    read.map_err(|error| {
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::FailedPrecondition), "{error}");
        assert!(error.to_string().len() <= 10 * cursor.len() + 200, "{error}");
    })
    .ok()
}
