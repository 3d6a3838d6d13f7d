//! `scratchbook import`: imports sessions and state from google-adk's databases, and from files of `scratchbook export`.
//!
//! - `session.rs` writes a session, or the missing rest of one. `owner_state.rs` restores the state of a user or an app.
//! - `adk/` reads google-adk's databases, `jsonl/` reads exports, `source.rs` has what both share.
//! - `report.rs` counts the written items, and lists the refused ones.

mod adk;
mod jsonl;
mod owner_state;
mod report;
mod session;
mod source;
pub mod untrusted;

use crate::args::{ImportArgs, ImportFormat};
use crate::context::{Context, DEFAULT_DATABASE};
use crate::database::{OpenDatabase, checked_uri};
use crate::failure::CommandFailure;
use crate::output::Output;
use crate::progress::Progress;
use report::ImportReport;

pub(crate) async fn import(context: &Context, args: ImportArgs, out: &mut Output) -> Result<(), CommandFailure> {
    checked_uri(context)?;
    // The source is opened first, so that an unreadable one creates no database.
    let source = match args.from {
        ImportFormat::AdkSqlite => ImportSource::Adk(adk::open(&args.source, adk::Layout::Sqlite).await?),
        ImportFormat::AdkDatabase => ImportSource::Adk(adk::open(&args.source, adk::Layout::Database).await?),
        ImportFormat::Jsonl => ImportSource::Jsonl(jsonl::open(&args.source)?),
    };
    let database = OpenDatabase::open_or_create(context, DEFAULT_DATABASE).await?;
    let mut report = ImportReport::new(Progress::new("importing", out.format()));
    match source {
        ImportSource::Adk(source) => adk::import(source.as_ref(), &database, &mut report).await?,
        ImportSource::Jsonl(file) => jsonl::import(file, &database, &mut report).await?,
    }
    database.close().await?;
    report.print(out)
}

/// Imports an export into an open database, and returns the report as JSON.
#[cfg(test)]
pub(crate) async fn lines(file: &str, database: &OpenDatabase) -> Result<serde_json::Value, CommandFailure> {
    let mut report = ImportReport::new(Progress::new("importing", crate::output::Format::Json));
    jsonl::import(jsonl::open(file)?, database, &mut report).await?;
    Ok(report.as_json())
}

/// An open source.
enum ImportSource {
    Adk(Box<dyn adk::AdkDatabase>),
    Jsonl(jsonl::CheckedFile),
}
