//! Tables: created, found, repaired, and refused if they are not ours, or newer than this program.

use mysql_async::prelude::Queryable;
use scratchbook::store::{DatabaseOptions, Migrate, MigrationRun, MySqlSessionService, migrate};
use scratchbook::{CreateSessionConfig, ErrorKind, SessionKey, SessionService, connect};
use serde_json::json;

use super::server::{TestDatabase, connection};
async fn open(uri: &str, mode: Migrate) -> scratchbook::Result<MySqlSessionService> {
    let mut options = DatabaseOptions::default();
    options.migrate = mode;
    MySqlSessionService::open(uri, options).await
}

async fn works(service: &MySqlSessionService) {
    let config = || CreateSessionConfig::default().with_state(json!({"a": 1, "user:b": 2, "app:c": 3}));
    let session = service.create_session("app", "alice", config()).await.unwrap();
    let key = SessionKey::new("app", "alice", session.id()).unwrap();
    service.append(&key, scratchbook::Event::new("agent"), Default::default()).await.unwrap();
    service.delete_user("app", "alice").await.unwrap();
}

#[tokio::test]
async fn nothing_is_made_unless_it_may_be() {
    let database = TestDatabase::new().await;
    let error = open(&database.uri(), Migrate::Check).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("scratchbook migrate"), "{error}");
    // Nothing is checked when opening, so the first call finds the error.
    let service = open(&database.uri(), Migrate::Off).await.unwrap();
    let error = service.create_session("app", "alice", Default::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    works(&open(&database.uri(), Migrate::Auto).await.unwrap()).await;
    works(&open(&database.uri(), Migrate::Check).await.unwrap()).await;
    works(&service).await;
}

#[tokio::test]
async fn migrations_can_be_looked_at_and_carried_out_apart() {
    let database = TestDatabase::new().await;
    let dry = migrate(&database.uri(), MigrationRun::Dry).await.unwrap();
    assert_eq!(dry.iter().map(|m| (m.version, m.name.as_str())).collect::<Vec<_>>(), [(1, "init")]);
    assert!(open(&database.uri(), Migrate::Check).await.is_err());
    assert_eq!(migrate(&database.uri(), MigrationRun::Real).await.unwrap(), dry);
    works(&open(&database.uri(), Migrate::Check).await.unwrap()).await;
    assert_eq!(migrate(&database.uri(), MigrationRun::Real).await.unwrap(), []);
}

/// The output of `migrate --dry-run` can be run by hand with the database's own client.
#[tokio::test]
async fn printed_migrations_can_be_run_by_hand() {
    let database = TestDatabase::new().await;
    let uri = format!("{}?table_prefix=by_hand_", database.uri());
    for migration in migrate(&uri, MigrationRun::Dry).await.unwrap() {
        database.client(&migration.sql);
    }
    works(&MySqlSessionService::connect(&format!("{uri}&migrate=check")).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_may_be_opened_by_many_at_once() {
    let database = TestDatabase::new().await;
    let open = (0..16).map(|_| {
        let uri = database.uri();
        tokio::spawn(async move { connect(&uri).await.unwrap() })
    });
    for store in open.collect::<Vec<_>>() {
        let session = store.await.unwrap().sessions.create_session("app", "alice", Default::default()).await.unwrap();
        assert_eq!(session.seq(), 0);
    }
}

#[tokio::test]
async fn newer_tables_are_refused() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    database.sql("INSERT INTO scratchbook_migrations VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')").await;
    for mode in [Migrate::Auto, Migrate::Check] {
        let error = open(&database.uri(), mode).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("version 99"), "{error}");
    }
    assert!(migrate(&database.uri(), MigrationRun::Dry).await.is_err());
}

#[tokio::test]
async fn tables_of_another_version_1_are_refused_with_the_way_to_carry_them_over() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    database.sql("UPDATE scratchbook_migrations SET checksum = '1'").await;
    for mode in [Migrate::Auto, Migrate::Check] {
        let error = open(&database.uri(), mode).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("export --database OLD | scratchbook import"), "{error}");
    }
}

#[tokio::test]
async fn tables_of_others_are_refused() {
    let database = TestDatabase::new().await;
    database.sql("CREATE TABLE events (id INT PRIMARY KEY)").await;
    let error = connect(&database.uri()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("'events'") && error.to_string().contains("table_prefix"), "{error}");
    connect(&format!("{}?table_prefix=sb_", database.uri())).await.unwrap();
}

#[tokio::test]
async fn prefixes_keep_tables_apart() {
    let database = TestDatabase::new().await;
    let (a, b) = (format!("{}?table_prefix=a_", database.uri()), format!("{}?table_prefix=b_", database.uri()));
    let (a, b) = (connect(&a).await.unwrap(), connect(&b).await.unwrap());
    let config = CreateSessionConfig::default().with_session_id("s");
    a.sessions.create_session("app", "alice", config.clone()).await.unwrap();
    let key = SessionKey::new("app", "alice", "s").unwrap();
    assert!(b.sessions.get_session(&key, &Default::default()).await.unwrap().is_none());
    b.sessions.create_session("app", "alice", config).await.unwrap();
}

/// A crash leaves some of the statements done and the version not written.
#[tokio::test]
async fn a_migration_that_was_cut_off_is_run_again() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    database.sql("DELETE FROM scratchbook_migrations; DROP TABLE artifacts; DROP VIEW session_overview").await;
    works(&open(&database.uri(), Migrate::Auto).await.unwrap()).await;
    database.sql("SELECT * FROM artifacts; SELECT * FROM session_overview").await;
}

/// By default, a copy by mysqldump lacks its procedures.
#[tokio::test]
async fn a_procedure_that_is_missing_is_made_again_or_named() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    database.sql("DROP PROCEDURE scratchbook_write_1").await;
    let error = open(&database.uri(), Migrate::Check).await.unwrap_err();
    assert!(error.to_string().contains("scratchbook_write_1"), "{error}");
    let lacking = migrate(&database.uri(), MigrationRun::Dry).await.unwrap();
    assert_eq!(lacking.len(), 1);
    assert!(!lacking[0].sql.contains("CREATE TABLE"), "{}", lacking[0].sql);
    works(&open(&database.uri(), Migrate::Auto).await.unwrap()).await;
    // The procedure is created by hand, with a client that has another SQL mode.
    database.sql("DROP PROCEDURE scratchbook_write_1").await;
    database.client(&format!("SET sql_mode = '';\n{}", lacking[0].sql));
    let service = open(&database.uri(), Migrate::Check).await.unwrap();
    works(&service).await;
    let mut own = connection(&database.uri()).await;
    let sql = "SELECT SQL_MODE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()";
    let mode: String = own.query_first(sql).await.unwrap().unwrap();
    assert!(mode.contains("STRICT_ALL_TABLES"), "{mode}");
    assert_eq!(migrate(&database.uri(), MigrationRun::Dry).await.unwrap(), []);
}

/// Somebody has removed a column that the view reads.
#[tokio::test]
async fn a_migration_that_fails_passes_on_the_servers_words_and_does_not_advise_to_migrate() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    let damage = "DELETE FROM scratchbook_migrations; DROP VIEW session_overview; DROP TABLE sessions;
        CREATE TABLE sessions (id INT PRIMARY KEY)";
    database.sql(damage).await;
    let error = migrate(&database.uri(), MigrationRun::Real).await.unwrap_err().to_string();
    assert!(error.contains("s.app_name"), "{error}");
    assert!(!error.contains("run 'scratchbook migrate'"), "{error}");
}

/// The rights are those that docs/schema.md lists. By default, MySQL writes a binary log.
#[tokio::test]
async fn a_role_with_the_documented_rights_migrates_and_runs() {
    let database = TestDatabase::new().await;
    let name = database.name();
    let rights = "SELECT, INSERT, UPDATE, DELETE, EXECUTE, CREATE, ALTER, DROP, INDEX, CREATE VIEW, CREATE ROUTINE, ALTER \
        ROUTINE";
    let role = format!("{name}_owner");
    database.sql(&format!("CREATE USER {role} IDENTIFIED BY 'own'; GRANT {rights} ON {name}.* TO {role}")).await;
    let uri = format!("mysql://{role}:own@{}", database.uri().split_once('@').unwrap().1);
    works(&open(&uri, Migrate::Auto).await.unwrap()).await;
}

/// A process on another node of a cluster, to which the lock does not extend, creates the same objects.
#[tokio::test]
async fn what_is_there_already_is_left_alone() {
    let database = TestDatabase::new().await;
    connect(&database.uri()).await.unwrap();
    let mut own = connection(&database.uri()).await;
    let sql = "SELECT CONCAT(CREATED, LAST_ALTERED) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()";
    let before: Option<String> = own.query_first(sql).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    database.sql("DELETE FROM scratchbook_migrations").await;
    works(&open(&database.uri(), Migrate::Auto).await.unwrap()).await;
    assert_eq!(own.query_first::<String, _>(sql).await.unwrap(), before);
}

#[tokio::test]
async fn a_role_that_may_not_change_tables_is_enough_to_run() {
    let database = TestDatabase::new().await;
    let name = database.name();
    database.sql(&format!("CREATE USER {name}_run IDENTIFIED BY 'run'")).await;
    let uri = format!("mysql://{name}_run:run@{}", database.uri().split_once('@').unwrap().1);
    database.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {name}.* TO {name}_run")).await;
    let error = open(&uri, Migrate::Auto).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    migrate(&database.uri(), MigrationRun::Real).await.unwrap();
    for mode in [Migrate::Check, Migrate::Auto] {
        works(&open(&uri, mode).await.unwrap()).await;
    }
    database.sql(&format!("REVOKE EXECUTE ON {name}.* FROM {name}_run")).await;
    let error = open(&uri, Migrate::Check).await.unwrap_err();
    assert!(error.to_string().contains("EXECUTE"), "{error}");
}

#[tokio::test]
async fn people_see_each_session_with_its_merged_state() {
    let database = TestDatabase::new().await;
    let store = connect(&database.uri()).await.unwrap();
    let deep = (0..60).fold(json!(0.1), |inner, _| json!([inner]));
    let state = json!({"a": [1, {"b": null}], "text": "\u{1f600}\u{0}", "user:n": 1.5, "app:x": "y", "user:\"d\\p": deep,
        "\u{1f600}": 12_345_678_901_234_567_890_u64});
    let config = CreateSessionConfig::default().with_session_id("s").with_state(state.clone());
    store.sessions.create_session("app", "alice", config).await.unwrap();
    let mut own = connection(&database.uri()).await;
    let sql = "SELECT update_time, state FROM session_overview WHERE app_name = 'app' AND user_id = 'alice'";
    let (time, seen): (String, String) = own.query_first(sql).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&seen).unwrap(), state);
    assert!(time.ends_with('Z') && time.len() == 24, "{time}");
}
