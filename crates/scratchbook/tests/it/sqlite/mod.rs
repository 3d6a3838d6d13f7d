//! Promises of the SQLite store alone: what it refuses, and what it survives.

mod damage;
mod files;
mod history;
mod keeping;
mod limits;
mod opening;
mod retention;
mod waiting;
mod watching;

use std::fs::{self, File};
use std::time::Duration;

use futures_util::FutureExt;
use scratchbook::SqliteSessionService;

use crate::database::{DatabaseFile, append, key};

fn is_in(path: &std::path::Path, trace: &str) -> bool {
    fs::read(path).unwrap().windows(trace.len()).any(|window| window == trace.as_bytes())
}

/// Takes the lock like another process, through another open file.
fn held_lock(database: &DatabaseFile) -> File {
    let lock = File::options().write(true).open(database.beside("-lock")).unwrap();
    lock.lock().unwrap();
    lock
}

type PendingAppend<'a> = std::pin::Pin<Box<dyn Future<Output = scratchbook::Result<u64>> + 'a>>;

/// Returns an append that is already in the queue.
fn append_later(service: &SqliteSessionService, event: scratchbook::Event) -> PendingAppend<'_> {
    let mut append: PendingAppend<'_> = Box::pin(async move { append(service, &key("s1"), event).await });
    assert!(append.as_mut().now_or_never().is_none());
    append
}

/// Runs a future on a minimal executor.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Some(ready) = future.as_mut().now_or_never() {
            return ready;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
