//! Watchers receive commits of this process and of others, and delay nobody.

use std::time::{Duration, Instant};

use scratchbook::session::{CommitNotices, FeedCommit, FeedStart, StateOwner};
use scratchbook::{SessionService, SqliteSessionService};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::database::{self, APP, DatabaseFile, append, create, key, setting};

const ROUNDS: u64 = 30;

fn app() -> StateOwner {
    StateOwner::app(APP).unwrap()
}

/// A reader of the app's feed that waits for new entries.
struct Watcher<'a> {
    service: &'a SqliteSessionService,
    notices: CommitNotices,
    start: FeedStart,
}

impl<'a> Watcher<'a> {
    fn new(service: &'a SqliteSessionService) -> Self {
        Self { service, notices: service.commits().unwrap(), start: FeedStart::Beginning }
    }

    /// Waits for an event that sets a key to a value, and ignores other entries.
    async fn until(&mut self, name: &str, value: Value) {
        loop {
            self.notices.forget();
            let page = self.service.list_feed(&app(), &self.start, 1).await.unwrap();
            self.start = FeedStart::After(page.cursor);
            let Some(entry) = page.entries.first() else {
                timeout(Duration::from_secs(10), self.notices.next()).await.expect("nothing was heard").unwrap();
                continue;
            };
            if let FeedCommit::Event { event, .. } = &entry.commit
                && event.actions.state_delta.get(name).and_then(|change| change.value()) == Some(&value)
            {
                return;
            }
        }
    }
}

#[tokio::test]
async fn two_processes_on_one_file_hear_of_each_other() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let mut child = database.child("sqlite::watching::a_child_answers").spawn().unwrap();
    let mut watcher = Watcher::new(&service);
    let started = Instant::now();
    for n in 0..ROUNDS {
        append(&service, &key("s1"), setting("ping", n)).await.unwrap();
        watcher.until("pong", json!(n)).await;
    }
    println!("{ROUNDS} rounds between two processes took {:?}", started.elapsed());
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn a_child_answers() {
    let Some(path) = database::of_parent() else {
        return;
    };
    let service = database::open_path(&path).await;
    let mut watcher = Watcher::new(&service);
    for n in 0..ROUNDS {
        watcher.until("ping", json!(n)).await;
        append(&service, &key("s1"), setting("pong", n)).await.unwrap();
    }
}

#[tokio::test]
async fn a_reader_that_never_reads_on_holds_up_nobody() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    append(&service, &key("s1"), setting("n", 0)).await.unwrap();
    let mut idle = service.commits().unwrap();
    let first = service.list_feed(&app(), &FeedStart::Beginning, 1).await.unwrap();
    // Nothing is kept for an idle watcher: no queue, and no snapshot that would prevent the truncation of the log.
    for n in 1..=60 {
        append(&service, &key("s1"), setting("pad", format!("{n}{}", "x".repeat(1 << 20)))).await.unwrap();
    }
    let log = std::fs::metadata(database.beside("-wal")).unwrap().len();
    assert!(log < 40 << 20, "the log has {log} bytes");
    timeout(Duration::from_secs(1), idle.next()).await.expect("it is told at once, however late it asks").unwrap();
    let (mut start, mut seen) = (FeedStart::After(first.cursor), Vec::new());
    loop {
        let page = service.list_feed(&app(), &start, 1000).await.unwrap();
        assert!(page.entries.len() <= 20, "a page of large events is short: {}", page.entries.len());
        let numbers = page.entries.iter().map(|entry| match &entry.commit {
            FeedCommit::Event { event, .. } => event.seq.unwrap(),
            other => panic!("{other:?}"),
        });
        seen.extend(numbers);
        if page.entries.is_empty() {
            break;
        }
        start = FeedStart::After(page.cursor);
    }
    assert_eq!(seen, (2..=61).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_quiet_feed_does_not_look_again_at_what_others_have_written() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let quiet = StateOwner::app("quiet").unwrap();
    let before = service.list_feed(&quiet, &FeedStart::Beginning, 10).await.unwrap();
    append(&service, &key("s1"), setting("n", 0)).await.unwrap();
    let after = service.list_feed(&quiet, &FeedStart::After(before.cursor.clone()), 10).await.unwrap();
    assert_eq!((before.entries.len(), after.entries.len()), (0, 0));
    assert_ne!(before.cursor, after.cursor);
}

#[tokio::test]
async fn a_cursor_of_a_newer_copy_is_refused() {
    let (database, copy) = (DatabaseFile::new(), DatabaseFile::new());
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    service.close().await.unwrap();
    std::fs::copy(&database.path, &copy.path).unwrap();
    let service = database.open().await;
    append(&service, &key("s1"), setting("n", 1)).await.unwrap();
    let newer = service.list_feed(&app(), &FeedStart::Now, 1).await.unwrap().cursor;
    let copied = copy.open().await;
    let error = copied.list_feed(&app(), &FeedStart::After(newer), 1).await.unwrap_err();
    assert_eq!(error.kind(), scratchbook::ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("ahead of the feed"), "{error}");
}

/// After a backup, the copy and the original have different commits.
#[tokio::test]
async fn a_backup_has_a_feed_of_its_own() {
    let (database, copy) = (DatabaseFile::new(), DatabaseFile::new());
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let cursor = service.list_feed(&app(), &FeedStart::Now, 1).await.unwrap().cursor;
    service.backup(&copy.path).await.unwrap();
    let copied = copy.open().await;
    append(&copied, &key("s1"), setting("n", 1)).await.unwrap();
    let error = copied.list_feed(&app(), &FeedStart::After(cursor.clone()), 1).await.unwrap_err();
    assert_eq!(error.kind(), scratchbook::ErrorKind::InvalidArgument);
    append(&service, &key("s1"), setting("n", 2)).await.unwrap();
    assert_eq!(service.list_feed(&app(), &FeedStart::After(cursor), 1).await.unwrap().entries.len(), 1);
}
