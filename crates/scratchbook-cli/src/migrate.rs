//! `scratchbook migrate`.

use scratchbook::session::Capability;
use scratchbook::store::{Migration, MigrationRun};
use serde_json::{Value, json};

use crate::args::MigrateArgs;
use crate::context::Context;
use crate::database::checked_uri;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, plural};
use crate::progress::Progress;

/// How many events get their running hash in one commit.
const AT_ONCE: usize = 500;

pub(crate) async fn migrate(context: &Context, args: MigrateArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let (run, done) = if args.dry_run { (MigrationRun::Dry, "missing") } else { (MigrationRun::Real, "applied") };
    let migrations = context.within(scratchbook::store::migrate(checked_uri(context)?, run)).await?;
    let hashed = if args.dry_run { 0 } else { hash_events(context, out).await? };
    if out.format() == Format::Json {
        let mut report = json!({done: migrations.iter().map(as_json).collect::<Vec<_>>()});
        if let (false, Some(report)) = (args.dry_run, report.as_object_mut()) {
            report.insert("hashedEvents".to_owned(), hashed.into());
        }
        return Ok(out.json(&report)?);
    }
    if hashed > 0 {
        out.line(format_args!("-- computed the running hash of {}", plural(hashed, "event")))?;
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

/// Computes the running hash of events without one: events from before an upgrade, and events that an older program has
/// appended. Each step is a separate commit, so the next command continues after an interrupted one.
async fn hash_events(context: &Context, out: &Output) -> Result<u64, CommandFailure> {
    let store = context.within(scratchbook::connect(checked_uri(context)?)).await?;
    if !store.sessions.capabilities().has(Capability::RunningHash) {
        return Ok(0);
    }
    let progress = Progress::counting("computing running hashes", out.format());
    let mut hashed = 0;
    loop {
        match store.sessions.hash_events(AT_ONCE).await? {
            0 => break,
            count => hashed += count,
        }
        progress.show(plural(hashed, "event"));
    }
    progress.finish();
    store.sessions.close().await?;
    Ok(hashed)
}

fn as_json(migration: &Migration) -> Value {
    json!({"version": migration.version, "name": migration.name, "sql": migration.sql})
}
