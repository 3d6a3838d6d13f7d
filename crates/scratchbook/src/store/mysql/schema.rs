//! Whose tables these are, and bringing them up to date.
//!
//! MySQL undoes no statement that changes tables. So every statement of a migration may run again after a crash in the
//! middle, and a lock with a name, which goes with its connection, lets one process at a time migrate.

use std::time::Duration;

use mysql_async::Value;
use refinery::Runner;
use refinery_core::AsyncMigrate;
use refinery_core::traits::r#async::{AsyncQuery, AsyncTransaction};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pool::{Care, Connections, Lease};
use super::row::Cells;
use super::script::{statements, with_prefix};
use crate::error::{Error, ErrorKind, Result};
use crate::store::database::{Failure, Migrate};
use crate::store::migrate::{Migration, MigrationRun};

/// Every version of the tables, by number.
const MIGRATIONS: &[(&str, &str)] = &[("V1__init", include_str!("migrations/V1__init.sql"))];

const HISTORY: &str = "scratchbook_migrations";

/// The procedure that this build calls.
const PROCEDURE: &str = "scratchbook_write_1";

const TABLES: &[&str] = &[
    "sessions",
    "initial_states",
    "events",
    "users",
    "apps",
    "session_states",
    "user_states",
    "app_states",
    "state_log",
    "artifacts",
    "session_overview",
];

/// How long a migration may take: as long as it does.
const NO_END: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long `migrate` waits for another that is at it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is found in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// 0 for none.
    version: i32,
    /// Whether the procedure is there, and for us to call.
    procedure: bool,
}

/// Sees to the tables when a database is opened.
pub(super) async fn prepare(connections: &Connections, prefix: &str, mode: Migrate, wait: Duration) -> Result<()> {
    let newest = MIGRATIONS.len() as i32;
    let place = connections.place();
    let seen = {
        let mut lease = connections.lease(Care::Again).await.map_err(error_of)?;
        seen(&mut lease, prefix, place).await?
    };
    if seen == (Seen { version: newest, procedure: true }) {
        return Ok(());
    }
    if mode == Migrate::Auto {
        return run(connections, prefix, wait).await.map(drop);
    }
    let what = match seen.version {
        0 => "has no tables of scratchbook's".to_owned(),
        version if version < newest => format!("its tables have version {version}, this build needs {newest}"),
        _ => format!("the procedure {prefix}{PROCEDURE} is missing, or the user has no right to EXECUTE it"),
    };
    let advice = "run 'scratchbook migrate' as a user who may change tables";
    Err(Error::new(ErrorKind::FailedPrecondition, format!("{place}: {what}; {advice}")))
}

/// The migrations that are lacking, carried out or not.
pub(super) async fn migrate(connections: &Connections, prefix: &str, run: MigrationRun) -> Result<Vec<Migration>> {
    match run {
        MigrationRun::Real => self::run(connections, prefix, PATIENCE).await,
        MigrationRun::Dry => {
            let mut lease = connections.lease(Care::Again).await.map_err(error_of)?;
            lacking(seen(&mut lease, prefix, connections.place()).await?, prefix)
        }
    }
}

/// Carries out what is lacking, under the lock.
async fn run(connections: &Connections, prefix: &str, wait: Duration) -> Result<Vec<Migration>> {
    let place = connections.place();
    let mut lease = connections.lease(Care::Again).await.map_err(error_of)?;
    // Its lock goes with the connection where something fails.
    lease.give_up_unless_kept();
    // A moment more than the lock itself waits, so that the answer comes.
    lease.extend(wait + Duration::from_secs(5));
    lock(&mut lease, prefix, wait, place).await?;
    // Tables in use are waited for as long as for another process; the connection is not kept.
    lease.rows("SET SESSION lock_wait_timeout = ?", vec![PATIENCE.as_secs().into()]).await.map_err(error_of)?;
    lease.extend(NO_END);
    let seen = seen(&mut lease, prefix, place).await?;
    let lacking = lacking(seen, prefix)?;
    let mut migrating = Migrating { lease, failure: None };
    if !seen.procedure && seen.version == MIGRATIONS.len() as i32 {
        // A copy of a database may lack its procedures, which mysqldump leaves out unless asked.
        let newest = MIGRATIONS.last().map_or("", |(_, sql)| *sql);
        migrating.execute([with_prefix(newest, prefix).as_str()].into_iter()).await?;
    } else if !lacking.is_empty() {
        let mut runner = Runner::new(&embedded(prefix)?).set_grouped(false).set_abort_missing(false);
        runner.set_migration_table_name(history(prefix));
        if let Err(e) = runner.run_async(&mut migrating).await {
            let what = format!("{place}: the tables cannot be brought up to version {}", MIGRATIONS.len());
            return Err(match migrating.failure.take() {
                Some(error) => Error::new(error.kind(), format!("{what}: {error}")),
                None => Error::new(ErrorKind::FailedPrecondition, format!("{what}: {e}")),
            });
        }
        tracing::debug!(version = MIGRATIONS.len(), "migrated the database");
    }
    let mut lease = migrating.lease;
    lease.rows(&format!("DO RELEASE_LOCK({LOCK})"), vec![prefix.into()]).await.map_err(error_of)?;
    Ok(lacking)
}

fn error_of(failure: Failure) -> Error {
    failure.error
}

/// The name is the server's, so it holds the database's; it has at most 64 characters.
const LOCK: &str = "CONCAT('scratchbook.', SHA1(CONCAT(DATABASE(), '.', ?)))";

async fn lock(lease: &mut Lease<'_>, prefix: &str, wait: Duration, place: &str) -> Result<()> {
    let values = vec![Value::from(prefix), wait.as_secs().max(1).into()];
    let rows = lease.rows(&format!("SELECT GET_LOCK({LOCK}, ?)"), values).await.map_err(error_of)?;
    let got = rows.into_iter().next().map(|row| Cells::from(row).integer(0, || "a lock".to_owned()));
    if got.transpose()? == Some(1) {
        return Ok(());
    }
    let what = format!("{place}: another process has been migrating the tables for {} s; wait for it", wait.as_secs());
    Err(Error::new(ErrorKind::Unavailable, what))
}

/// What is there; refuses what is not ours or is newer than we are.
async fn seen(lease: &mut Lease<'_>, prefix: &str, place: &str) -> Result<Seen> {
    let sql = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
        UNION ALL SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()";
    let rows = lease.rows(sql, Vec::new()).await.map_err(error_of)?;
    let names = rows.into_iter().map(|row| Cells::from(row).text(0, || "the name of a table".to_owned()));
    let names = names.collect::<Result<Vec<_>>>()?;
    // Some servers keep names in lower case.
    let is_there = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(&format!("{prefix}{name}")));
    let procedure = is_there(PROCEDURE);
    if !is_there(HISTORY) {
        return match TABLES.iter().find(|table| is_there(table)) {
            None => Ok(Seen { version: 0, procedure }),
            Some(table) => Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "{place}: a table '{prefix}{table}' is there, but not scratchbook's; use another database, or a \
                     table_prefix"
                ),
            )),
        };
    }
    let sql = format!("SELECT COALESCE(MAX(version), 0) FROM {}", history(prefix));
    let rows = lease.rows(&sql, Vec::new()).await.map_err(error_of)?;
    let version = rows.into_iter().next().map(|row| Cells::from(row).integer(0, || history(prefix))).transpose()?;
    let version = i32::try_from(version.unwrap_or_default()).unwrap_or(i32::MAX);
    let newest = MIGRATIONS.len() as i32;
    if version > newest {
        let what = format!("its tables have version {version}, this build knows up to {newest}");
        let message = format!("{place}: {what}; use a newer scratchbook");
        return Err(Error::new(ErrorKind::FailedPrecondition, message));
    }
    Ok(Seen { version, procedure })
}

fn history(prefix: &str) -> String {
    format!("`{prefix}{HISTORY}`")
}

fn embedded(prefix: &str) -> Result<Vec<refinery::Migration>> {
    let migration = |(name, sql): &(&str, &str)| {
        let migration = refinery::Migration::unapplied(name, &with_prefix(sql, prefix));
        migration.map_err(|e| Error::internal("a migration that is none").with_source(e))
    };
    MIGRATIONS.iter().map(migration).collect()
}

/// The migrations above a version, with the statements that record them, as they are run.
fn lacking(seen: Seen, prefix: &str) -> Result<Vec<Migration>> {
    let lacking = embedded(prefix)?.into_iter().filter(|migration| migration.version() > seen.version);
    let described = lacking.map(|migration| {
        let (table, name, checksum) = (history(prefix), migration.name(), migration.checksum());
        let plain = Migration::of(&migration);
        let version = plain.version;
        let sql = format!(
            "{}\n{}\nINSERT INTO {table} (version, name, applied_on, checksum)\nVALUES ({version}, '{name}', \
             DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ'), '{checksum}');\n",
            plain.sql,
            Migrating::assert_migrations_table_query(&table),
        );
        Migration { sql, ..plain }
    });
    Ok(described.collect())
}

/// A connection as the migrations see it.
struct Migrating<'a> {
    lease: Lease<'a>,
    /// What failed last: refinery wraps it.
    failure: Option<Error>,
}

impl AsyncTransaction for Migrating<'_> {
    type Error = Error;

    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(&'a mut self, files: T) -> Result<usize> {
        let mut count = 0;
        for statement in files.flat_map(statements) {
            count += 1;
            if let Err(failure) = self.lease.query(&statement).await {
                let first = statement.lines().next().unwrap_or_default();
                self.failure = Some(Error::new(failure.error.kind(), format!("{first} ...: {}", failure.error)));
                return Err(failure.error);
            }
        }
        Ok(count)
    }
}

impl AsyncQuery<Vec<refinery::Migration>> for Migrating<'_> {
    async fn query<'a>(&'a mut self, query: &'a str) -> Result<Vec<refinery::Migration>> {
        let rows = self.lease.rows(query, Vec::new()).await.map_err(error_of)?;
        let place = || "the history of migrations".to_owned();
        let applied = rows.into_iter().map(|row| {
            let mut cells = Cells::from(row);
            let (version, name) = (cells.integer(0, place)?, cells.text(1, place)?);
            let (time, checksum) = (cells.text(2, place)?, cells.text(3, place)?);
            Ok(refinery::Migration::applied(
                i32::try_from(version).unwrap_or(i32::MAX),
                name,
                OffsetDateTime::parse(&time, &Rfc3339).unwrap_or(OffsetDateTime::UNIX_EPOCH),
                checksum.parse().unwrap_or_default(),
            ))
        });
        applied.collect()
    }
}

impl AsyncMigrate for Migrating<'_> {}
