//! The agent of a conversation: from a file, from a folder, or a built-in one.

use std::path::Path;
use std::sync::Arc;

use scratchbook::{Agent, Error, ErrorKind, LlmAgent, Result};

use crate::agents::{self, FileOptions, Programs};
use crate::args::ChatArgs;

/// The default model of the built-in agents, if its key is set. It is ADK's default, too.
const DEFAULT_MODEL: &str = "gemini-3.5-flash";

/// An agent to talk to, and its app.
#[derive(Debug)]
pub(super) struct ChatAgent {
    pub(super) app: String,
    pub(super) agent: Arc<dyn Agent>,
    /// A note to show before the conversation.
    pub(super) note: Option<String>,
}

impl ChatAgent {
    /// Finds the agent that the command line names. If the command line names no model and the default model has no
    /// key, the built-in agents answer by their scripts.
    ///
    /// # Errors
    ///
    /// If a file or a model is invalid, and `NotFound` if the app does not exist.
    pub(super) fn of(args: &ChatArgs) -> Result<Self> {
        let model = args.model.as_deref();
        if let Some(file) = &args.agent {
            let (app, agent) = match file.is_dir() {
                true => only(agents::of_folder(file, options(args))?, None)?,
                false => (args.app_name().unwrap_or_default(), agents::of_file(file, options(args))?),
            };
            return Ok(Self { app, agent, note: None });
        }
        if let Some(folder) = &args.agents {
            let (app, agent) = of_folder(folder, args)?;
            return Ok(Self { app, agent, note: None });
        }
        let (model, note) = match agents::hosted(model.unwrap_or(DEFAULT_MODEL)) {
            Ok(model) => (Some(model), None),
            // The model's key is missing. Only the default model is replaced by a script, not a model on the command
            // line.
            Err(error) if error.kind() == ErrorKind::FailedPrecondition && model.is_none() => {
                let note = format!(
                    "the demo's own script answers, without a network. For a real model: {error}, or name a model of \
                     another provider with --model."
                );
                (None, Some(note))
            }
            // The program has no remote models at all.
            Err(error) if error.kind() == ErrorKind::Unsupported && model.is_none() => {
                (None, Some(format!("{error}. The demo's own script answers.")))
            }
            Err(error) => return Err(error),
        };
        let apps = agents::demo(model)?.into_iter().map(|(name, agent)| (name.to_owned(), agent));
        let (app, agent) = only(apps.collect(), args.app_name().as_deref())?;
        Ok(Self { app, agent, note })
    }

    /// Returns the model's name, if the agent is an `LlmAgent`.
    pub(super) fn model(&self) -> Option<&str> {
        self.agent.as_llm_agent().and_then(LlmAgent::model).map(|model| model.name())
    }
}

fn of_folder(folder: &Path, args: &ChatArgs) -> Result<(String, Arc<dyn Agent>)> {
    let app = args.app.as_deref();
    // Only the folder of the app is loaded, so that errors in other folders do no harm.
    let own = app.map(|app| folder.join(app)).filter(|own| own.is_dir());
    only(agents::of_folder(own.as_deref().unwrap_or(folder), options(args))?, app)
}

fn options(args: &ChatArgs) -> FileOptions<'_> {
    let programs = Programs::allowed_if(args.allow_stdio_mcp);
    FileOptions { model: args.model.as_deref(), programs, ..FileOptions::default() }
}

/// Returns the app with this name, or else the only one.
fn only(mut apps: Vec<(String, Arc<dyn Agent>)>, name: Option<&str>) -> Result<(String, Arc<dyn Agent>)> {
    let names: Vec<_> = apps.iter().map(|(name, _)| name.clone()).collect();
    let names = names.join(", ");
    match name {
        Some(name) => {
            let found = apps.into_iter().find(|(app, _)| app == name);
            found.ok_or_else(|| Error::not_found(format!("there is no app '{name}'; there are: {names}")))
        }
        None => match (apps.pop(), apps.is_empty()) {
            (Some(app), true) => Ok(app),
            _ => Err(Error::invalid(format!("there are several apps; name one of them with --app: {names}"))),
        },
    }
}
