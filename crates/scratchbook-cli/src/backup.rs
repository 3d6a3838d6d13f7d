//! `scratchbook backup`.

use std::fs;

use scratchbook::{Error, ErrorKind, SqliteSessionService};
use serde_json::json;

use crate::args::BackupArgs;
use crate::context::Context;
use crate::database::sqlite_uri;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, visible};
use crate::partial_file::PartialFile;

pub(crate) async fn backup(context: &Context, args: BackupArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let uri = sqlite_uri(context)?;
    if args.file.as_os_str() == "-" {
        let message = "a copy cannot be written to standard output; name a file";
        return Err(Error::invalid(message).into());
    }
    let copy = PartialFile::new(&args.file);
    let made = tokio::select! {
        made = context.within(SqliteSessionService::backup_file(uri, &args.file)) => made,
        Ok(()) = tokio::signal::ctrl_c() => return Err(CommandFailure::Interrupted),
    };
    // The library removes a failed copy. After the deadline the copy may still be running, so the file is removed here.
    if !made.as_ref().is_err_and(|error| error.is_retryable()) {
        copy.keep();
    }
    made?;
    let file = args.file.display().to_string();
    let bytes = fs::metadata(&args.file).map(|file| file.len()).map_err(|e| {
        Error::new(ErrorKind::Unavailable, format!("{file}: the copy was made, but cannot be seen")).with_source(e)
    })?;
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"file": file, "bytes": bytes}))?);
    }
    Ok(out.line(format_args!("copied to {} ({bytes} bytes)", visible(&file)))?)
}
