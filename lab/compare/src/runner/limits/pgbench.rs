//! The limit of PostgreSQL with a connection for each task: pgbench, which writes the rows of one append in a transaction
//! of its own.

use std::fmt::Write as _;
use std::process::Command;

use scratchbook_compare::protocol::{CellRequest, Measurement};

use super::postgres::APPEND;
use super::rows::app;
use crate::events::event;
use crate::failure::{CellFailure, Result};
use crate::store::BenchStore;

/// The largest number of connections. The server of the benchmark takes 600, and the other runners of a group hold some
/// of them.
const MOST_CONNECTIONS: usize = 256;

/// How long pgbench runs at least, in seconds. This includes the time in which it connects, which does not count.
const LEAST_SECONDS: f64 = 3.0;

/// How long it may take to make a connection, in seconds. pgbench ends without a result if its time is over before.
const CONNECTING: f64 = 0.02;

/// The database of a store. The store is idle.
pub(crate) struct PgbenchLimit {
    store: BenchStore,
    version: String,
}

impl PgbenchLimit {
    pub(super) fn open(store: BenchStore) -> Result<Self> {
        store.runtime.block_on(store.kept_session(0))?;
        let version = Command::new("pgbench").arg("--version").output();
        let version = version.map_err(|error| CellFailure::new(format!("pgbench did not start: {error}")))?;
        let version = String::from_utf8_lossy(&version.stdout);
        // "pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
        let version = version.split_whitespace().nth(2).unwrap_or_default().to_owned();
        Ok(Self { store, version })
    }

    pub(super) fn version(&self) -> String {
        self.version.clone()
    }

    pub(super) fn measure(&self, request: &CellRequest) -> Result<Measurement> {
        if request.workload != "append" || request.tasks > MOST_CONNECTIONS {
            return Err(super::unsupported(request));
        }
        let addresses = self.store.runtime.block_on(super::addresses(&self.store, request))?;
        let quoted = addresses.into_iter().map(|(user, session)| (format!("'{user}'"), format!("'{session}'")));
        let (users, sessions): (Vec<_>, Vec<_>) = quoted.unzip();
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("append.sql");
        std::fs::write(&path, script(&users, &sessions))?;
        let event = serde_json::to_string(&event(0)?)?;
        let seconds = (request.seconds + CONNECTING * request.tasks as f64).ceil().max(LEAST_SECONDS);
        let (tasks, seconds) = (request.tasks.to_string(), seconds.to_string());
        let threads = std::thread::available_parallelism()?.get().min(request.tasks).to_string();
        let mut pgbench = Command::new("pgbench");
        pgbench.args([
            "--no-vacuum",
            "--protocol=prepared",
            "--client",
            &tasks,
            "--jobs",
            &threads,
            "--time",
            &seconds,
        ]);
        pgbench.args(["--define", &format!("event={event}"), "--file"]).arg(&path).arg(&self.store.location);
        let output = pgbench.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = || CellFailure::new(format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr).trim()));
        let (operations, seconds) = measured(&said).filter(|_| output.status.success()).ok_or_else(failed)?;
        Ok(Measurement { operations, seconds, ..Measurement::default() })
    }
}

/// Returns the statement of the other limit for one event. Each client has its own session.
fn script(users: &[String], sessions: &[String]) -> String {
    let hash = "'\\x0707070707070707070707070707070707070707070707070707070707070707'";
    let values = [
        format!("'{}'", app()),
        "ARRAY[users[client]]".to_owned(),
        "ARRAY[sessions[client]]".to_owned(),
        format!(
            "ARRAY[(SELECT seq + 1 FROM sessions WHERE app_name = '{}' AND user_id = users[client] AND id = sessions[client])]",
            app()
        ),
        "ARRAY[gen_random_uuid()::text]".to_owned(),
        "ARRAY[:event]".to_owned(),
        "ARRAY['\"step ' || (random() * 1e9)::bigint || '\"']".to_owned(),
        format!("{hash}::bytea"),
    ];
    let mut sql = APPEND.to_owned();
    for (number, value) in values.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", number + 1), value);
    }
    let of_client = |all: &[String]| format!("(ARRAY[{}])[:client_id + 1]", all.join(", "));
    sql = sql.replace("users[client]", &of_client(users)).replace("sessions[client]", &of_client(sessions));
    // Writing to a string cannot fail.
    let _ = writeln!(sql, ";");
    sql
}

/// Returns how many transactions pgbench made, and in how many seconds.
fn measured(said: &str) -> Option<(u64, f64)> {
    let after = |label: &str| said.lines().find_map(|line| line.strip_prefix(label));
    let count: u64 = after("number of transactions actually processed: ")?.split('/').next()?.trim().parse().ok()?;
    let rate: f64 = after("tps = ")?.split(' ').next()?.parse().ok()?;
    (count > 0 && rate > 0.0).then(|| (count, count as f64 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_no_parameter_left() {
        let sql = script(&["'a'".to_owned()], &["'s'".to_owned()]);
        assert!(!sql.contains('$') && !sql.contains("[client]") && sql.trim_end().ends_with(';'), "{sql}");
    }

    #[test]
    fn the_rate_is_that_of_the_transactions_without_the_connections() {
        let said = "number of transactions actually processed: 500\nlatency average = 2 ms\n\
                    initial connection time = 3 ms\ntps = 250.5 (without initial connection time)\n";
        let (count, seconds) = measured(said).unwrap();
        assert_eq!((count, (seconds * 1000.0).round()), (500, 1996.0));
        assert_eq!(measured("number of transactions actually processed: 0\ntps = 0.0\n"), None);
    }
}
