//! Pages limited by bytes.

use serde_json::{Value, json};

use super::support::{TestApp, changing, delta, saying, seqs};
use scratchbook_core::session::{
    ChangeQuery, CreateSessionConfig, GetSessionConfig, ListSessionsConfig, ListStateConfig, PutStateOptions, Session,
    SessionKey, StateOwner,
};
use scratchbook_core::store::Store;

/// The approximate size of each item in a page.
const ITEM: usize = 10_000;

/// The maximum size of a page: it has room for two items, but not for three.
const ROOM: u64 = 25_000;

/// Returns a text that compresses badly, because the stored size counts.
fn noise(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..length).map(letter).collect()
}

fn text() -> Value {
    noise(ITEM).into()
}

/// Returns all pages of the sessions of an app.
async fn pages(test: &TestApp, config: ListSessionsConfig) -> Vec<Vec<Session>> {
    let (mut pages, mut config) = (Vec::new(), config);
    loop {
        let page = test.sessions().list_sessions(&test.app, &config).await.expect("list_sessions");
        pages.push(page.sessions);
        let Some(token) = page.next_page_token else { return pages };
        config = config.with_page_token(token);
    }
}

/// A page of sessions stays within its bytes or has one session; its token shows that there are more, and continues the
/// list.
pub async fn a_list_of_sessions_ends_by_its_bytes(store: &Store) {
    let test = TestApp::new(store);
    for n in 0..7 {
        let config = CreateSessionConfig::default().with_session_id(n.to_string()).with_state(json!({"note": text()}));
        test.create_with(["alice", "bob"][n % 2], config, vec![saying("hello").with_timestamp(n as f64)]).await;
    }
    for (of, wanted) in [(None, 7), (Some("alice"), 4)] {
        for (bytes, most) in [(ROOM, 3), (1, 2)] {
            let mut config = ListSessionsConfig::default().with_page_bytes(bytes);
            config.user_id = of.map(str::to_owned);
            for config in [config.clone(), config.newest_first()] {
                let pages = pages(&test, config).await;
                assert!(pages.iter().all(|page| (1..=most).contains(&page.len())), "{pages:?}");
                let mut ids: Vec<_> = pages.iter().flatten().map(|session| session.id().to_owned()).collect();
                ids.sort();
                ids.dedup();
                assert_eq!((ids.len(), pages.iter().flatten().count()), (wanted, wanted));
                assert!(pages.iter().flatten().all(|session| session.state().get("note") == Some(&text())));
            }
        }
    }
}

/// The state of a user and of the app, which all sessions of a page share, does not use up the page.
pub async fn the_state_that_sessions_share_takes_no_room_of_a_list(store: &Store) {
    let test = TestApp::new(store);
    let shared = json!({"user:profile": noise(10 * ITEM), "app:catalogue": noise(10 * ITEM)});
    test.create("alice", shared).await;
    for _ in 0..9 {
        test.create("alice", json!({})).await;
    }
    let config = ListSessionsConfig::default().with_user_id("alice").with_page_bytes(ROOM);
    let pages = pages(&test, config).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10]);
    assert!(pages[0].iter().all(|session| session.state().contains("user:profile")));
}

/// The events of a read stay within the page's bytes, or the read has one event: the first after a number, otherwise
/// the last.
pub async fn events_end_by_their_bytes(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"own": 1})).await;
    let key = session.key();
    for n in 0..10 {
        test.append(key, changing(json!({"note": text()})).with_timestamp(f64::from(n))).await;
    }
    let some = GetSessionConfig::default;
    let (mut after, mut all) = (0, Vec::new());
    while after < 10 {
        let page = read(&test, key, some().with_events_after(after, 100)).await;
        after = *page.last().unwrap();
        all.extend(page);
    }
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    assert_eq!(read(&test, key, some().with_events_before(9, 100)).await.last(), Some(&8));
    for last in [some(), some().with_num_recent_events(9), some().with_after_timestamp(2.0)] {
        assert_eq!(read(&test, key, last).await.last(), Some(&10));
    }
    assert_eq!(read(&test, key, some().with_after_timestamp(2.0).with_num_recent_events(5)).await.last(), Some(&10));
    let one = test.read(key, some().with_events_after(3, 100).with_page_bytes(1)).await;
    assert_eq!(seqs(&one), [4]);
    let few = test.read(key, some().with_events_after(3, 2).with_page_bytes(u64::MAX)).await;
    assert_eq!(seqs(&few), [4, 5]);
}

/// Returns the numbers of the events of a page, which are consecutive.
async fn read(test: &TestApp, key: &SessionKey, config: GetSessionConfig) -> Vec<u64> {
    let session = test.read(key, config.with_page_bytes(ROOM)).await;
    assert_eq!((session.seq(), session.state().get("own")), (10, Some(&json!(1))));
    let seqs = seqs(&session);
    assert!((1..=3).contains(&seqs.len()), "{seqs:?}");
    assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seqs:?}");
    seqs
}

/// A page of the state of a user or an app stays within its bytes, or has one key.
pub async fn shared_state_ends_by_its_bytes(store: &Store) {
    let test = TestApp::new(store);
    for owner in [test.user("alice"), test.app()] {
        let values: serde_json::Map<_, _> = (0..7).map(|n| (format!("key-{n}"), text())).collect();
        put(&test, &owner, values.into()).await;
        for (bytes, most) in [(ROOM, 3), (1, 1)] {
            let (mut config, mut names) = (ListStateConfig::default().with_page_bytes(bytes), Vec::new());
            loop {
                let page = test.sessions().list_state(&owner, &config).await.expect("list_state");
                assert!((1..=most).contains(&page.values.len()), "{}", page.values.len());
                names.extend(page.values.keys().cloned());
                let Some(next) = page.next else { break };
                config = config.with_after(next);
            }
            assert_eq!(names, (0..7).map(|n| format!("key-{n}")).collect::<Vec<_>>());
        }
    }
}

/// A page of a log has no more than about 16 MiB, and continuing after it returns every change once.
pub async fn a_log_ends_by_its_bytes(store: &Store) {
    let test = TestApp::new(store);
    let owner = test.user("alice");
    let large = noise(5 << 19);
    for n in 0..7 {
        put(&test, &owner, json!({"note": format!("{n}{large}")})).await;
    }
    let (mut after, mut versions) = (0, Vec::new());
    loop {
        let page = test
            .sessions()
            .list_state_changes(&owner, &ChangeQuery::After(after), 100)
            .await
            .expect("list_state_changes");
        assert!(page.len() <= 6, "{} changes of 2.5 MiB each", page.len());
        let Some(last) = page.last() else { break };
        after = last.position;
        versions.extend(page.iter().map(|change| change.version));
    }
    assert_eq!(versions, (1..=7).collect::<Vec<_>>());
    let (mut before, mut versions) = (u64::MAX, Vec::new());
    loop {
        let page = test
            .sessions()
            .list_state_changes(&owner, &ChangeQuery::of_key("note", before), 100)
            .await
            .expect("list_state_changes");
        assert!(page.len() <= 6, "{} changes of 2.5 MiB each", page.len());
        let Some(last) = page.last() else { break };
        before = last.position;
        versions.extend(page.iter().map(|change| change.version));
    }
    assert_eq!(versions, (1..=7).rev().collect::<Vec<_>>());
}

async fn put(test: &TestApp, owner: &StateOwner, state: Value) {
    let options = PutStateOptions::by("somebody");
    test.sessions().put_state(owner, delta(state), options).await.expect("put_state");
}
