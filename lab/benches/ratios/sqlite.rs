//! Compares the SQLite store with bare SQLite, and with itself when it stores little.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};
use scratchbook::store::Synchronous;
use scratchbook::{GetSessionConfig, SessionKey};
use scratchbook_benches::{event, runtime, sqlite};
use tempfile::TempDir;

use crate::side::Side;
use crate::{CompareFn, ComparisonRow, RatioTarget, compare, compare_finely};

pub(crate) const COMPARISONS: &[(&str, CompareFn)] = &[
    ("SQLite: one writer against a bare transaction of the same rows", one_writer),
    ("SQLite: 64 appenders at FULL against NORMAL", full_against_normal),
    ("SQLite: 64 appenders at FULL against a bare single INSERT per transaction", group_commit),
    ("SQLite: get of the last 10 at 100,000 events against 100", get_last),
    ("SQLite: get of state alone at 100,000 events against 100", get_state),
    ("SQLite: append at 100,000 events against 100", append_by_events),
    ("SQLite: append with 10,000 state keys against 10", append_by_keys),
    ("SQLite: append among 10,000 sessions against 10", append_by_sessions),
    ("SQLite: append with 1,000 idle watchers against none", append_beside_watchers),
];

/// Opens a store in its own folder.
fn bench(synchronous: Synchronous) -> Side<TempDir> {
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let store = runtime.block_on(sqlite(&folder.path().join("bench.db"), synchronous));
    Side::new(runtime, store, folder)
}

/// A database with the same schema and settings, which is written to directly.
struct PlainSqlite {
    connection: Connection,
    seq: i64,
    _folder: TempDir,
}

impl PlainSqlite {
    fn new() -> Self {
        let bench = bench(Synchronous::Full);
        bench.session("s", 0, 10);
        let folder = bench.close();
        let connection = open(&folder.path().join("bench.db"));
        Self { connection, seq: 0, _folder: folder }
    }

    /// Returns the seconds for each transaction that writes the rows of one append.
    fn transactions(&mut self, count: usize) -> f64 {
        let events: Vec<_> = (0..count).map(|n| serde_json::to_string(&event(n)).unwrap()).collect();
        let started = Instant::now();
        for text in &events {
            self.seq += 1;
            let (connection, seq) = (&self.connection, self.seq);
            let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
                connection.prepare_cached(sql).unwrap().execute(params).unwrap();
            };
            let (address, id) = (("app", "user", "s"), format!("0190a0a0-0000-7000-8000-{seq:012}"));
            run("BEGIN IMMEDIATE", params![]);
            run("UPDATE feed SET position = ?1", params![seq]);
            insert_event(connection, seq, &id, text);
            run(
                "UPDATE sessions SET seq = ?4, update_time = ?5 WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
                params![address.0, address.1, address.2, seq, 1_700_000_000_000_000 + seq],
            );
            run(
                "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq)
                 VALUES (?1, ?2, ?3, 'step', ?4, ?5)
                 ON CONFLICT DO UPDATE SET value = excluded.value, seq = excluded.seq",
                params![address.0, address.1, address.2, seq.to_string(), seq],
            );
            run(
                "INSERT INTO user_states (app_name, user_id, key, value, version) VALUES (?1, ?2, 'last_step', ?3, 1)
                 ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1",
                params![address.0, address.1, seq.to_string()],
            );
            run(
                "INSERT INTO state_log (app_name, scope, user_id, position, key, version, value, session_user,
                     session_id, seq, event_id, author, time)
                 VALUES ('app', 'user', 'user', ?1, 'last_step', ?1, ?2, 'user', 's', ?1, ?3, 'agent', 1.5)",
                params![seq, seq.to_string(), id],
            );
            run("COMMIT", params![]);
        }
        started.elapsed().as_secs_f64() / count as f64
    }

    /// Returns the seconds for each INSERT of one event in its own transaction.
    fn single_inserts(&mut self, count: usize) -> f64 {
        let events: Vec<_> = (0..count).map(|n| serde_json::to_string(&event(n)).unwrap()).collect();
        let started = Instant::now();
        for text in &events {
            self.seq += 1;
            insert_event(&self.connection, self.seq, &format!("0190a0a0-0000-7000-8000-{:012}", self.seq), text);
        }
        started.elapsed().as_secs_f64() / count as f64
    }
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.pragma_update(None, "cache_size", -16_384).unwrap();
    connection.pragma_update(None, "temp_store", "MEMORY").unwrap();
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).unwrap();
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 2048, |_| Ok(())).unwrap();
    connection
}

fn insert_event(connection: &Connection, seq: i64, id: &str, text: &str) {
    let sql = "INSERT INTO events (position, app_name, user_id, session_id, seq, id, hash, invocation_id, author,
                   timestamp, event)
               VALUES (?1, 'app', 'user', 's', ?1, ?2, ?3, 'e-0', 'agent', ?4, ?5)";
    let time = 1_700_000_000.0 + seq as f64;
    connection.prepare_cached(sql).unwrap().execute(params![seq, id, [7_u8; 32], time, text]).unwrap();
}

fn one_writer(name: &'static str) -> ComparisonRow {
    let bench = bench(Synchronous::Full);
    let key = bench.session("s", 0, 10);
    let mut bare = PlainSqlite::new();
    compare(name, RatioTarget::SpeedAtLeast(0.7), "appends", || bench.append(&key, 2000), || bare.transactions(2000))
}

fn full_against_normal(name: &'static str) -> ComparisonRow {
    let full = bench(Synchronous::Full).with_sessions(64);
    let normal = bench(Synchronous::Normal).with_sessions(64);
    compare(name, RatioTarget::SpeedAtLeast(0.7), "appends", || full.append_by(64, 150), || normal.append_by(64, 150))
}

fn group_commit(name: &'static str) -> ComparisonRow {
    let bench = bench(Synchronous::Full).with_sessions(64);
    let mut bare = PlainSqlite::new();
    compare(name, RatioTarget::SpeedAtLeast(2.5), "appends", || bench.append_by(64, 150), || bare.single_inserts(3000))
}

fn get_last(name: &'static str) -> ComparisonRow {
    get_by_events(name, &GetSessionConfig::default().with_num_recent_events(10))
}

fn get_state(name: &'static str) -> ComparisonRow {
    get_by_events(name, &GetSessionConfig::state_only())
}

fn get_by_events(name: &'static str, config: &GetSessionConfig) -> ComparisonRow {
    let bench = bench(Synchronous::Normal);
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    compare(
        name,
        RatioTarget::CostAtMost(1.2),
        "gets",
        || bench.get(&long, config, 3000),
        || bench.get(&short, config, 3000),
    )
}

/// Compares appends to two sessions, without flushes, which would hide the difference.
fn append_to(name: &'static str, bench: &Side<TempDir>, much: &SessionKey, little: &SessionKey) -> ComparisonRow {
    let (much, little) = (|| bench.append(much, 3000), || bench.append(little, 3000));
    compare(name, RatioTarget::CostAtMost(1.2), "appends", much, little)
}

fn append_by_events(name: &'static str) -> ComparisonRow {
    let bench = bench(Synchronous::Normal);
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    append_to(name, &bench, &long, &short)
}

fn append_by_keys(name: &'static str) -> ComparisonRow {
    let bench = bench(Synchronous::Normal);
    let (large, small) = (bench.session("large", 0, 10_000), bench.session("small", 0, 10));
    append_to(name, &bench, &large, &small)
}

fn append_by_sessions(name: &'static str) -> ComparisonRow {
    let (many, few) = (bench(Synchronous::Normal), bench(Synchronous::Normal));
    (0..10_000).for_each(|n| drop(many.session(&format!("s{n}"), 1, 1)));
    (0..10).for_each(|n| drop(few.session(&format!("s{n}"), 1, 1)));
    let key = SessionKey::new("app", "user", "s5").unwrap();
    compare(name, RatioTarget::CostAtMost(1.2), "appends", || many.append(&key, 3000), || few.append(&key, 3000))
}

fn append_beside_watchers(name: &'static str) -> ComparisonRow {
    let watched = bench(Synchronous::Normal).with_idle_watchers(1000);
    let unwatched = bench(Synchronous::Normal);
    let (of_watched, of_unwatched) = (watched.session("s", 0, 10), unwatched.session("s", 0, 10));
    compare_finely(
        name,
        RatioTarget::CostAtMost(1.03),
        "appends",
        || watched.append(&of_watched, 1000),
        || unwatched.append(&of_unwatched, 1000),
    )
}
