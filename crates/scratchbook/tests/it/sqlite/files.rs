//! A database whose file is removed or replaced while it is open, and the permissions of its files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scratchbook::store::SqliteOptions;
use scratchbook::{Error, ErrorKind, GetSessionConfig, SessionService};
use serde_json::json;
use tokio::sync::Notify;

use crate::database::{DatabaseFile, append, check_whole, create, get, key, open_path, setting};

async fn refused(service: &dyn SessionService) -> Error {
    let error = append(service, &key("s1"), setting("n", 2)).await.unwrap_err();
    assert!(error.is_for_operator(), "{error}");
    for again in [
        service.check_writable().await.unwrap_err(),
        service.get_session(&key("s1"), &GetSessionConfig::default()).await.unwrap_err(),
        append(service, &key("s1"), setting("n", 3)).await.unwrap_err(),
    ] {
        assert_eq!(again.kind(), error.kind(), "{again}");
    }
    error
}

#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_is_neither_written_nor_read_any_more() {
    for replaced in [false, true] {
        let database = DatabaseFile::new();
        let service = database.open().await;
        create(&service, "s1", json!({})).await;
        append(&service, &key("s1"), setting("n", 1)).await.unwrap();
        service.check_writable().await.unwrap();
        if replaced {
            let other = DatabaseFile::new();
            other.open().await.close().await.unwrap();
            fs::copy(&other.path, database.beside("-new")).unwrap();
            fs::rename(database.beside("-new"), &database.path).unwrap();
        } else {
            fs::remove_file(&database.path).unwrap();
        }
        let error = refused(&service).await;
        let why = if replaced { "another file has its name" } else { "was deleted or moved away" };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_is_moved_and_put_back_goes_on() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    fs::rename(&database.path, database.beside("-moved")).unwrap();
    let event = setting("n", 1).with_id("e1");
    append(&service, &key("s1"), event.clone()).await.unwrap_err();
    fs::rename(database.beside("-moved"), &database.path).unwrap();
    assert_eq!(append(&service, &key("s1"), event).await.unwrap(), 1);
    assert_eq!(get(&service, &key("s1")).await.unwrap().events().len(), 1);
}

#[tokio::test]
async fn nothing_is_acknowledged_that_is_not_in_the_file_that_was_moved_away() {
    for round in 0..8 {
        let database = DatabaseFile::new();
        let service = Arc::new(database.open().await);
        create(service.as_ref(), "s1", json!({})).await;
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (service, stop, begun) = (Arc::clone(&service), Arc::clone(&stop), Arc::clone(&begun));
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0.. {
                        let id = format!("{writer}-{n}");
                        let done = append(service.as_ref(), &key("s1"), setting("n", n).with_id(&id)).await;
                        if done.is_ok() {
                            begun.notify_one();
                            acknowledged.push(id);
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        // On a busy machine, the first append may take long.
        begun.notified().await;
        tokio::time::sleep(Duration::from_millis(3 * round)).await;
        let elsewhere = DatabaseFile::new();
        fs::rename(&database.path, &elsewhere.path).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stop.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
        service.close().await.unwrap();
        let moved = open_path(&elsewhere.path).await;
        let session = get(&moved, &key("s1")).await.unwrap();
        let stored: Vec<_> = session.events().iter().map(|event| event.id.as_str()).collect();
        assert!(!acknowledged.is_empty());
        for id in &acknowledged {
            assert!(stored.contains(&id.as_str()), "{id} was acknowledged and is nowhere");
        }
        check_whole(&moved, &serde_json::Map::new()).await;
    }
}

/// Truncates a file with another program, because closing the file in this process would drop SQLite's locks.
fn truncate(path: &Path, bytes: u64) {
    assert!(Command::new("truncate").args(["-s", &bytes.to_string()]).arg(path).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_cut_off_takes_no_more_writes_and_keeps_its_log() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    // Closing moves the data from the log into the file.
    service.close().await.unwrap();
    let service = database.open().await;
    append(&service, &key("s1"), setting("n", 1)).await.unwrap();
    truncate(&database.path, 4096);
    let error = refused(&service).await;
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    assert!(error.to_string().contains("shorter"), "{error}");
    truncate(&database.path, 1 << 20);
    refused(&service).await;
    let log = fs::metadata(database.beside("-wal")).unwrap().len();
    service.close().await.unwrap();
    assert_eq!(fs::metadata(database.beside("-wal")).unwrap().len(), log, "what the log holds can be had from it");
}

#[cfg(unix)]
#[tokio::test]
async fn a_log_that_is_taken_away_is_not_written_to() {
    for suffix in ["-wal", "-shm"] {
        let database = DatabaseFile::new();
        let service = database.open().await;
        create(&service, "s1", json!({})).await;
        fs::rename(database.beside(suffix), database.beside("-aside")).unwrap();
        let error = append(&service, &key("s1"), setting("n", 1)).await.unwrap_err();
        assert!(error.to_string().contains(suffix) && error.kind() == ErrorKind::Unavailable, "{error}");
        fs::rename(database.beside("-aside"), database.beside(suffix)).unwrap();
        append(&service, &key("s1"), setting("n", 1)).await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_with_a_second_name_is_not_opened() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let second = database.beside("-second");
    fs::hard_link(&database.path, &second).unwrap();
    for path in [&second, &database.path] {
        let error = scratchbook::SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("second name"), "{error}");
    }
    // The service that has the file open continues, because nobody can open the file by its other name.
    append(&service, &key("s1"), setting("n", 1)).await.unwrap();
    fs::remove_file(&second).unwrap();
    let again = database.open().await;
    append(&again, &key("s1"), setting("n", 2)).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_database_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    service.backup(database.beside("-copy")).await.unwrap();
    for suffix in ["", "-wal", "-shm", "-lock", "-copy"] {
        assert_eq!(mode(&database.beside(suffix)), 0o600, "{suffix}");
    }
    service.close().await.unwrap();

    // An existing file keeps its permissions, and new files beside it get the same permissions.
    fs::set_permissions(&database.path, fs::Permissions::from_mode(0o660)).unwrap();
    fs::remove_file(database.beside("-lock")).unwrap();
    let service = database.open().await;
    create(&service, "s2", json!({})).await;
    for suffix in ["", "-wal", "-shm", "-lock"] {
        assert_eq!(mode(&database.beside(suffix)), 0o660, "{suffix}");
    }
}

#[tokio::test]
async fn a_full_database_is_not_writable() {
    let database = DatabaseFile::new();
    let service = database.open_with(SqliteOptions::default().with_max_size_bytes(400 << 10)).await;
    create(&service, "s1", json!({})).await;
    service.check_writable().await.unwrap();
    let text = "x".repeat(10_000);
    let full = loop {
        if let Err(error) = append(&service, &key("s1"), setting("text", &text)).await {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::ResourceExhausted, "{full}");
    assert!(full.is_for_operator() && full.public_kind() == ErrorKind::Unavailable, "{full}");
    assert_eq!(service.check_writable().await.unwrap_err().kind(), ErrorKind::ResourceExhausted);
}

#[tokio::test]
async fn check_of_a_write_reaches_the_log_and_takes_no_more_room_each_time() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let owners = service.list_owners(None, 10).await.unwrap();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let log = size(&database.beside("-wal"));
    service.check_writable().await.unwrap();
    assert!(size(&database.beside("-wal")) >= log + (64 << 10));
    // The log is written into the database several times.
    for _ in 0..300 {
        service.check_writable().await.unwrap();
    }
    assert!(size(&database.path) < 1 << 20, "{}", size(&database.path));
    assert_eq!(service.list_owners(None, 10).await.unwrap(), owners);
}
