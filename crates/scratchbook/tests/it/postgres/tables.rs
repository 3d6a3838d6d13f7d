//! Migrations, permissions, and damaged tables.

use futures_util::future::join_all;
use scratchbook::session::{ChangeQuery, StateOwner};
use scratchbook::store::{MigrationRun, PostgresSessionService, migrate};
use scratchbook::{ErrorKind, Event, SessionService, StateDelta};
use serde_json::json;

use super::server::{TestSchema, client, of_parent};
use crate::database::{append, create, get, key, setting};

async fn kind(uri: &str) -> ErrorKind {
    PostgresSessionService::connect(uri).await.unwrap_err().kind()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_empty_database_may_be_opened_by_many_at_once() {
    let schema = TestSchema::new();
    let children: Vec<_> =
        (0..4).map(|_| schema.child("postgres::tables::a_child_opens_the_schema").spawn().unwrap()).collect();
    join_all((0..8).map(|_| schema.open())).await;
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(schema.number("SELECT count(*) FROM scratchbook_migrations").await, 1);
}

#[tokio::test]
async fn a_child_opens_the_schema() {
    if let Some(uri) = of_parent() {
        PostgresSessionService::connect(&uri).await.unwrap();
    }
}

#[tokio::test]
async fn check_wants_the_tables_and_off_looks_at_nothing() {
    let schema = TestSchema::new();
    let error = PostgresSessionService::connect(&schema.uri("&migrate=check")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(error.to_string().contains("version 0, and 1 is needed"), "{error}");
    let service = PostgresSessionService::connect(&schema.uri("&migrate=off")).await.unwrap();
    let error = service.get_session(&key("s"), &Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error:?}");
    schema.open().await;
    PostgresSessionService::connect(&schema.uri("&migrate=check")).await.unwrap();
    assert!(get(&service, &key("s")).await.is_none());
}

/// Runs the script like psql, statement by statement and without a transaction around it.
#[tokio::test]
async fn what_a_dry_run_prints_is_a_script_that_makes_the_tables() {
    let schema = TestSchema::new();
    let uri = schema.uri("");
    for made_before in [false, true] {
        if made_before {
            schema.sql(&format!("CREATE SCHEMA {}", schema.name())).await;
        }
        let missing = migrate(&uri, MigrationRun::Dry).await.unwrap();
        assert_eq!(missing.iter().map(|migration| migration.version).collect::<Vec<_>>(), [1]);
        assert_eq!(migrate(&uri, MigrationRun::Dry).await.unwrap(), missing, "nothing was done");
        assert_eq!(missing[0].sql.contains("CREATE SCHEMA"), !made_before, "a right that may be missing");
        let server = client(schema.server()).await;
        for migration in &missing {
            server.batch_execute(&migration.sql).await.unwrap();
        }
        assert!(migrate(&uri, MigrationRun::Real).await.unwrap().is_empty());
        PostgresSessionService::connect(&format!("{uri}&migrate=check")).await.unwrap();
        let drop = format!("DROP SCHEMA {} CASCADE", schema.name());
        server.batch_execute(&drop).await.unwrap();
        if !made_before {
            assert_eq!(migrate(&uri, MigrationRun::Real).await.unwrap(), missing, "what was carried out");
            server.batch_execute(&drop).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_while_others_migrate_for_long_waits_for_them() {
    let schema = TestSchema::new();
    // This transaction blocks the process that migrates, and the other processes wait for that process.
    let other = client(schema.server()).await;
    other.batch_execute(&format!("BEGIN; CREATE SCHEMA {}", schema.name())).await.unwrap();
    let uri = schema.uri("&statement_timeout_ms=800");
    let opening = (0..3).map(|_| {
        let uri = uri.clone();
        tokio::spawn(async move { PostgresSessionService::connect(&uri).await })
    });
    let opening: Vec<_> = opening.collect();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn newer_tables_changed_migrations_and_tables_of_others_are_refused() {
    let schema = TestSchema::new();
    schema.open().await;
    schema.sql("INSERT INTO scratchbook_migrations VALUES (99, 'later', '', '1')").await;
    for migrate in ["auto", "check"] {
        assert_eq!(kind(&schema.uri(&format!("&migrate={migrate}"))).await, ErrorKind::FailedPrecondition);
    }
    schema.sql("DELETE FROM scratchbook_migrations WHERE version = 99").await;
    schema.open().await;
    schema.sql("UPDATE scratchbook_migrations SET checksum = '1'").await;
    for migrate in ["auto", "check"] {
        let error = PostgresSessionService::connect(&schema.uri(&format!("&migrate={migrate}"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        assert!(error.to_string().contains("export --database OLD | scratchbook import"), "{error}");
    }

    let theirs = TestSchema::new();
    theirs.sql(&format!("CREATE SCHEMA {0}; CREATE TABLE {0}.sessions (id int)", theirs.name())).await;
    let error = PostgresSessionService::connect(&theirs.uri("")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(error.to_string().contains("'sessions'"), "{error}");
    assert_eq!(theirs.number("SELECT count(*) FROM sessions").await, 0);
}

#[tokio::test]
async fn a_role_without_rights_over_tables_reads_and_writes() {
    let schema = TestSchema::new();
    schema.open().await;
    let (name, role) = (schema.name(), format!("{}_role", schema.name()));
    schema
        .sql(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 's3cret';
             GRANT USAGE ON SCHEMA {name} TO {role};
             GRANT SELECT ON {name}.scratchbook_migrations TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.apps, {name}.users, {name}.sessions, {name}.initial_states,
                 {name}.events, {name}.session_states, {name}.user_states, {name}.app_states, {name}.state_log,
                 {name}.artifacts, {name}.checkpoints, {name}.removals, {name}.removal_ends,
                 {name}.write_checks TO {role};
             GRANT SELECT, UPDATE ON {name}.database_id TO {role};
             GRANT USAGE ON SEQUENCE {name}.positions TO {role}"
        ))
        .await;
    let server = schema.server();
    let place = &server[server.find('@').unwrap()..];
    let server = format!("postgresql://{role}:s3cret{place}");
    for migrate in ["check", "auto", "off"] {
        let uri = schema.uri_by(&server, &format!("&migrate={migrate}"));
        let service = PostgresSessionService::connect(&uri).await.unwrap();
        create(&service, migrate, json!({"app:a": 1, "user:u": 1, "s": 1})).await;
        append(&service, &key(migrate), setting("app:a", 2)).await.unwrap();
        service
            .put_state(&StateOwner::app("app").unwrap(), StateDelta::new().with("b", 1).unwrap(), "me".into())
            .await
            .unwrap();
        service.delete_session(&key(migrate)).await.unwrap();
        service.delete_user("app", "alice").await.unwrap();
        service.close().await.unwrap();
    }
    let other = TestSchema::new();
    let uri = other.uri_by(&server, "");
    assert_eq!(kind(&uri).await, ErrorKind::PermissionDenied);
    schema.sql(&format!("REVOKE ALL ON {name}.events FROM {role}")).await;
    let service = PostgresSessionService::connect(&schema.uri_by(&server, "")).await.unwrap();
    let error = service.get_session(&key("s"), &Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    schema.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    let shared = create(&service, "broken", json!({"user:theme": "dark"})).await;
    append(&service, shared.key(), setting("step", 1)).await.unwrap();
    for (damage, name) in [
        ("UPDATE events SET event = '{'", "the event 1 of app/alice/broken"),
        ("UPDATE session_states SET value = 'x'", "the value of key 'step' of app/alice/broken"),
        ("UPDATE user_states SET value = ''", "the value of key 'user:theme' of app/alice"),
    ] {
        let client = schema.client().await;
        client
            .batch_execute(&format!("CREATE TABLE kept AS TABLE {0}; {damage}", damage.split(' ').nth(1).unwrap()))
            .await
            .unwrap();
        let error = service.get_session(shared.key(), &Default::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        let table = damage.split(' ').nth(1).unwrap();
        client
            .batch_execute(&format!("DELETE FROM {table}; INSERT INTO {table} TABLE kept; DROP TABLE kept"))
            .await
            .unwrap();
    }
    assert!(get(&service, shared.key()).await.is_some());
}

#[tokio::test]
async fn people_see_sessions_with_their_merged_state() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    let session = create(&service, "s", json!({"user:u": null, "app:a": "\u{1f6d2}", "gone": 1})).await;
    let mut delta = StateDelta::new().with("n", "\0").unwrap();
    delta.remove("gone").unwrap();
    append(&service, session.key(), crate::database::event(delta).with_timestamp(1_700_000_000.25)).await.unwrap();
    let rows = schema.rows("SELECT user_id, seq, update_time, state::text FROM session_overview").await;
    let row = &rows[0];
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("alice", 1));
    assert_eq!(row.get::<_, &str>(2), "2023-11-14T22:13:20.250Z");
    let state: serde_json::Value = serde_json::from_str(row.get(3)).unwrap();
    assert_eq!(state, json!({"n": "\0", "user:u": null, "app:a": "\u{1f6d2}"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stricter_isolation_costs_retries_and_loses_nothing() {
    let schema = TestSchema::new();
    let uri = schema.uri("&options=-c%20default_transaction_isolation%3Dserializable");
    let services = [&uri, &uri].map(|uri| PostgresSessionService::connect(uri));
    let services: Vec<_> = join_all(services).await.into_iter().map(Result::unwrap).collect();
    create(&services[0], "s", json!({})).await;
    let key = key("s");
    let appends = (0..40).map(|n| append(&services[n % 2], &key, setting("app:n", n)));
    let mut numbers: Vec<_> = join_all(appends).await.into_iter().map(Result::unwrap).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_a_column_cannot_hold_is_refused_alone_and_the_rest_is_kept() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "s", json!({})).await;
    let key = key("s");
    let by = |author: &str| Event::new(author).with_state_delta(StateDelta::new().with("app:a", 1).unwrap());
    let long = "x".repeat(1 << 20);
    // These appends are made together, so that they are in one batch.
    let done =
        join_all(["before", "\0", long.as_str(), "after"].map(|author| append(&service, &key, by(author)))).await;
    let error = done[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("U+0000"), "{error}");
    let mut numbers: Vec<_> = done.iter().filter_map(|done| done.as_ref().ok().copied()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    let log = service.list_state_changes(&StateOwner::app("app").unwrap(), &ChangeQuery::After(0), 9).await.unwrap();
    let mut authors: Vec<_> = log.iter().map(|change| change.author.as_str()).collect();
    authors.sort_unstable();
    assert_eq!(authors, ["after", "before", &long]);
}
