//! `scratchbook export`: writes sessions, state and artifacts as JSON Lines.

mod exporter;
#[cfg(test)]
mod tests;
mod writer;

use serde_json::json;

use crate::args::ExportArgs;
use crate::context::Context;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, visible};
use crate::partial_file::PartialFile;
use crate::progress::Progress;
use crate::walk::Selection;
use exporter::Exporter;
use writer::LineWriter;
pub(crate) use writer::{create_new, not_written};

pub(crate) async fn export(context: &Context, args: ExportArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let selection = Selection::new(args.app.as_deref(), args.user.as_deref())?;
    let database = OpenDatabase::open(context).await?;
    let Some(file) = args.file.as_ref().filter(|file| file.as_os_str() != "-") else {
        let mut lines = LineWriter::standard_output(Progress::beside_standard_output("exporting", out.format()));
        Exporter::new(&database, &mut lines).all(&selection).await?;
        lines.end()?;
        return database.close().await;
    };
    let unfinished = PartialFile::new(file);
    let mut lines = LineWriter::create(file, Progress::new("exporting", out.format()))?;
    let walked = tokio::select! {
        walked = Box::pin(Exporter::new(&database, &mut lines).all(&selection)) => walked,
        Ok(()) = tokio::signal::ctrl_c() => return Err(CommandFailure::Interrupted),
    };
    walked?;
    let counts = lines.end()?;
    unfinished.keep();
    database.close().await?;
    let file = file.display().to_string();
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"file": file, "exported": counts}))?);
    }
    Ok(out.line(format_args!(
        "exported to {}: apps {}, users {}, sessions {}, events {}, versions of artifacts {}",
        visible(&file),
        counts.apps,
        counts.users,
        counts.sessions,
        counts.events,
        counts.artifacts
    ))?)
}
