//! `scratchbook import`: sessions and state of other databases, and of files that `scratchbook export` has made.
//!
//! # Layout
//!
//! - `report.rs`: what was written, what was there already, what was refused.
//! - `session.rs`: a session goes into the store whole, or the rest of one that is there already.
//! - `shared.rs`: the state of a user or an app ends as the source has it, unless somebody changed it since.
//! - `adk/`: the databases of google-adk.
//! - `jsonl.rs`: our own files.

mod adk;
mod jsonl;
mod owner_state;
mod report;
mod session;
mod source;

use crate::args::{ImportArgs, Source};
use crate::context::{Context, DEFAULT_DATABASE};
use crate::database::{Database, checked_uri};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use report::Report;

pub(crate) async fn import(context: &Context, args: ImportArgs, out: &mut Output) -> Result<(), Failure> {
    checked_uri(context)?;
    // The source first: what cannot be read must not make a database.
    let source = match args.from {
        Source::AdkSqlite => From::Adk(adk::open(&args.source, adk::Layout::Sqlite).await?),
        Source::AdkDatabase => From::Adk(adk::open(&args.source, adk::Layout::Database).await?),
        Source::Jsonl => From::Jsonl(jsonl::open(&args.source)?),
    };
    let database = Database::open_or_create(context, DEFAULT_DATABASE).await?;
    let mut report = Report::new(Progress::new("importing", out.format()));
    match source {
        From::Adk(source) => adk::import(source.as_ref(), &database, &mut report).await?,
        From::Jsonl(file) => jsonl::import(file, &database, &mut report).await?,
    }
    database.close().await?;
    report.print(out)
}

/// Imports a file of ours into an open database, and gives the report as JSON.
#[cfg(test)]
pub(crate) async fn lines(file: &str, database: &Database) -> Result<serde_json::Value, Failure> {
    let mut report = Report::new(Progress::new("importing", crate::output::Format::Json));
    jsonl::import(jsonl::open(file)?, database, &mut report).await?;
    Ok(report.as_json())
}

/// A source that was opened.
enum From {
    Adk(Box<dyn adk::Rows>),
    Jsonl(jsonl::Checked),
}
