//! What callers are shown if something below the server fails, and what the server's log says.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use scratchbook::agent::EventsCompactionConfig;
use scratchbook::model::ScriptedLlm;
use scratchbook::store::SqliteOptions;
use scratchbook::{InMemorySessionService, LlmAgent, Runner, SqliteSessionService, Store, connect};
use scratchbook_test_servers::{MariaDb, MySqlOptions, Postgres, PostgresOptions, SmallDisk};
use serde_json::{Value, json};
use tracing::Level;

use crate::log::LogLines;
use crate::support::{Answer, TestClient};

/// Returns a server whose app `demo` has the session `s` of the user `u`.
async fn client(store: Store) -> TestClient {
    let agent = LlmAgent::builder("demo").model(ScriptedLlm::new(["Hello."; 1000])).build().unwrap();
    let client = TestClient::new(store, |server| server.app("demo", agent));
    client.session("demo", "u", "s").await;
    assert_eq!(client.get("/health/ready").await.0, 200);
    client
}

/// Returns writes on every surface, which report failures in different ways. The last write answers with a stream.
fn writes() -> Vec<(&'static str, &'static str, Value)> {
    let run = json!({"appName": "demo", "userId": "u", "sessionId": "s",
        "newMessage": {"role": "user", "parts": [{"text": "hello"}]}});
    let event = json!({"author": "user", "invocationId": "i1", "timestamp": "2026-01-01T00:00:00Z",
        "actions": {"stateDelta": {"k": "x".repeat(20_000)}}});
    let state = json!({"k": "x".repeat(20_000)});
    vec![
        ("POST", "/apps/demo/users/u/sessions", json!({"state": state})),
        ("PATCH", "/apps/demo/users/u/sessions/s", json!({"stateDelta": state})),
        ("POST", "/v1/apps/demo/users/u/sessions", json!({"state": state})),
        (
            "POST",
            "/v1/apps/demo/users/u/sessions/s/events",
            json!({"event": {"author": "user", "actions": {"stateDelta": state}}}),
        ),
        ("POST", "/v1/reasoningEngines/demo/sessions/s:appendEvent", event),
        ("POST", "/v1/apps/demo/users/u/sessions/s/runs", json!({"message": "x".repeat(20_000)})),
        ("POST", "/run", run.clone()),
        ("POST", "/run_sse", run),
    ]
}

/// Returns whether a server is ready, after a new check: the result of a check is reused for up to five seconds.
async fn readiness(client: &TestClient) -> Answer {
    tokio::time::sleep(Duration::from_millis(5100)).await;
    client.send("GET", "/health/ready", None).await
}

/// Asserts that every write fails with one of these statuses, that no answer shows one of the secrets, and that the log
/// shows one of them.
async fn assert_untold(client: &TestClient, secrets: &[&str], statuses: &[u16]) {
    let lines = LogLines::default();
    let _listening = lines.listen(Level::WARN);
    for (method, path, body) in writes() {
        let answer = client.send(method, path, Some(&body)).await;
        let (status, text) = (answer.status, answer.text());
        // If a stream has already begun, the failure is reported in the stream.
        let has_begun = (path == "/run_sse" || path.ends_with("/runs")) && status == 200 && text.contains("error");
        assert!(statuses.contains(&status) || has_begun, "{method} {path}: {status} {text}");
        for secret in secrets {
            assert!(!text.contains(secret), "{method} {path} shows '{secret}': {text}");
        }
        let log = lines.take();
        assert!(log.contains(" WARN ") || log.contains(" ERROR "), "{method} {path} is not in the log: {log}");
        assert!(secrets.iter().any(|secret| log.contains(secret)), "{method} {path}: the log has no reason: {log}");
    }
    let answer = readiness(client).await;
    assert_eq!(answer.status, 503, "no write works, and yet it is ready: {}", answer.text());
    assert!(!secrets.iter().any(|secret| answer.text().contains(secret)), "{}", answer.text());
}

#[tokio::test]
async fn a_full_database_is_unavailable_and_its_path_is_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger7.db");
    let options = SqliteOptions::default().with_max_size_bytes(400 << 10);
    let service = SqliteSessionService::open(&path, options).await.unwrap();
    let client = client(Store::new(Arc::new(service))).await;
    let (method, path, body) = writes().swap_remove(3);
    for n in 0.. {
        assert!(n < 1000, "it is never full");
        if client.send(method, path, Some(&body)).await.status >= 300 {
            break;
        }
    }
    // A little room for small values may be left, so it is filled too.
    for text in [2_000, 200, 20, 2] {
        let body = json!({"event": {"author": "user", "actions": {"stateDelta": {"k": "x".repeat(text)}}}});
        while client.send(method, path, Some(&body)).await.status < 300 {}
    }
    assert_untold(&client, &["ledger7", folder.path().to_str().unwrap()], &[503]).await;
    assert_eq!(client.get("/apps/demo/users/u/sessions/s").await.0, 200, "it can be read");
}

#[tokio::test]
async fn server_on_a_disk_filled_to_the_last_page_is_not_ready_until_there_is_room() {
    let Ok(disk) = SmallDisk::mount() else {
        println!("LEFT OUT: mounting a file system takes root");
        return;
    };
    let path = disk.path().join("ledger7.db");
    let client = client(connect(&format!("sqlite://{}", path.display())).await.unwrap()).await;
    disk.fill().unwrap();
    assert_untold(&client, &["ledger7"], &[503]).await;
    disk.empty().unwrap();
    // The failed writes of before count until twenty others have followed.
    for _ in 0..20 {
        let (method, path, body) = writes().swap_remove(1);
        assert_eq!(client.send(method, path, Some(&body)).await.status, 200);
    }
    assert_eq!(readiness(&client).await.status, 200);
}

#[tokio::test]
async fn server_is_not_ready_while_most_writes_lack_room_though_the_check_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default().with_max_size_bytes(1 << 20);
    let service = SqliteSessionService::open(folder.path().join("ledger7.db"), options).await.unwrap();
    let client = client(Store::new(Arc::new(service))).await;
    let patch = async |bytes: usize| {
        let body = json!({"stateDelta": {"k": "x".repeat(bytes)}});
        client.send("PATCH", "/apps/demo/users/u/sessions/s", Some(&body)).await.status
    };
    for _ in 0..3 {
        assert_eq!(patch(2 << 20).await, 503);
    }
    let ready = readiness(&client).await;
    assert_eq!(ready.status, 200, "a few writes that were too large: {}", ready.text());
    for _ in 0..20 {
        assert_eq!(patch(2 << 20).await, 503);
    }
    let ready = readiness(&client).await;
    assert_eq!((ready.status, &ready.json()["store"]["kind"]), (503, &json!("resource_exhausted")), "{}", ready.text());
    for _ in 0..20 {
        assert_eq!(patch(10).await, 200);
    }
    assert_eq!(readiness(&client).await.status, 200);
}

#[tokio::test]
async fn a_database_that_was_deleted_is_unavailable_and_its_path_is_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger7.db");
    let client = client(connect(&format!("sqlite://{}", path.display())).await.unwrap()).await;
    std::fs::remove_file(&path).unwrap();
    assert_untold(&client, &["ledger7", folder.path().to_str().unwrap()], &[503]).await;
    assert_eq!(client.get("/apps/demo/users/u/sessions/s").await.0, 503);
}

const PATIENCE: &str = "connect_timeout=1&retry_timeout_ms=200&statement_timeout_ms=2000";

mod own_postgres {
    use super::*;

    #[tokio::test]
    async fn a_server_that_fails_is_not_the_callers_fault_nor_named_to_them() {
        let server = Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap();
        server.ask("CREATE ROLE clerk LOGIN PASSWORD 'hunter2'").unwrap();
        server.ask("CREATE DATABASE ledger7 OWNER clerk").unwrap();
        let port = server.port().to_string();
        let uri = format!("postgresql://clerk:hunter2@127.0.0.1:{port}/ledger7?{PATIENCE}");
        let secrets = ["127.0.0.1", port.as_str(), "clerk", "hunter2", "ledger7"];

        let client = client(connect(&uri).await.unwrap()).await;
        let ask = |sql: &str| server.ask_in("ledger7", sql).unwrap();
        ask("REVOKE INSERT, UPDATE ON ALL TABLES IN SCHEMA public FROM clerk");
        assert_untold(&client, &secrets, &[500]).await;
        ask("GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO clerk");
        assert_eq!(readiness(&client).await.status, 200);
        ask("DROP TABLE events, sessions CASCADE");
        assert_untold(&client, &secrets, &[500]).await;
        server.kill().unwrap();
        assert_untold(&client, &secrets, &[503]).await;
    }
}

mod own_mariadb {
    use super::*;

    #[tokio::test]
    async fn a_server_that_fails_is_not_the_callers_fault_nor_named_to_them() {
        let server = MariaDb::start(&MySqlOptions::default().with_fast_disk()).unwrap();
        server.ask("CREATE DATABASE ledger7").unwrap();
        server.ask("CREATE USER clerk@'%' IDENTIFIED BY 'hunter2'").unwrap();
        server.ask("GRANT ALL ON ledger7.* TO clerk@'%'").unwrap();
        let port = server.port().to_string();
        let uri = format!("mysql://clerk:hunter2@127.0.0.1:{port}/ledger7?{PATIENCE}");
        let secrets = ["127.0.0.1", port.as_str(), "clerk", "hunter2", "ledger7"];

        let client = client(connect(&uri).await.unwrap()).await;
        server.ask("REVOKE INSERT, UPDATE ON ledger7.* FROM clerk@'%'").unwrap();
        // Changed rights on a database apply from the next connection on.
        server.ask("KILL HARD USER clerk").unwrap();
        assert_untold(&client, &secrets, &[500]).await;
        server.ask("GRANT ALL ON ledger7.* TO clerk@'%'").unwrap();
        server.ask("KILL HARD USER clerk").unwrap();
        assert_eq!(readiness(&client).await.status, 200);
        server.ask("DROP TABLE ledger7.events, ledger7.sessions").unwrap();
        assert_untold(&client, &secrets, &[500]).await;
        server.kill().unwrap();
        assert_untold(&client, &secrets, &[503]).await;
    }
}

#[tokio::test]
async fn a_summary_that_fails_names_no_session_in_the_log() {
    let lines = LogLines::default();
    let _listening = lines.listen(Level::WARN);
    // The script has an answer for the agent, but none for the summary.
    let model = ScriptedLlm::new(["Hello."]);
    let agent = LlmAgent::builder("demo").model(model).build().unwrap();
    let runner = Runner::builder("demo", agent, Arc::new(InMemorySessionService::new())).auto_create_session();
    let runner = runner.events_compaction(EventsCompactionConfig::by_invocations(1, 0)).build().unwrap();
    runner.run("user7", "session7", "hello").collect::<Vec<_>>().await;
    let log = lines.take();
    assert!(log.contains("could not be summed up"), "{log}");
    assert!(!log.contains("user7") && !log.contains("session7"), "{log}");
}
