//! Compares the PostgreSQL store with pgbench, which runs the store's own statement on the same server, and with itself
//! when it stores little. The server flushes each commit to the disk.

use std::process::Command;
use std::sync::{Arc, OnceLock};

use scratchbook::GetSessionConfig;
use scratchbook::store::{DatabaseOptions, PostgresSessionService};
use scratchbook_benches::{event_of_three, runtime};
use scratchbook_test_servers::{Postgres, PostgresOptions};

use crate::side::Side;
use crate::{CompareFn, ComparisonRow, RatioTarget, compare, compare_finely};

pub(crate) const COMPARISONS: &[(&str, CompareFn)] = &[
    ("PostgreSQL: one client against pgbench running our append", one_client),
    ("PostgreSQL: 64 appenders against pgbench with 16 clients running our append", batched),
    ("PostgreSQL: 64 appenders on one app's keys against keys of their own", hot),
    ("PostgreSQL: get of the last 10 at 100,000 events against 100", get_last),
    ("PostgreSQL: get of state alone at 100,000 events against 100", get_state),
    ("PostgreSQL: append at 100,000 events against 100", append_by_events),
    ("PostgreSQL: append with 1,000 idle watchers against none", append_beside_watchers),
];

/// How many seconds pgbench runs in one round.
const PGBENCH_SECONDS: usize = 4;

/// The maximum number of pgbench's clients. Each client has its own app, user and session.
const PGBENCH_CLIENTS: usize = 16;

fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = PostgresOptions::default().with_setting("shared_buffers", "512MB");
        let options = options.with_setting("track_activity_query_size", "64kB");
        Postgres::start(&options.with_setting("max_wal_size", "4GB")).unwrap()
    })
}

/// Opens a store in its own schema.
fn bench(schema: &str) -> Side<()> {
    let runtime = runtime();
    let mut options = DatabaseOptions::default();
    options.schema = Some(schema.to_owned());
    let store = runtime.block_on(PostgresSessionService::open(&server().uri(), options)).unwrap();
    Side::new(runtime, Arc::new(store), ())
}

/// Returns the statement of the last append by a store in this schema, as the server reports it.
fn append_statement(schema: &str) -> String {
    let sql = format!(
        "SELECT query FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND query LIKE '%INSERT INTO \"{schema}\".events%' LIMIT 1"
    );
    let output = Command::new("psql").args(["-XAtc", &sql]).arg(server().uri()).output().expect("psql");
    let statement = String::from_utf8(output.stdout).unwrap();
    assert!(!statement.trim().is_empty(), "no append: {}", String::from_utf8_lossy(&output.stderr));
    statement
}

/// Returns a script for pgbench that appends one event: the store's own statement, with the parameters of one event.
fn script(append: &str) -> String {
    let number = "(random() * 1e9)::bigint::text";
    let values = [
        "ARRAY[1, 1, 1]".to_owned(),
        "ARRAY['session', 'user', 'app']".to_owned(),
        "ARRAY[1, 2, 3]".to_owned(),
        "ARRAY['step', 'last_step', 'last_step']".to_owned(),
        format!("ARRAY[{number}, {number}, {number}]"),
        "ARRAY[1]".to_owned(),
        "ARRAY['app' || :client_id]".to_owned(),
        "ARRAY['user' || :client_id]".to_owned(),
        "ARRAY['s' || :client_id]".to_owned(),
        "ARRAY[gen_random_uuid()]".to_owned(),
        "ARRAY['\\x0707070707070707070707070707070707070707070707070707070707070707']".to_owned(),
        "ARRAY['e-0']".to_owned(),
        "ARRAY['agent']".to_owned(),
        "ARRAY[extract(epoch FROM now())]".to_owned(),
        "ARRAY[(extract(epoch FROM now()) * 1000000)::bigint]".to_owned(),
        "ARRAY[:event]".to_owned(),
        "ARRAY['app' || :client_id]".to_owned(),
        "ARRAY['user' || :client_id]".to_owned(),
        "ARRAY['app' || :client_id]".to_owned(),
        "(extract(epoch FROM now()) * 1000000)::bigint".to_owned(),
        "1000000000".to_owned(),
        "1000000000".to_owned(),
        "ARRAY['\\x0707070707070707070707070707070707070707070707070707070707070707']".to_owned(),
    ];
    // pgbench would read `:e1` as a variable. In a text of type bytea, `\072` is a colon, too.
    let mut sql = append.replace("'scratchbook:e1:'", "'scratchbook\\072e1:'");
    // The last parameter is replaced first, because `$10` begins with `$1`.
    for (number, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", number + 1), value);
    }
    format!("{};\n", sql.trim_end())
}

/// Returns the seconds for each append by pgbench with this many clients.
fn pgbench(append: &str, clients: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("append.sql");
    std::fs::write(&path, script(append)).unwrap();
    let event = serde_json::to_string(&event_of_three(0)).unwrap();
    let mut pgbench = Command::new("pgbench");
    pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string(), "-T", &PGBENCH_SECONDS.to_string()]);
    pgbench.args(["-D", &format!("event={event}"), "-f"]).arg(&path).arg(server().uri());
    let output = pgbench.output().expect("pgbench, of Debian's postgresql-contrib or postgresql");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    1.0 / rate.expect("pgbench says how many transactions a second it made")
}

fn one_client(name: &'static str) -> ComparisonRow {
    against_pgbench(name, RatioTarget::SpeedAtLeast(0.75), 1, 1, 10_000)
}

fn batched(name: &'static str) -> ComparisonRow {
    against_pgbench(name, RatioTarget::SpeedAtLeast(1.5), 64, PGBENCH_CLIENTS, 1_000)
}

/// Compares both sides in tables of the same size, because each round adds to both.
fn against_pgbench(
    name: &'static str,
    target: RatioTarget,
    count: usize,
    clients: usize,
    each: usize,
) -> ComparisonRow {
    let schemas = [format!("ours_{count}"), format!("pgbench_{count}")];
    let (ours, theirs) = (bench(&schemas[0]), bench(&schemas[1]));
    let keys = ours.writers(count, |n| format!("app{n}"));
    theirs.append_of_three(&theirs.writers(clients, |n| format!("app{n}")), 1);
    let append = append_statement(&schemas[1]);
    let row = compare(name, target, "appends", || ours.append_of_three(&keys, each), || pgbench(&append, clients));
    ours.close();
    theirs.close();
    row
}

fn hot(name: &'static str) -> ComparisonRow {
    let (one, own) = (bench("hot"), bench("cold"));
    let (in_one, in_own) = (one.writers(64, |_| "app".to_owned()), own.writers(64, |n| format!("app{n}")));
    let target = RatioTarget::SpeedAtLeast(0.8);
    compare(name, target, "appends", || one.append_of_three(&in_one, 500), || own.append_of_three(&in_own, 500))
}

fn get_last(name: &'static str) -> ComparisonRow {
    get_by_events(name, "get_last", &GetSessionConfig::default().with_num_recent_events(10))
}

fn get_state(name: &'static str) -> ComparisonRow {
    get_by_events(name, "get_state", &GetSessionConfig::state_only())
}

fn get_by_events(name: &'static str, schema: &str, config: &GetSessionConfig) -> ComparisonRow {
    let bench = bench(schema);
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    let target = RatioTarget::CostAtMost(1.2);
    compare(name, target, "gets", || bench.get(&long, config, 2000), || bench.get(&short, config, 2000))
}

fn append_by_events(name: &'static str) -> ComparisonRow {
    let bench = bench("append");
    let (long, short) = (bench.session("long", 100_000, 10), bench.session("short", 100, 10));
    let target = RatioTarget::CostAtMost(1.2);
    compare(name, target, "appends", || bench.append(&long, 2000), || bench.append(&short, 2000))
}

fn append_beside_watchers(name: &'static str) -> ComparisonRow {
    let watched = bench("watched").with_idle_watchers(1000);
    let unwatched = bench("unwatched");
    let (of_watched, of_unwatched) = (watched.session("s", 0, 10), unwatched.session("s", 0, 10));
    compare_finely(
        name,
        RatioTarget::CostAtMost(1.03),
        "appends",
        || watched.append(&of_watched, 300),
        || unwatched.append(&of_unwatched, 300),
    )
}
