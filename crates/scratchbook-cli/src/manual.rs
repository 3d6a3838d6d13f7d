//! `scratchbook completions` and `scratchbook man`: files for shells and for `man`, made from the command's options.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use scratchbook::{Error, ErrorKind};
use serde_json::json;

use crate::args::{CompletionsArgs, ManArgs, command};
use crate::failure::CommandFailure;
use crate::output::{Format, Output, visible};

/// The name of the program.
const NAME: &str = "scratchbook";

/// Prints a script that completes the command's options in a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), NAME, &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// Writes a page for the command, and one for each of its subcommands.
pub(crate) fn man(args: &ManArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).map_err(|e| unwritten(folder, e))?;
    clap_mangen::generate_to(command(), folder).map_err(|e| unwritten(folder, e))?;
    let folder = folder.display().to_string();
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"folder": folder}))?);
    }
    Ok(out.line(format_args!("wrote the man pages to {}", visible(&folder)))?)
}

fn unwritten(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        io::ErrorKind::StorageFull => ErrorKind::ResourceExhausted,
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => ErrorKind::AlreadyExists,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{} cannot be written", path.display())).with_source(error)
}
