//! Checking that the tables are ours, and migrating them.
//!
//! The migrations and the table of applied migrations have refinery's format. They are run here and not by refinery,
//! which would commit between its steps. Here everything happens in one transaction, under a lock that ends with the
//! transaction. This also works behind a pooler that gives each transaction another connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::connection::Connections;
use super::lease::Lease;
use super::read::column;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::migrate::{Migration, MigrationRun, other_version_1};
pub(crate) use scratchbook_database::{Attempt, CommitFate, DatabaseOptions, Failure, Migrate, check_name};

/// Every version of the tables, by number.
const MIGRATIONS: &[(&str, &str)] = &[("V1__init", include_str!("migrations/V1__init.sql"))];

/// The version that this program needs.
const NEWEST: usize = MIGRATIONS.len();

/// The pause before a process that lost a race checks the tables again.
const PAUSE: Duration = Duration::from_millis(100);

const MIGRATIONS_TABLE: &str = "scratchbook_migrations";

/// The objects that the first migration creates. Objects of others with these names must not be touched.
const NAMES: &[&str] = &[
    "positions",
    "database_id",
    "apps",
    "users",
    "sessions",
    "initial_states",
    "checkpoints",
    "events",
    "session_states",
    "user_states",
    "app_states",
    "state_log",
    "artifacts",
    "removals",
    "removal_ends",
    "write_checks",
    "session_overview",
];

/// Creates, checks or migrates the tables as the options say, and returns the quoted name of their schema.
pub(super) async fn prepare(connections: &Connections, options: &DatabaseOptions) -> Result<String> {
    let schema = TablesSchema::find(connections, options).await?;
    match options.migrate {
        Migrate::Off => {}
        Migrate::Check => {
            let pending = schema.pending(&lease(connections).await?).await.map_err(|failure| failure.error)?;
            if let Some(first) = pending.first() {
                let had = first.version() - 1;
                return Err(schema.refused(format!(
                    "the tables have version {had}, and {NEWEST} is needed; run `scratchbook migrate` with a role that \
                     may change tables"
                )));
            }
        }
        Migrate::Auto => drop(schema.migrate(connections, options, MigrationRun::Real).await?),
    }
    Ok(schema.quoted())
}

/// Returns the missing migrations, and runs them if `run` says so.
pub(super) async fn migrate(
    connections: &Connections,
    options: &DatabaseOptions,
    run: MigrationRun,
) -> Result<Vec<Migration>> {
    TablesSchema::find(connections, options).await?.migrate(connections, options, run).await
}

async fn lease(connections: &Connections) -> Result<Lease<'_>> {
    connections.lease().await.map_err(|failure| failure.error)
}

fn embedded() -> Result<BTreeMap<i32, refinery_core::Migration>> {
    let migration = |(name, sql): &(&str, &str)| {
        let migration = refinery_core::Migration::unapplied(name, sql);
        let migration =
            migration.map_err(|e| Error::internal(format!("the migration {name} cannot be read")).with_source(e))?;
        Ok((migration.version(), migration))
    };
    MIGRATIONS.iter().map(migration).collect()
}

/// The schema that contains, or will contain, the tables.
struct TablesSchema {
    name: String,
    place: String,
}

impl TablesSchema {
    async fn find(connections: &Connections, options: &DatabaseOptions) -> Result<Self> {
        let place = connections.place().to_owned();
        if let Some(name) = &options.schema {
            // PostgreSQL truncates longer names.
            check_name("schema", name, 63)?;
            return Ok(Self { name: name.clone(), place });
        }
        let row = lease(connections).await?.ask("SELECT pg_catalog.current_schema()::text", &[]).await;
        let row = row.map_err(|failure| failure.error)?;
        let name: Option<String> = column(&row, 0, || "the name of the schema".to_owned())?;
        let name = name.filter(|name| !name.contains(['"', '\'', '\\']));
        connections.know_schema();
        name.map(|name| Self { name, place: place.clone() }).ok_or_else(|| {
            let what = "the search path has no schema that can be used; name one with the parameter 'schema'";
            Error::new(ErrorKind::FailedPrecondition, format!("{place}: {what}"))
        })
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.name)
    }

    fn refused(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::FailedPrecondition, format!("{}: schema {:?}: {what}", self.place, self.name))
    }

    /// Returns the missing migrations, and runs them if `run` says so. If another process migrates first, or the
    /// connection is lost, the tables are checked again.
    async fn migrate(
        &self,
        connections: &Connections,
        options: &DatabaseOptions,
        run: MigrationRun,
    ) -> Result<Vec<Migration>> {
        let start = Instant::now();
        loop {
            let failure = match self.migrate_once(connections, run).await {
                Ok(migrations) => return Ok(migrations),
                Err(failure) => failure,
            };
            let again = matches!(failure.fate, CommitFate::RolledBack | CommitFate::LockTimeout | CommitFate::NotSent);
            if !again || start.elapsed() >= options.retry_timeout {
                return Err(failure.error.context("the tables cannot be brought up to date"));
            }
            tracing::warn!(error = %failure.error, "retrying the migration of the tables");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Checks the tables. If migrations are missing and `run` says so, checks the tables again under the lock and
    /// migrates them.
    async fn migrate_once(&self, connections: &Connections, run: MigrationRun) -> Attempt<Vec<Migration>> {
        // There is no deadline, because with one a long migration would never finish.
        let lease = connections.lease_without_deadline().await?;
        let mut pending = self.pending(&lease).await?;
        let missing = !pending.is_empty() && self.is_missing(&lease).await?;
        if !pending.is_empty() && run == MigrationRun::Real {
            pending = self.carry_out(&lease).await?;
        }
        let described = |m: &refinery_core::Migration| {
            Migration::new(m.version().unsigned_abs(), m.name(), self.script(m, missing))
        };
        Ok(pending.iter().map(described).collect())
    }

    async fn carry_out(&self, lease: &Lease<'_>) -> Attempt<Vec<refinery_core::Migration>> {
        lease.begin().await?;
        // Waits for another process to finish its migration, however long that takes. The wait for locks on tables
        // stays limited, because all users of the tables would wait behind us.
        lease.run(&format!("SET LOCAL lock_timeout = 0; {} SET LOCAL lock_timeout TO DEFAULT", self.lock())).await?;
        let pending = self.pending(lease).await?;
        if !pending.is_empty() && self.is_missing(lease).await? {
            lease.run(&format!("CREATE SCHEMA {}", self.quoted())).await?;
        }
        for migration in &pending {
            lease.run(&self.steps(migration)).await?;
        }
        lease.commit().await?;
        if let Some(last) = pending.last() {
            tracing::info!(schema = self.name, version = last.version(), "migrated the tables");
        }
        Ok(pending)
    }

    async fn is_missing(&self, lease: &Lease<'_>) -> Attempt<bool> {
        Ok(lease.rows("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", &[&self.name]).await?.is_empty())
    }

    /// Returns the missing migrations, oldest first. Refuses tables that are not ours, or that are newer than this
    /// program.
    async fn pending(&self, lease: &Lease<'_>) -> Attempt<Vec<refinery_core::Migration>> {
        let mut known = embedded()?;
        for (version, checksum) in self.applied(lease).await? {
            match known.remove(&version) {
                Some(migration) if migration.checksum().to_string() == checksum => {}
                Some(_) if version == 1 => {
                    return Err(other_version_1(&format!("{}: schema {:?}", self.place, self.name)).into());
                }
                Some(_) => {
                    let what = format!("the migration {version} that was applied is not the one this build knows");
                    return Err(self.refused(format!("{what}; use the scratchbook that made the tables")).into());
                }
                None => {
                    let what = format!("the tables have version {version}, this build knows up to {NEWEST}");
                    return Err(self.refused(format!("{what}; use a newer scratchbook")).into());
                }
            }
        }
        Ok(known.into_values().collect())
    }

    /// Returns the versions and checksums of the applied migrations; an empty list if there are no tables of ours.
    async fn applied(&self, lease: &Lease<'_>) -> Attempt<Vec<(i32, String)>> {
        let names: Vec<&str> = NAMES.iter().copied().chain([MIGRATIONS_TABLE]).collect();
        let sql = "SELECT c.relname::text
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relname = ANY ($2::text[]) ORDER BY 1";
        let rows = lease.rows(sql, &[&self.name, &names]).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.push(column::<String>(row, 0, || "the name of a table".to_owned())?);
        }
        if found.iter().any(|name| name == MIGRATIONS_TABLE) {
            let sql = format!("SELECT version, checksum FROM {}.{MIGRATIONS_TABLE} ORDER BY version", self.quoted());
            let rows = lease.rows(&sql, &[]).await?;
            let place = || format!("a row of {MIGRATIONS_TABLE}");
            let applied = rows.iter().map(|row| Ok((column(row, 0, place)?, column(row, 1, place)?)));
            return Ok(applied.collect::<Result<_>>()?);
        }
        match found.first() {
            None => Ok(Vec::new()),
            Some(name) => {
                let what = format!("there is a '{name}' that is not scratchbook's");
                Err(Failure::from(self.refused(format!("{what}; name another with the parameter 'schema'"))))
            }
        }
    }

    /// Returns a migration as a script that another role can run. An existing schema is not created, because that role
    /// may lack the permission.
    fn script(&self, migration: &refinery_core::Migration, missing: bool) -> String {
        let schema = if missing { format!("CREATE SCHEMA IF NOT EXISTS {};\n", self.quoted()) } else { String::new() };
        format!("BEGIN;\n{}\n{schema}{}COMMIT;\n", self.lock(), self.steps(migration))
    }

    /// Returns the statements of a migration, with the row that records it, for a transaction.
    fn steps(&self, migration: &refinery_core::Migration) -> String {
        let schema = self.quoted();
        let version = migration.version();
        let name = migration.name();
        let sql = migration.sql().unwrap_or_default().trim_end();
        let checksum = migration.checksum();
        format!(
            "SET LOCAL search_path TO {schema};\n\
             CREATE TABLE IF NOT EXISTS {MIGRATIONS_TABLE} (\n    \
                 version int4 PRIMARY KEY,\n    name varchar(255),\n    applied_on varchar(255),\n    \
                 checksum varchar(255)\n);\n\
             {sql}\n\
             INSERT INTO {MIGRATIONS_TABLE} (version, name, applied_on, checksum)\n\
             VALUES ({version}, '{name}', pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', \
             'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), '{checksum}');\n"
        )
    }

    /// Returns the statement that takes the lock under which the tables are migrated.
    fn lock(&self) -> String {
        let hash: [u8; 32] = Sha256::digest(format!("scratchbook migrations of {}", self.name)).into();
        let number = hash.iter().take(8).fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
        format!("SELECT pg_catalog.pg_advisory_xact_lock({number});")
    }
}
