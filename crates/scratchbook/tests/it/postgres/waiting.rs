//! The feed while other commits are in progress, and how other processes are notified of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scratchbook::session::{FeedCommit, FeedEntry, FeedStart, Prune, StateOwner};
use scratchbook::store::PostgresSessionService;
use scratchbook::{SessionService, StateDelta};
use scratchbook_test_servers::Proxy;
use serde_json::json;

use super::server::{TestSchema, client};
use crate::database::{append, create, key, setting};

fn app() -> StateOwner {
    StateOwner::app("app").unwrap()
}

/// Returns the new entries after a place, read in pages, and moves the place behind them.
async fn rest(service: &PostgresSessionService, start: &mut FeedStart, limit: usize) -> Vec<FeedEntry> {
    let mut entries = Vec::new();
    loop {
        let page = service.list_feed(&app(), start, limit).await.unwrap();
        *start = FeedStart::After(page.cursor);
        if page.entries.is_empty() {
            return entries;
        }
        entries.extend(page.entries);
    }
}

fn sessions(entries: &[FeedEntry]) -> Vec<String> {
    let session = |entry: &FeedEntry| match &entry.commit {
        FeedCommit::Event { session, event } => format!("{} {}", session.session_id(), event.seq.unwrap()),
        other => format!("{other:?}"),
    };
    entries.iter().map(session).collect()
}

/// A commit has its position, but is not visible yet while later commits are read. It is read as soon as it is visible.
#[tokio::test]
async fn a_commit_that_was_slow_is_not_skipped() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    for session in ["slow", "quick"] {
        create(&service, session, json!({})).await;
        append(&service, &key(session), setting("n", 0)).await.unwrap();
    }
    let mut start = FeedStart::Beginning;
    assert_eq!(rest(&service, &mut start, 1).await.len(), 2);

    // This is half of an append: its event has a position, and its transaction is open.
    let slow = client(schema.server()).await;
    let (name, columns) =
        (schema.name(), "app_name, user_id, session_id, invocation_id, author, timestamp, latest, event");
    let half = format!(
        "BEGIN; SELECT 1 FROM {name}.sessions WHERE id = 'slow' FOR NO KEY UPDATE;
         INSERT INTO {name}.events ({columns}, seq, id, hash, position, xid)
         SELECT {columns}, 2, 'slow', hash, nextval('{name}.positions'), pg_current_xact_id()
         FROM {name}.events WHERE session_id = 'slow' AND seq = 1"
    );
    slow.batch_execute(&half).await.unwrap();
    for n in 1..=3 {
        append(&service, &key("quick"), setting("n", n)).await.unwrap();
    }
    let mut half_way = start.clone();
    let page = service.list_feed(&app(), &half_way, 2).await.unwrap();
    half_way = FeedStart::After(page.cursor);
    assert_eq!(sessions(&rest(&service, &mut start, 2).await), ["quick 2", "quick 3", "quick 4"]);
    assert_eq!(rest(&service, &mut start, 2).await.len(), 0, "the slow one is not there yet");
    append(&service, &key("quick"), setting("n", 4)).await.unwrap();
    assert_eq!(sessions(&rest(&service, &mut start, 2).await), ["quick 5"]);
    slow.batch_execute("COMMIT").await.unwrap();
    append(&service, &key("quick"), setting("n", 5)).await.unwrap();
    assert_eq!(sessions(&rest(&service, &mut start, 1).await), ["slow 2", "quick 6"]);
    assert_eq!(rest(&service, &mut start, 9).await.len(), 0);
    // A reader that stopped in the middle of a window reads the rest of that window, and then later entries.
    assert_eq!(sessions(&rest(&service, &mut half_way, 2).await), ["quick 4", "slow 2", "quick 5", "quick 6"]);
    // A reader that starts at the beginning gets everything in the order of positions.
    let all = sessions(&rest(&service, &mut FeedStart::Beginning, 3).await);
    assert_eq!(all[2..], ["slow 2", "quick 2", "quick 3", "quick 4", "quick 5", "quick 6"]);
}

/// While another transaction stays open, in any database, the cost of reading depends only on the new entries.
#[tokio::test]
async fn a_long_transaction_elsewhere_holds_nothing_up() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "s", json!({})).await;
    let other = client(schema.server()).await;
    other
        .batch_execute("BEGIN; CREATE TEMPORARY TABLE elsewhere (n int); INSERT INTO elsewhere VALUES (1)")
        .await
        .unwrap();
    let mut start = FeedStart::Beginning;
    for n in 1..=5 {
        append(&service, &key("s"), setting("n", n)).await.unwrap();
        assert_eq!(sessions(&rest(&service, &mut start, 10).await), [format!("s {n}")]);
    }
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rest(&service, &mut start, 10).await.len(), 0);
}

/// A cursor that is ahead of the database, as after the restore of an earlier copy, is refused.
#[tokio::test]
async fn a_cursor_ahead_of_the_database_is_refused() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "s", json!({})).await;
    let cursor = service.list_feed(&app(), &FeedStart::Now, 1).await.unwrap().cursor;
    let (name, _) = cursor.as_str().split_once(' ').unwrap();
    let later = scratchbook::session::FeedCursor::new(format!("{name} 99999999999:99999999999:"));
    let error = service.list_feed(&app(), &FeedStart::After(later), 1).await.unwrap_err();
    assert_eq!(error.kind(), scratchbook::ErrorKind::InvalidArgument);
}

/// A notice wakes waiting callers of another process at once. Here a second service stands for the other process.
#[tokio::test(flavor = "multi_thread")]
async fn other_processes_hear_of_a_commit_at_once() {
    let schema = TestSchema::new();
    let (writer, watcher) = (schema.open().await, schema.open().await);
    create(&writer, "s", json!({})).await;
    let mut notices = watcher.commits().unwrap();
    // This waits until the writer can see that another process listens.
    let deadline = Instant::now() + Duration::from_secs(10);
    while schema.number("SELECT count(*) FROM database_id WHERE heard_until > now()").await == 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    append(&writer, &key("s"), setting("n", 0)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut quickest = Duration::MAX;
    for n in 1..=10 {
        notices.forget();
        let start = Instant::now();
        if n % 2 == 0 {
            append(&writer, &key("s"), setting("n", n)).await.unwrap();
        } else {
            let delta = StateDelta::new().with("n", n).unwrap();
            writer.put_state(&app(), delta, "me".into()).await.unwrap();
        }
        tokio::time::timeout(Duration::from_secs(5), notices.next()).await.unwrap().unwrap();
        quickest = quickest.min(start.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(quickest < Duration::from_millis(500), "a look every second would take longer: {quickest:?}");
    watcher.close().await.unwrap();
    assert!(notices.next().await.is_err(), "it is over");
}

/// Waits until a watching service has announced that it listens, and notices arrive.
async fn is_listened_to(schema: &TestSchema) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while schema.number("SELECT count(*) FROM database_id WHERE heard_until > now()").await == 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
}

async fn heard_within(notices: &mut scratchbook::session::CommitNotices, most: Duration) {
    let begun = Instant::now();
    tokio::time::timeout(most, notices.next()).await.expect("it is heard of").unwrap();
    println!("heard of after {:?}", begun.elapsed());
}

/// A process that only forks, prunes and deletes notifies others in the same way as a process that appends.
#[tokio::test(flavor = "multi_thread")]
async fn other_processes_hear_of_forks_prunings_and_deletions_at_once() {
    let schema = TestSchema::new();
    let (writer, watcher, other) = (schema.open().await, schema.open().await, schema.open().await);
    create(&writer, "s", json!({})).await;
    for n in 0..3 {
        append(&writer, &key("s"), setting("n", n)).await.unwrap();
    }
    let mut notices = watcher.commits().unwrap().of_owner(&app());
    is_listened_to(&schema).await;
    let soon = Duration::from_secs(2);
    notices.forget();
    other.fork_session(&key("s"), scratchbook::session::ForkConfig::default().with_session_id("fork")).await.unwrap();
    heard_within(&mut notices, soon).await;
    for step in 0..3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        notices.forget();
        match step {
            0 => assert_eq!(other.prune(Prune::events(&key("s"), 2), 9).await.unwrap(), 1),
            1 => other.delete_session(&key("s")).await.unwrap(),
            _ => other.delete_user("app", "alice").await.unwrap(),
        }
        heard_within(&mut notices, soon).await;
    }
}

/// A notice that could not be sent is sent later.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_failed_is_sent_again() {
    let schema = TestSchema::new();
    let (writer, watcher) = (schema.open().await, schema.open().await);
    let uri = schema.uri("&statement_timeout_ms=200");
    let other = PostgresSessionService::connect(&uri).await.unwrap();
    create(&writer, "s", json!({})).await;
    let mut notices = watcher.commits().unwrap().of_owner(&app());
    is_listened_to(&schema).await;
    let blocking = client(schema.server()).await;
    let name = schema.name();
    blocking.batch_execute(&format!("BEGIN; LOCK TABLE {name}.database_id IN ACCESS EXCLUSIVE MODE")).await.unwrap();
    notices.forget();
    other.delete_session(&key("s")).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(700), notices.next()).await;
    assert!(early.is_err(), "nothing can be told yet");
    blocking.batch_execute("COMMIT").await.unwrap();
    heard_within(&mut notices, Duration::from_secs(4)).await;
}

/// A reader whose connections are cut repeatedly, while many tasks write, misses nothing and gets nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reconnects_has_no_gap_and_no_double() {
    const WRITERS: usize = 4;
    let schema = TestSchema::new();
    let writer = Arc::new(schema.open().await);
    let proxy = Proxy::before(schema.server()).unwrap();
    let uri = schema.uri_by(&proxy.uri(schema.server()).unwrap(), "");
    let reader = PostgresSessionService::connect(&uri).await.unwrap();
    for n in 0..WRITERS {
        create(writer.as_ref(), &format!("s{n}"), json!({})).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (writer, over) = (Arc::clone(&writer), Arc::clone(&over));
            tokio::spawn(async move {
                let mut done = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    append(writer.as_ref(), &key(&format!("s{n}")), setting("app:n", done)).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    let (mut start, mut seen) = (FeedStart::Beginning, vec![0; WRITERS]);
    let mut take = |entries: Vec<FeedEntry>| {
        for entry in entries {
            let FeedCommit::Event { session, event } = entry.commit else { panic!("{:?}", entry.commit) };
            let last: &mut u64 = &mut seen[session.session_id()[1..].parse::<usize>().unwrap()];
            *last += 1;
            assert_eq!(event.seq, Some(*last), "{session}");
        }
        seen.iter().sum::<u64>()
    };
    for _ in 0..100 {
        proxy.cut();
        let page = reader.list_feed(&app(), &start, 50).await.unwrap();
        start = FeedStart::After(page.cursor);
        take(page.entries);
    }
    over.store(true, Ordering::Relaxed);
    let mut done = 0;
    for writer in writers {
        done += writer.await.unwrap();
    }
    assert_eq!(take(rest(&reader, &mut start, 100).await), done);
}
