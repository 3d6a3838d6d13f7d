//! Compares the MariaDB store with the same rows written statement by statement, and with itself when it stores little.
//! The server flushes each commit to the disk.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, params};
use scratchbook::GetSessionConfig;
use scratchbook::store::{DatabaseOptions, MySqlSessionService};
use scratchbook_benches::{event_of_three, runtime};
use scratchbook_test_servers::{MariaDb, MySqlOptions};

use crate::side::Side;
use crate::{CompareFn, ComparisonRow, RatioTarget, compare, compare_finely};

pub(crate) const COMPARISONS: &[(&str, CompareFn)] = &[
    ("MariaDB: 16 appenders against 16 clients writing the same rows statement by statement", batched),
    ("MariaDB: get of the last 10 at 100,000 events against 100", get_last),
    ("MariaDB: get of state alone at 100,000 events against 100", get_state),
    ("MariaDB: append at 100,000 events against 100", append_by_events),
    ("MariaDB: append with 1,000 idle watchers against none", append_beside_watchers),
];

const CLIENTS: usize = 16;

fn server() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = MySqlOptions::default().with_line("innodb_buffer_pool_size = 512M");
        let options = options.with_line("innodb_log_file_size = 1G");
        // A session of 100,000 events is created in one call.
        MariaDb::start(&options.with_line("max_allowed_packet = 512M")).unwrap()
    })
}

/// Opens a store with its own tables.
fn bench(prefix: &str) -> Side<()> {
    let runtime = runtime();
    let mut options = DatabaseOptions::default();
    options.table_prefix = Some(prefix.to_owned());
    let store = runtime.block_on(MySqlSessionService::open(&server().uri(), options)).unwrap();
    Side::new(runtime, Arc::new(store), ())
}

/// Returns the seconds for each append when clients write its rows one statement after the other. Each client has its
/// own session, user and app.
fn statements(prefix: &str, each: usize) -> f64 {
    let (runtime, opts) = (runtime(), Opts::from_url(&server().uri()).unwrap());
    runtime.block_on(async {
        let clients = (0..CLIENTS).map(|client| {
            let (opts, prefix) = (opts.clone(), prefix.to_owned());
            tokio::spawn(async move {
                let mut connection = Conn::new(opts).await.unwrap();
                let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                connection.query_drop(isolation).await.unwrap();
                // The first append prepares the statements.
                write(&mut connection, &prefix, client).await;
                let started = Instant::now();
                for _ in 0..each {
                    write(&mut connection, &prefix, client).await;
                }
                let seconds = started.elapsed().as_secs_f64();
                connection.disconnect().await.unwrap();
                seconds
            })
        });
        let mut slowest = 0.0_f64;
        for client in clients.collect::<Vec<_>>() {
            slowest = slowest.max(client.await.unwrap());
        }
        slowest / (CLIENTS * each) as f64
    })
}

/// Makes one append with a separate statement for each row, as a simple program would.
async fn write(connection: &mut Conn, prefix: &str, client: usize) {
    let (app, user, session) = (format!("app{client}"), format!("user{client}"), format!("s{client}"));
    let table = |name: &str| format!("`{prefix}{name}`");
    let (sessions, users, apps) = (table("sessions"), table("users"), table("apps"));
    connection.query_drop("START TRANSACTION").await.unwrap();
    let lock = format!("SELECT seq FROM {sessions} WHERE app_name = ? AND user_id = ? AND id = ? FOR UPDATE");
    let last: Option<i64> = connection.exec_first(lock, (&app, &user, &session)).await.unwrap();
    let seq = last.unwrap() + 1;
    let lock = format!("SELECT position FROM {users} WHERE app_name = ? AND user_id = ? FOR UPDATE");
    let position: Option<i64> = connection.exec_first(lock, (&app, &user)).await.unwrap();
    let user_position = position.unwrap_or(0) + 1;
    let lock = format!("SELECT position FROM {apps} WHERE app_name = ? FOR UPDATE");
    let position: Option<i64> = connection.exec_first(lock, (&app,)).await.unwrap();
    let app_position = position.unwrap_or(0) + 1;
    let (id, text) =
        (format!("{client}-{seq}"), serde_json::to_string(&event_of_three(seq.unsigned_abs() as usize)).unwrap());
    let (hash, value, bytes) = ([7_u8; 32].as_slice(), seq.to_string(), text.len());
    let insert = format!(
        "INSERT INTO {} (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event,
             user_position, app_position)
         VALUES (:app, :user, :session, :seq, :id, :hash, 'e-0', 'agent', 1700000000.5, :text, :user_position,
             :app_position)",
        table("events")
    );
    let row = params! {
        "app" => &app, "user" => &user, "session" => &session, seq, "id" => &id, hash, text, user_position,
        app_position
    };
    connection.exec_drop(insert, row).await.unwrap();
    let update = format!(
        "UPDATE {sessions} SET seq = ?, update_time = ?, bytes = bytes + ?
         WHERE app_name = ? AND user_id = ? AND id = ?"
    );
    connection.exec_drop(update, (seq, seq, bytes, &app, &user, &session)).await.unwrap();
    let upsert = format!(
        "INSERT INTO {} (app_name, user_id, session_id, `key`, value, seq) VALUES (?, ?, ?, 'step', ?, ?)
         ON DUPLICATE KEY UPDATE value = VALUES(value), seq = VALUES(seq)",
        table("session_states")
    );
    connection.exec_drop(upsert, (&app, &user, &session, &value, seq)).await.unwrap();
    let upsert = format!(
        "INSERT INTO {users} (app_name, user_id, position) VALUES (?, ?, ?)
         ON DUPLICATE KEY UPDATE position = VALUES(position)"
    );
    connection.exec_drop(upsert, (&app, &user, user_position)).await.unwrap();
    let upsert = format!(
        "INSERT INTO {apps} (app_name, position) VALUES (?, ?) ON DUPLICATE KEY UPDATE position = VALUES(position)"
    );
    connection.exec_drop(upsert, (&app, app_position)).await.unwrap();
    let upsert = format!(
        "INSERT INTO {} (app_name, user_id, `key`, value, version, position) VALUES (?, ?, 'last_step', ?, 1, ?)
         ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1, position = VALUES(position)",
        table("user_states")
    );
    connection.exec_drop(upsert, (&app, &user, &value, user_position)).await.unwrap();
    let upsert = format!(
        "INSERT INTO {} (app_name, `key`, value, version, position) VALUES (?, 'last_step', ?, 1, ?)
         ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1, position = VALUES(position)",
        table("app_states")
    );
    connection.exec_drop(upsert, (&app, &value, app_position)).await.unwrap();
    let log = format!(
        "INSERT INTO {} (app_name, scope, user_id, position, `key`, version, value, session_user, session_id, seq,
             event_id, author, time)
         VALUES (?, ?, ?, ?, 'last_step', ?, ?, ?, ?, ?, ?, 'agent', 1700000000.5)",
        table("state_log")
    );
    let of_user = (&app, "user", &user, user_position, seq, &value, &user, &session, seq, &id);
    connection.exec_drop(&log, of_user).await.unwrap();
    let of_app = (&app, "app", "", app_position, seq, &value, &user, &session, seq, &id);
    connection.exec_drop(&log, of_app).await.unwrap();
    connection.query_drop("COMMIT").await.unwrap();
}

/// Compares both sides in tables of the same size, because each round adds to both.
fn batched(name: &'static str) -> ComparisonRow {
    let (ours, theirs) = (bench("ours_"), bench("theirs_"));
    let keys = ours.writers(CLIENTS, |n| format!("app{n}"));
    theirs.writers(CLIENTS, |n| format!("app{n}"));
    let target = RatioTarget::SpeedAtLeast(1.3);
    let row = compare(name, target, "appends", || ours.append_of_three(&keys, 300), || statements("theirs_", 300));
    ours.close();
    theirs.close();
    row
}

fn get_last(name: &'static str) -> ComparisonRow {
    get_by_events(name, "last_", &GetSessionConfig::default().with_num_recent_events(10))
}

fn get_state(name: &'static str) -> ComparisonRow {
    get_by_events(name, "state_", &GetSessionConfig::state_only())
}

fn get_by_events(name: &'static str, prefix: &str, config: &GetSessionConfig) -> ComparisonRow {
    let bench = bench(prefix);
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    let target = RatioTarget::CostAtMost(1.2);
    compare(name, target, "gets", || bench.get(&long, config, 2000), || bench.get(&short, config, 2000))
}

fn append_by_events(name: &'static str) -> ComparisonRow {
    let bench = bench("append_");
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    let target = RatioTarget::CostAtMost(1.2);
    compare(name, target, "appends", || bench.append(&long, 1000), || bench.append(&short, 1000))
}

fn append_beside_watchers(name: &'static str) -> ComparisonRow {
    let watched = bench("watched_").with_idle_watchers(1000);
    let unwatched = bench("unwatched_");
    let (of_watched, of_unwatched) = (watched.session("s", 0, 10), unwatched.session("s", 0, 10));
    compare_finely(
        name,
        RatioTarget::CostAtMost(1.03),
        "appends",
        || watched.append(&of_watched, 300),
        || unwatched.append(&of_unwatched, 300),
    )
}
