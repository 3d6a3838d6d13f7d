//! How fast appends are, against the same rows written statement by statement. Run with `--release --ignored`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, MySqlSessionService, SessionKey, SessionService, StateDelta,
};
use scratchbook_servers::{MariaDb, MariaDbOptions};

use super::server::connection;

const TIME: Duration = Duration::from_secs(3);

fn app(n: usize, hot: bool) -> String {
    if hot { "hot".to_owned() } else { format!("app{n}") }
}

async fn service_rate(service: &Arc<MySqlSessionService>, clients: usize, hot: bool) -> f64 {
    let end = Instant::now() + TIME;
    let started = Instant::now();
    let tasks = (0..clients).map(|n| {
        let (service, key) = (Arc::clone(service), SessionKey::new(&app(n, hot), &format!("u{n}"), "s").unwrap());
        tokio::spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                let delta = StateDelta::new().with("step", count).unwrap().with("user:last", count).unwrap();
                let delta = delta.with("app:last", count).unwrap();
                let event = Event::new("agent").with_content("x".repeat(500)).with_state_delta(delta);
                service.append(&key, event, AppendOptions::default()).await.unwrap();
                count += 1;
            }
            count
        })
    });
    let mut total = 0;
    for task in tasks.collect::<Vec<_>>() {
        total += task.await.unwrap();
    }
    f64::from(total) / started.elapsed().as_secs_f64()
}

/// The same rows, each append in a transaction of its own, by prepared statements.
async fn statement_rate(uri: &str, clients: usize, hot: bool) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..clients {
        let mut c = connection(uri).await;
        c.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
        connections.push(c);
    }
    let (end, started) = (Instant::now() + TIME, Instant::now());
    let tasks = connections.into_iter().enumerate().map(|(n, mut c)| {
        tokio::spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                while one(&mut c, &app(n, hot), &format!("u{n}"), count).await.is_err() {
                    c.query_drop("ROLLBACK").await.unwrap();
                }
                count += 1;
            }
            count
        })
    });
    let mut total = 0;
    for task in tasks.collect::<Vec<_>>() {
        total += task.await.unwrap();
    }
    total as f64 / started.elapsed().as_secs_f64()
}

async fn one(c: &mut Conn, app: &str, user: &str, count: i64) -> mysql_async::Result<()> {
    let text = format!("{{\"author\":\"agent\",\"text\":\"{}\"}}", "x".repeat(500));
    let id = format!("{user}-{count}-{:x}", rand());
    c.query_drop("BEGIN").await?;
    let sql = "SELECT seq FROM sessions WHERE app_name = ? AND user_id = ? AND id = 's' FOR UPDATE";
    let seq: i64 = c.exec_first(sql, (app, user)).await?.unwrap();
    let sql = "SELECT position FROM users WHERE app_name = ? AND user_id = ? FOR UPDATE";
    let up: i64 = c.exec_first(sql, (app, user)).await?.unwrap();
    let ap: i64 = c.exec_first("SELECT position FROM apps WHERE app_name = ? FOR UPDATE", (app,)).await?.unwrap();
    c.exec_drop(
        "INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event,
         user_position, app_position) VALUES (?, ?, 's', ?, ?, REPEAT('h', 32), '', 'agent', 1.5, ?, ?, ?)",
        (app, user, seq + 1, &id, &text, up + 1, ap + 1),
    )
    .await?;
    let sql = "UPDATE sessions SET seq = ?, update_time = ? WHERE app_name = ? AND user_id = ? AND id = 's'";
    c.exec_drop(sql, (seq + 1, 1_700_000_000_000_000_i64 + count, app, user)).await?;
    c.exec_drop(
        "INSERT INTO session_states (app_name, user_id, session_id, `key`, value, seq) VALUES (?, ?, 's', 'step', ?, ?)
         ON DUPLICATE KEY UPDATE value = VALUES(value), seq = VALUES(seq)",
        (app, user, count.to_string(), seq + 1),
    )
    .await?;
    c.exec_drop(
        "INSERT INTO user_states (app_name, user_id, `key`, value, version) VALUES (?, ?, 'last', ?, 1)
         ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1",
        (app, user, count.to_string()),
    )
    .await?;
    let log = "INSERT INTO state_log (app_name, scope, user_id, position, `key`, version, value, session_user,
        session_id, seq, event_id, author, time) VALUES (?, ?, ?, ?, 'last', 1, ?, ?, 's', ?, ?, 'agent', 1.5)";
    let row = |scope: &str, owner: &str, position: i64| -> Vec<Value> {
        vec![
            app.into(),
            scope.into(),
            owner.into(),
            position.into(),
            count.to_string().into(),
            user.into(),
            (seq + 1).into(),
            (&id).into(),
        ]
    };
    c.exec_drop(log, row("user", user, up + 1)).await?;
    c.exec_drop("UPDATE users SET position = ? WHERE app_name = ? AND user_id = ?", (up + 1, app, user)).await?;
    c.exec_drop(
        "INSERT INTO app_states (app_name, `key`, value, version) VALUES (?, 'last', ?, 1)
         ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1",
        (app, count.to_string()),
    )
    .await?;
    c.exec_drop(log, row("app", "", ap + 1)).await?;
    c.exec_drop("UPDATE apps SET position = ? WHERE app_name = ?", (ap + 1, app)).await?;
    c.query_drop("COMMIT").await
}

fn rand() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}

/// The same rows as many appends together, by statements with many rows each, on one connection.
async fn rows_rate(uri: &str, batch: usize, hot: bool) -> f64 {
    let mut c = connection(uri).await;
    c.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let (end, started) = (Instant::now() + TIME, Instant::now());
    let (mut total, mut count) = (0, 0);
    let marks = |one: &str| vec![one; batch].join(", ");
    let text = format!("{{\"author\":\"agent\",\"text\":\"{}\"}}", "x".repeat(500));
    while Instant::now() < end {
        count += 1;
        let apps: Vec<String> = (0..batch).map(|n| app(n, hot)).collect();
        let users: Vec<String> = (0..batch).map(|n| format!("u{n}")).collect();
        c.query_drop("BEGIN").await.unwrap();
        let pairs: Vec<Value> = (0..batch).flat_map(|n| [Value::from(&apps[n]), (&users[n]).into()]).collect();
        let sql = format!(
            "SELECT app_name, user_id, seq FROM sessions WHERE (app_name, user_id, id) IN ({}) ORDER BY 1, 2 FOR UPDATE",
            marks("(?, ?, 's')")
        );
        let seqs: Vec<(String, String, i64)> = c.exec(sql, pairs.clone()).await.unwrap();
        let sql = format!(
            "SELECT app_name, user_id, position FROM users WHERE (app_name, user_id) IN ({}) ORDER BY 1, 2 FOR UPDATE",
            marks("(?, ?)")
        );
        let ups: Vec<(String, String, i64)> = c.exec(sql, pairs.clone()).await.unwrap();
        let only: Vec<Value> = apps.iter().map(Value::from).collect();
        let sql =
            format!("SELECT app_name, position FROM apps WHERE app_name IN ({}) ORDER BY 1 FOR UPDATE", marks("?"));
        let aps: Vec<(String, i64)> = c.exec(sql, only.clone()).await.unwrap();
        let seq = |n: usize| seqs.iter().find(|s| s.1 == users[n]).unwrap().2;
        let up = |n: usize| ups.iter().find(|s| s.1 == users[n]).unwrap().2;
        let ap = |n: usize| aps.iter().find(|s| s.0 == apps[n]).unwrap().1 + if hot { n as i64 } else { 0 };
        let ids: Vec<String> = (0..batch).map(|n| format!("{n}-{:x}", rand() * 64 + n as u128)).collect();
        let rows = (0..batch).flat_map(|n| -> [Value; 7] {
            [
                (&apps[n]).into(),
                (&users[n]).into(),
                (seq(n) + 1).into(),
                (&ids[n]).into(),
                (&text).into(),
                (up(n) + 1).into(),
                (ap(n) + 1).into(),
            ]
        });
        let sql = format!(
            "INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event,
             user_position, app_position) VALUES {}",
            marks("(?, ?, 's', ?, ?, REPEAT('h', 32), '', 'agent', 1.5, ?, ?, ?)")
        );
        c.exec_drop(sql, rows.collect::<Vec<_>>()).await.unwrap();
        let sql = format!(
            "UPDATE sessions SET seq = seq + 1, update_time = update_time + 1 WHERE (app_name, user_id, id) IN ({})",
            marks("(?, ?, 's')")
        );
        c.exec_drop(sql, pairs.clone()).await.unwrap();
        let value = Value::from(format!("{count}"));
        let rows = (0..batch).flat_map(|n| -> [Value; 4] {
            [(&apps[n]).into(), (&users[n]).into(), value.clone(), (seq(n) + 1).into()]
        });
        let sql = format!(
            "INSERT INTO session_states (app_name, user_id, session_id, `key`, value, seq) VALUES {}
             ON DUPLICATE KEY UPDATE value = VALUES(value), seq = VALUES(seq)",
            marks("(?, ?, 's', 'step', ?, ?)")
        );
        c.exec_drop(sql, rows.collect::<Vec<_>>()).await.unwrap();
        let rows = (0..batch).flat_map(|n| -> [Value; 3] { [(&apps[n]).into(), (&users[n]).into(), value.clone()] });
        let sql = format!(
            "INSERT INTO user_states (app_name, user_id, `key`, value, version) VALUES {}
             ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1",
            marks("(?, ?, 'last', ?, 1)")
        );
        c.exec_drop(sql, rows.collect::<Vec<_>>()).await.unwrap();
        let rows = (0..batch).flat_map(|n| -> [Value; 2] { [(&apps[n]).into(), value.clone()] });
        let sql = format!(
            "INSERT INTO app_states (app_name, `key`, value, version) VALUES {}
             ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1",
            marks("(?, 'last', ?, 1)")
        );
        c.exec_drop(sql, rows.collect::<Vec<_>>()).await.unwrap();
        let rows = (0..2 * batch).flat_map(|m| -> [Value; 8] {
            let (n, is_app) = (m % batch, m >= batch);
            [
                (&apps[n]).into(),
                if is_app { "app" } else { "user" }.into(),
                if is_app { "" } else { users[n].as_str() }.into(),
                if is_app { ap(n) + 1 } else { up(n) + 1 }.into(),
                value.clone(),
                (&users[n]).into(),
                (seq(n) + 1).into(),
                (&ids[n]).into(),
            ]
        });
        let sql = format!(
            "INSERT INTO state_log (app_name, scope, user_id, position, `key`, version, value, session_user,
             session_id, seq, event_id, author, time) VALUES {}",
            vec!["(?, ?, ?, ?, 'last', 1, ?, ?, 's', ?, ?, 'agent', 1.5)"; 2 * batch].join(", ")
        );
        c.exec_drop(sql, rows.collect::<Vec<_>>()).await.unwrap();
        let sql =
            format!("UPDATE users SET position = position + 1 WHERE (app_name, user_id) IN ({})", marks("(?, ?)"));
        c.exec_drop(sql, pairs).await.unwrap();
        let more = if hot { batch } else { 1 };
        let sql = format!("UPDATE apps SET position = position + {more} WHERE app_name IN ({})", marks("?"));
        c.exec_drop(sql, only).await.unwrap();
        c.query_drop("COMMIT").await.unwrap();
        total += batch;
    }
    total as f64 / started.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn appends_against_statements() {
    let flush = std::env::var("FLUSH").unwrap_or("1".to_owned());
    let options = MariaDbOptions::default().with_line(format!("innodb_flush_log_at_trx_commit = {flush}"));
    let server = MariaDb::start(&options).unwrap();
    let service = Arc::new(MySqlSessionService::connect(&server.uri()).await.unwrap());
    for n in 0..64 {
        for hot in [false, true] {
            let config = CreateSessionConfig::default().with_session_id("s");
            service.create_session(&app(n, hot), &format!("u{n}"), config).await.unwrap();
        }
    }
    for round in 0..2 {
        for hot in [false, true] {
            println!("round {round} hot {hot}");
            for clients in [1, 16, 64] {
                let ours = service_rate(&service, clients, hot).await;
                let rows = rows_rate(&server.uri(), clients, hot).await;
                let theirs = statement_rate(&server.uri(), clients, hot).await;
                println!(
                    "{clients:3} clients: procedure {ours:7.0}, rows {rows:7.0}, statements {theirs:7.0}  {:.2}",
                    ours / theirs
                );
            }
        }
    }
    service.close().await.unwrap();
}
