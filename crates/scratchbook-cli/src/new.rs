//! `scratchbook new`: makes the folder of an agent, as `adk create` does.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, absolute};

use scratchbook::{Error, ErrorKind};
use serde_json::json;

use crate::agents::check_model;
use crate::args::NewArgs;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, visible};
use crate::shell::quoted;

/// The agent's file, with placeholders for its name and its model.
const AGENT: &str = include_str!("new/root_agent.yaml");
const ENVIRONMENT: &str = include_str!("new/env.example");
const README: &str = include_str!("new/README.md");

/// Makes the folder and its files. Nothing is overwritten.
pub(crate) fn new(args: &NewArgs, out: &mut Output) -> Result<(), CommandFailure> {
    check_model(&args.model)?;
    let folder = absolute(&args.folder).map_err(|e| unmade(&args.folder, e))?;
    let name = app_name(&folder)?;
    let shown = args.folder.join("root_agent.yaml").display().to_string();
    let chat = format!("scratchbook chat --agent {}", quoted(&shown));
    let serve = format!("scratchbook serve --agents {}", quoted(&args.folder.display().to_string()));
    let filled = |text: &str| {
        let text = text.replace("{app}", &name).replace("{agent}", &name.replace('-', "_"));
        text.replace("{model}", &args.model).replace("{chat}", &chat).replace("{serve}", &serve)
    };
    fs::create_dir_all(&folder).map_err(|e| unmade(&folder, e))?;
    let files = [("root_agent.yaml", AGENT), (".env.example", ENVIRONMENT), ("README.md", README)];
    let files = files.map(|(name, text)| (folder.join(name), filled(text)));
    if let Some((taken, _)) = files.iter().find(|(path, _)| path.exists()) {
        let message = format!("{} exists already; name another folder", taken.display());
        return Err(Error::new(ErrorKind::AlreadyExists, message).into());
    }
    for (path, text) in &files {
        let made = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
        made.map_err(|e| unmade(path, e))?;
    }
    if out.format() == Format::Json {
        let files = files.map(|(path, _)| path.display().to_string());
        return Ok(out.json(&json!({"app": name, "files": files, "chat": chat, "serve": serve}))?);
    }
    let folder = args.folder.display().to_string();
    out.line(format_args!("made the agent {name} in {}; its model is {}", visible(&folder), visible(&args.model)))?;
    out.line("Talk to it with:")?;
    out.text(visible(&chat))?;
    out.line("Serve it with:")?;
    Ok(out.text(visible(&serve))?)
}

/// Returns the name of the app, which is the name of the folder. The rule is ADK's.
fn app_name(folder: &Path) -> Result<String, Error> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) && name != "user" {
        return Ok(name);
    }
    Err(Error::invalid(format!(
        "the folder '{name}' cannot be an app; call it by a letter, then letters, digits, '_' and '-', and not 'user'"
    )))
}

fn unmade(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => ErrorKind::AlreadyExists,
        io::ErrorKind::StorageFull => ErrorKind::ResourceExhausted,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{} cannot be made", path.display())).with_source(error)
}
