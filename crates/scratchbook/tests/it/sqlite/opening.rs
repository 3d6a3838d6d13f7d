//! What can be opened, and what is refused.

use std::fs;

use scratchbook::content::Part;
use scratchbook::store::{SqliteMode, SqliteOptions};
use scratchbook::{CreateSessionConfig, Error, ErrorKind, SessionService, SqliteSessionService, connect};
use serde_json::{Value, json};

use crate::database::{APP, DatabaseFile, USER, append, create, get, key, setting};

async fn refused(database: &DatabaseFile) -> Error {
    database.try_open(SqliteOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let database = DatabaseFile::new();
    for text in ["not a database", &"long and not a database\n".repeat(1000)] {
        fs::write(&database.path, text).unwrap();
        let error = refused(&database).await;
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("is not a SQLite database"), "{error}");
        assert_eq!(fs::read_to_string(&database.path).unwrap(), text);
        assert!(!database.beside("-lock").exists());
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let database = DatabaseFile::new();
    database.sql("CREATE TABLE sessions (id TEXT)");
    let before = fs::read(&database.path).unwrap();
    let error = refused(&database).await;
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("not a scratchbook database"), "{error}");
    assert_eq!(fs::read(&database.path).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let database = DatabaseFile::new();
    database.open().await.close().await.unwrap();
    database.sql("INSERT INTO scratchbook_migrations VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')");
    let error = refused(&database).await;
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("99") && error.to_string().contains("up to 1"), "{error}");
}

#[tokio::test]
async fn read_only_files_and_folders_are_refused() {
    let database = DatabaseFile::new();
    database.open().await.close().await.unwrap();
    for path in [&database.path, database.path.parent().unwrap()] {
        let writable = fs::metadata(path).unwrap().permissions();
        let mut read_only = writable.clone();
        read_only.set_readonly(true);
        fs::set_permissions(path, read_only).unwrap();
        let error = refused(&database).await;
        fs::set_permissions(path, writable).unwrap();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    database.open().await;
}

#[tokio::test]
async fn a_missing_folder_is_not_found_and_a_folder_is_no_file() {
    let database = DatabaseFile::new();
    let missing = database.beside("-missing").join("agents.db");
    let error = SqliteSessionService::open(missing, SqliteOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    fs::create_dir(&database.path).unwrap();
    assert_eq!(refused(&database).await.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_uri_opens_a_file_and_says_what_is_wrong_with_it() {
    let database = DatabaseFile::new();
    let uri = format!("sqlite://{}?synchronous=normal", database.path.display());
    let store = connect(&uri).await.unwrap();
    store.sessions.create_session(APP, USER, CreateSessionConfig::default()).await.unwrap();
    for (uri, says) in [
        ("sqlite://", "memory:"),
        ("sqlite://:memory:", "memory:"),
        ("sqlite://x.db?durable=1", "synchronous"),
        ("sqlite://x.db?synchronous=off", "full"),
        ("redis://x", "sqlite://PATH"),
    ] {
        let error = connect(uri).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{uri}: {error}");
        assert!(error.to_string().contains(says), "{uri}: {error}");
    }
}

#[tokio::test]
async fn a_path_is_no_uri_to_sqlite() {
    let name = format!("file:scratchbook-test-{}.db", std::process::id());
    let path = std::path::Path::new(&name);
    SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap().close().await.unwrap();
    assert!(path.exists());
    for suffix in ["", "-lock"] {
        fs::remove_file(format!("{name}{suffix}")).unwrap();
    }
}

async fn n_of(service: &dyn SessionService) -> Value {
    get(service, &key("s1")).await.unwrap().state().to_map()["n"].clone()
}

#[tokio::test]
async fn a_file_opened_for_reading_alone_is_read_and_never_written_or_made() {
    let database = DatabaseFile::new();
    let uri = format!("sqlite://{}?mode=ro", database.path.display());
    assert_eq!(connect(&uri).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!database.path.exists());

    let writer = database.open().await;
    create(&writer, "s1", json!({"n": 1})).await;
    append(&writer, &key("s1"), setting("n", 2)).await.unwrap();
    let reader = connect(&uri).await.unwrap();
    assert_eq!(n_of(reader.sessions.as_ref()).await, json!(2));
    // The reader sees what others write.
    append(&writer, &key("s1"), setting("n", 3)).await.unwrap();
    assert_eq!(n_of(reader.sessions.as_ref()).await, json!(3));
    assert_eq!(json!(reader.sessions.get_state_at(&key("s1"), 1).await.unwrap())["n"], 2);

    let new = CreateSessionConfig::default();
    let (sessions, artifacts) = (&reader.sessions, &reader.artifacts);
    for refused in [
        append(sessions.as_ref(), &key("s1"), setting("n", 4)).await.map(drop),
        sessions.create_session(APP, USER, new).await.map(drop),
        sessions.delete_session(&key("s1")).await,
        artifacts.save_artifact(&key("s1"), "a.txt", Part::text("x"), serde_json::Map::new()).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("mode=ro"), "{error}");
    }
    sessions.check_writable().await.unwrap();
    assert_eq!(n_of(&writer).await, json!(3));
}

/// The version 1 of the tables changes until 0.1.0. The database has a hash of the one that made it.
#[tokio::test]
async fn a_database_of_another_version_1_says_how_to_carry_it_over() {
    let database = DatabaseFile::new();
    database.open().await.close().await.unwrap();
    database.sql("UPDATE scratchbook_migrations SET checksum = '1' WHERE version = 1");
    database.sql("INSERT INTO scratchbook_migrations VALUES (6, 'running_hash', '2026-11-01T00:00:00Z', '1')");
    let before = fs::read(&database.path).unwrap();
    for mode in [SqliteMode::Create, SqliteMode::Existing, SqliteMode::ReadOnly] {
        let error = database.try_open(SqliteOptions::default().with_mode(mode)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        for said in ["export", "| scratchbook import --from jsonl -", "cursors of feeds"] {
            assert!(error.to_string().contains(said), "{error}");
        }
    }
    assert_eq!(fs::read(&database.path).unwrap(), before);
}

#[tokio::test]
async fn a_file_without_tables_opened_for_reading_alone_gets_none() {
    let database = DatabaseFile::new();
    // What a crash has left before the first table was made.
    database.sql("PRAGMA application_id = 0x73626b31");
    let read_only = || SqliteOptions::default().with_mode(SqliteMode::ReadOnly);
    let error = database.try_open(read_only()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("older scratchbook"), "{error}");
    database.try_open(SqliteOptions::default().with_mode(SqliteMode::Existing)).await.unwrap().close().await.unwrap();
    database.try_open(read_only()).await.unwrap();
}

#[tokio::test]
async fn a_file_opened_for_reading_alone_stays_as_it_is() {
    let database = DatabaseFile::new();
    let writer = database.open().await;
    create(&writer, "s1", json!({"n": 3})).await;
    writer.close().await.unwrap();
    // A copy by `VACUUM INTO` has this mode.
    database.sql("PRAGMA journal_mode = DELETE");
    let before = fs::read(&database.path).unwrap();
    let read_only = || SqliteOptions::default().with_mode(SqliteMode::ReadOnly);
    let reader = database.try_open(read_only()).await.unwrap();
    assert_eq!(n_of(&reader).await, json!(3));
    reader.close().await.unwrap();
    assert!(fs::read(&database.path).unwrap() == before, "the journal's mode is in the file");

    let mut permissions = fs::metadata(&database.path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&database.path, permissions).unwrap();
    let error = database.try_open(read_only()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("open a copy"), "{error}");
}

/// The folder's permissions stand for a read-only file system. The store obeys them even as root.
#[cfg(unix)]
#[tokio::test]
async fn a_file_in_a_folder_that_may_not_be_written_is_read_unless_others_write_it() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents %3f#.db");
    let permit = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    let open = |mode| SqliteSessionService::open(&path, SqliteOptions::default().with_mode(mode));
    let writer = open(SqliteMode::Create).await.unwrap();
    create(&writer, "s1", json!({"n": 1})).await;
    append(&writer, &key("s1"), setting("n", 2)).await.unwrap();

    permit(0o555);
    let error = open(SqliteMode::ReadOnly).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("commits that are not in the database yet"), "{error}");
    writer.close().await.unwrap();
    fs::remove_file(folder.path().join("agents %3f#.db-lock")).unwrap();

    let names = || fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names(), 1);
    let error = open(SqliteMode::Create).await.unwrap_err();
    assert!(error.to_string().contains("?mode=ro"), "{error}");
    let reader = open(SqliteMode::ReadOnly).await.unwrap();
    assert_eq!(n_of(&reader).await, json!(2));
    assert_eq!(json!(reader.get_state_at(&key("s1"), 0).await.unwrap())["n"], 1);
    assert_eq!(append(&reader, &key("s1"), setting("n", 3)).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    let copies = tempfile::tempdir().unwrap();
    reader.backup(copies.path().join("copy.db")).await.unwrap();
    assert_eq!(names(), 1, "nothing is made beside it");

    permit(0o755);
    let writer = open(SqliteMode::Create).await.unwrap();
    append(&writer, &key("s1"), setting("n", 3)).await.unwrap();
    permit(0o555);
    let error = reader.get_session(&key("s1"), &Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    writer.close().await.unwrap();
    let error = reader.get_session(&key("s1"), &Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it is another file than the one that was opened: {error}");
    reader.close().await.unwrap();
    assert_eq!(n_of(&open(SqliteMode::ReadOnly).await.unwrap()).await, json!(3));
    permit(0o755);
}

/// `.dump` writes every table and row, but not the mark in the file's header.
#[tokio::test]
async fn a_database_without_its_mark_is_known_by_its_tables_and_marked_by_the_first_writer() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s", json!({"k": 1})).await;
    service.close().await.unwrap();
    database.sql("PRAGMA journal_mode = DELETE; PRAGMA application_id = 0");
    let before = fs::read(&database.path).unwrap();
    let reader = database.try_open(SqliteOptions::default().with_mode(SqliteMode::ReadOnly)).await.unwrap();
    assert_eq!(get(&reader, &key("s")).await.unwrap().state().get("k"), Some(&json!(1)));
    reader.close().await.unwrap();
    assert_eq!(fs::read(&database.path).unwrap(), before, "a reader changes nothing");
    let service = database.open().await;
    append(&service, &key("s"), setting("k", 2)).await.unwrap();
    service.close().await.unwrap();
    // The mark is at this place of the header.
    assert_eq!(fs::read(&database.path).unwrap()[68..72], *b"sbk1");
    database.sql("PRAGMA application_id = 7");
    assert!(refused(&database).await.to_string().contains("not a scratchbook database"));
}
