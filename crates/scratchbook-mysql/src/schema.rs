//! Checking that the tables are ours, and migrating them.
//!
//! MySQL cannot roll back a statement that changes tables. So every statement of a migration can run again after a
//! crash in the middle, and a named lock, which ends with its connection, lets one process at a time migrate.

use std::time::Duration;

use mysql_async::Value;
use refinery_core::Runner;
use refinery_core::traits::r#async::AsyncTransaction as _;

use super::connection::Connections;
use super::lease::Lease;
use super::migrating::{
    HISTORY, Migrating, NEWEST, PROCEDURES, SchemaState, embedded, history, lacking, lost_procedures, names,
};
use super::row::RowCells;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::migrate::{Migration, MigrationRun, other_version_1};
use scratchbook_database::{Attempt, CommitFate, Failure, Idempotency, Migrate};

const TABLES: &[&str] = &[
    "sessions",
    "initial_states",
    "events",
    "checkpoints",
    "users",
    "apps",
    "session_states",
    "user_states",
    "app_states",
    "state_log",
    "state_commits",
    "feeds",
    "database_id",
    "artifacts",
    "id_turns",
    "removals",
    "removal_ends",
    "write_checks",
    "session_overview",
];

/// The timeout of a migration, so long that it is never reached in practice.
const NO_END: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long `migrate` waits for another process that is migrating.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many times the migration is tried if another process creates the same objects at the same time. The lock
/// excludes other processes on the same server, but not on other nodes of a cluster.
const LOOKS: u32 = 5;

/// Creates, checks or migrates the tables when a database is opened. Checking them takes no longer than the connect
/// timeout.
pub(super) async fn prepare(connections: &Connections, prefix: &str, mode: Migrate, wait: Duration) -> Result<()> {
    let place = connections.place();
    let seen = look(connections, prefix, wait).await?;
    if seen.version == NEWEST && seen.missing().next().is_none() {
        return Ok(());
    }
    if mode == Migrate::Auto {
        return run(connections, prefix, wait, wait).await.map(drop);
    }
    let what = match seen.version {
        0 => "has no tables of scratchbook's".to_owned(),
        version if version < NEWEST => format!("its tables have version {version}, this build needs {NEWEST}"),
        _ => {
            let missing: Vec<_> = seen.missing().map(|name| format!("{prefix}{name}")).collect();
            format!("the procedure {} is missing, or the user has no right to EXECUTE it", missing.join(", "))
        }
    };
    let advice = "run 'scratchbook migrate' as a user who may change tables";
    Err(Error::new(ErrorKind::FailedPrecondition, format!("{place}: {what}; {advice}")))
}

/// Returns the missing migrations, and runs them if `run` says so.
pub(super) async fn migrate(
    connections: &Connections,
    prefix: &str,
    run: MigrationRun,
    wait: Duration,
) -> Result<Vec<Migration>> {
    match run {
        MigrationRun::Real => self::run(connections, prefix, PATIENCE, wait).await,
        MigrationRun::Dry => lacking(look(connections, prefix, wait).await?, prefix),
    }
}

async fn look(connections: &Connections, prefix: &str, wait: Duration) -> Result<SchemaState> {
    let mut lease = connections.lease(Idempotency::Idempotent).await.map_err(error_of)?;
    lease.extend(wait);
    seen(&mut lease, prefix, connections.place()).await.map_err(error_of)
}

/// Runs the missing migrations. `patience` is the timeout for another process that is migrating, and `wait` is the
/// timeout of each check.
async fn run(connections: &Connections, prefix: &str, patience: Duration, wait: Duration) -> Result<Vec<Migration>> {
    let mut looks = 0;
    loop {
        looks += 1;
        match run_once(connections, prefix, patience, wait).await {
            Err(failure) if failure.fate == CommitFate::RolledBack && looks < LOOKS => {
                tracing::debug!(error = %failure.error, "checking the tables again");
                tokio::time::sleep(Duration::from_millis(200) * looks).await;
            }
            done => return done.map_err(error_of),
        }
    }
}

/// Runs the missing migrations under the lock.
async fn run_once(
    connections: &Connections,
    prefix: &str,
    patience: Duration,
    wait: Duration,
) -> Attempt<Vec<Migration>> {
    let place = connections.place();
    let mut lease = connections.lease(Idempotency::Idempotent).await?;
    // If something fails, the lock ends with the connection.
    lease.give_up_unless_kept();
    lease.migrate();
    // This is slightly longer than the wait for the lock, so that the answer arrives.
    lease.extend(patience + Duration::from_secs(5));
    lock(&mut lease, prefix, patience, place).await?;
    lease.extend(wait);
    let seen = seen(&mut lease, prefix, place).await?;
    let lacking = lacking(seen, prefix)?;
    let mut migrating = Migrating { lease, failure: None };
    if !lacking.is_empty() {
        // The wait for tables in use has the same timeout as the wait for another process. The setting affects no other
        // call, because the connection is not reused.
        migrating.lease.rows("SET SESSION lock_wait_timeout = ?", vec![PATIENCE.as_secs().into()]).await?;
        migrating.lease.extend(NO_END);
        carry_out(&mut migrating, seen, prefix, place).await?;
        tracing::debug!(version = NEWEST, "migrated the database");
    }
    let mut lease = migrating.lease;
    lease.extend(wait);
    lease.rows(&format!("DO RELEASE_LOCK({LOCK})"), vec![prefix.into()]).await?;
    Ok(lacking)
}

async fn carry_out(migrating: &mut Migrating<'_>, seen: SchemaState, prefix: &str, place: &str) -> Attempt<()> {
    let mut done = match lost_procedures(seen, prefix)? {
        Some(sql) => migrating.execute(std::iter::once(sql.as_str())).await.map(drop),
        None => Ok(()),
    };
    if done.is_ok() && seen.version < NEWEST {
        let mut runner = Runner::new(&embedded(prefix)?).set_grouped(false).set_abort_missing(false);
        runner.set_migration_table_name(history(prefix));
        let run = runner.run_async(migrating).await;
        done = run.map(drop).map_err(|e| Error::new(ErrorKind::FailedPrecondition, e.to_string()));
    }
    done.map_err(|error| {
        let (fate, error) =
            migrating.failure.take().map_or((CommitFate::NeverApplied, error), |why| (why.fate, why.error));
        let what = format!("{place}: the tables cannot be brought up to version {NEWEST}: {error}");
        Failure::new(fate, Error::new(error.kind(), what))
    })
}

fn error_of(failure: Failure) -> Error {
    failure.error
}

/// The name of the lock. It includes the database, because lock names are global to the server, and has at most 64
/// characters.
const LOCK: &str = "CONCAT('scratchbook.', LEFT(SHA2(CONCAT(DATABASE(), '.', ?), 256), 40))";

async fn lock(lease: &mut Lease<'_>, prefix: &str, wait: Duration, place: &str) -> Attempt<()> {
    let values = vec![Value::from(prefix), wait.as_secs().max(1).into()];
    let rows = lease.rows(&format!("SELECT GET_LOCK({LOCK}, ?)"), values).await?;
    let got = rows.into_iter().next().map(|row| RowCells::from(row).integer(0, || "a lock".to_owned()));
    if got.transpose()? == Some(1) {
        return Ok(());
    }
    let what = format!("{place}: another process has been migrating the tables for {} s; wait for it", wait.as_secs());
    Err(Error::new(ErrorKind::Unavailable, what).into())
}

/// Reads the state of the tables. Refuses tables that are not ours, or that are newer than this program.
async fn seen(lease: &mut Lease<'_>, prefix: &str, place: &str) -> Attempt<SchemaState> {
    let names = names(lease).await?;
    // Some servers store names in lower case.
    let is_there = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(&format!("{prefix}{name}")));
    let procedures = PROCEDURES.map(is_there);
    if !is_there(HISTORY) {
        return match TABLES.iter().find(|table| is_there(table)) {
            None => Ok(SchemaState { version: 0, procedures }),
            Some(table) => Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "{place}: a table '{prefix}{table}' is there, but not scratchbook's; use another database, or a \
                     table_prefix"
                ),
            )
            .into()),
        };
    }
    let sql =
        format!("SELECT COALESCE(MAX(version), 0), MAX(IF(version = 1, checksum, NULL)) FROM {}", history(prefix));
    let row = lease.rows(&sql, Vec::new()).await?.into_iter().next();
    let mut cells = RowCells::from(row.ok_or_else(|| Error::internal("the history of migrations has no answer"))?);
    let version = i32::try_from(cells.integer(0, || history(prefix))?).unwrap_or(i32::MAX);
    if let Some(checksum) = cells.optional_text(1, || history(prefix))?
        && embedded(prefix)?.first().is_some_and(|first| first.checksum().to_string() != checksum)
    {
        return Err(other_version_1(place).into());
    }
    if version > NEWEST {
        let what = format!("its tables have version {version}, this build knows up to {NEWEST}");
        let message = format!("{place}: {what}; use a newer scratchbook");
        return Err(Error::new(ErrorKind::FailedPrecondition, message).into());
    }
    Ok(SchemaState { version, procedures })
}
