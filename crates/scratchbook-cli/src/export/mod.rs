//! `scratchbook export`: what is in the database, as lines of JSON.

#[cfg(test)]
mod tests;
mod walk;
mod writer;

use scratchbook::SessionKey;
use serde_json::json;

use crate::args::{ExportArgs, Global};
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{Format, Output, visible};
use crate::progress::Progress;
use crate::unfinished::Unfinished;
use walk::{Selection, Walk};
use writer::LineWriter;

pub(crate) async fn export(global: &Global, args: ExportArgs, out: &mut Output) -> Result<(), Failure> {
    let selection = Selection::new(args.app.as_deref(), args.user.as_deref())?;
    let database = Database::open(global).await?;
    let Some(file) = &args.file else {
        let mut lines = LineWriter::standard_output(Progress::beside_standard_output("exporting", out.format()));
        Walk::new(&database, &mut lines).all(&selection).await?;
        lines.end()?;
        return database.close().await;
    };
    let unfinished = Unfinished::new(file);
    let mut lines = LineWriter::create(file, Progress::new("exporting", out.format()))?;
    let walked = tokio::select! {
        walked = Box::pin(Walk::new(&database, &mut lines).all(&selection)) => walked,
        Ok(()) = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
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

/// By which the artifacts of a user are asked for: they are seen from every session, one that is not there too.
pub(crate) fn any_session(app: &str, user: &str) -> Result<SessionKey, scratchbook::Error> {
    SessionKey::new(app, user, "-")
}
