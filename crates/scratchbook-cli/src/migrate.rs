//! `scratchbook migrate`.

use scratchbook::store::{Migration, MigrationRun};
use serde_json::{Value, json};

use crate::args::MigrateArgs;
use crate::context::Context;
use crate::database::checked_uri;
use crate::failure::CommandFailure;
use crate::output::{Format, Output};

pub(crate) async fn migrate(context: &Context, args: MigrateArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let (run, done) = if args.dry_run { (MigrationRun::Dry, "missing") } else { (MigrationRun::Real, "applied") };
    let migrations = context.within(scratchbook::store::migrate(checked_uri(context)?, run)).await?;
    if out.format() == Format::Json {
        return Ok(out.json(&json!({done: migrations.iter().map(as_json).collect::<Vec<_>>()}))?);
    }
    if migrations.is_empty() {
        // The line is an SQL comment, so that the output of a dry run is always a script.
        return Ok(out.line("-- the tables are up to date")?);
    }
    for migration in &migrations {
        let Migration { version, name, sql, .. } = migration;
        match run {
            MigrationRun::Real => out.line(format_args!("applied {version}: {name}"))?,
            MigrationRun::Dry => out.text(format_args!("-- {version}: {name}\n{}\n", sql.trim_end()))?,
        }
    }
    Ok(())
}

fn as_json(migration: &Migration) -> Value {
    json!({"version": migration.version, "name": migration.name, "sql": migration.sql})
}
